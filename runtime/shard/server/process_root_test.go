package server

import (
	"context"
	"errors"
	"testing"

	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestProcessEndsWithItsContext(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("c", "sleep", "100")
		for name, open := range map[string]func(ctx context.Context) (*shard.Process, error){
			"exec": func(ctx context.Context) (*shard.Process, error) {
				return b.Exec(ctx, "c", protocol.Exec{Args: []string{"sleep", "77"}})
			},
			"attach": func(ctx context.Context) (*shard.Process, error) {
				return b.Attach(ctx, "c", protocol.Attach{Stdout: true})
			},
		} {
			ctx, cancel := context.WithCancel(b.context())
			p, err := open(ctx)
			must(t, err)
			cancel()
			if _, err := p.Wait(b.context()); !errors.Is(err, context.Canceled) {
				t.Errorf("%s that is called off: %v", name, err)
			}
			if _, err := p.Stdout.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s that is called off can still be read", name)
			}
			p.Close()
		}
		if got := b.execute("c", protocol.Exec{Args: []string{"echo", "well"}}, ""); got.out != "well\n" {
			t.Errorf("the container afterwards: %+v", got)
		}
	})
}
