package shard

import (
	"context"
	"errors"
	"testing"
)

func TestProcessEndsWithItsContext(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("c", "sleep", "100")
		for name, open := range map[string]func(ctx context.Context) (*Process, error){
			"exec": func(ctx context.Context) (*Process, error) {
				return b.Exec(ctx, "c", Exec{Args: []string{"sleep", "77"}})
			},
			"attach": func(ctx context.Context) (*Process, error) { return b.Attach(ctx, "c", Attach{Stdout: true}) },
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
		if got := b.execute("c", Exec{Args: []string{"echo", "well"}}, ""); got.out != "well\n" {
			t.Errorf("the container afterwards: %+v", got)
		}
	})
}
