package server

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// TestLogins: what a container of a user does, and what is executed in it, is that user's to the audit log, whatever it says itself. What is
// nobody's has no login but that of the shard, whoever was started before.
func TestLogins(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		shard, err := os.ReadFile("/proc/self/loginuid")
		if err != nil {
			t.Skip(err) // the kernel has no audit log
		}
		const read = "cat /proc/self/loginuid"
		for i, c := range []struct {
			id, does string
			login    uint32
			want     string
		}{
			{"alice", "echo 64002 2>/dev/null >/proc/self/loginuid", 64001, "64001"}, {"nobody", "true", 0, string(shard)},
			{"bob", "echo 64001 2>/dev/null >/proc/self/loginuid", 64002, "64002"}, {"again", "true", 64001, "64001"},
		} {
			start := b.request(c.id, b.spec(c.id, "sh", "-c", c.does+"; "+read+"; echo; exec sleep 3600"))
			if c.login != 0 {
				start.Login = &c.login
			}
			_, err := b.Start(b.context(), start)
			must(t, err)
			if got := b.execute(c.id, protocol.Exec{Args: []string{"sh", "-c", c.does + "; " + read}}, ""); got.out != c.want {
				t.Errorf("%d: executed as %+v, want %s", i, got, c.want)
			}
			for late := time.Now().Add(time.Minute); len(b.log(c.id)) == 0 && time.Now().Before(late); {
				time.Sleep(time.Millisecond)
			}
			must(t, b.Signal(b.context(), c.id, unix.SIGKILL, true))
			b.exit(c.id)
			if log := strings.Join(b.log(c.id), "\n"); log != "stdout F "+c.want {
				t.Errorf("%d: it says %q, want %s", i, log, c.want)
			}
		}
	})
}
