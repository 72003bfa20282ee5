package server

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/thread"
)

// TestTracedContainersEnd: a container that is killed has ended, and can be deleted, though a process outside traces it, and does not wait
// for its end.
func TestTracedContainersEnd(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		c := b.run("c", "sleep", "3600")
		traced, over := make(chan error), make(chan struct{})
		thread.Start(func() {
			traced <- unix.PtraceSeize(c.PID)
			<-over // it traces as long as the thread is there
		})
		defer close(over)
		must(t, <-traced)
		must(t, b.Signal(b.context(), "c", unix.SIGKILL, true))
		if end := b.exit("c"); end.State != protocol.Exited || end.ExitCode != 128+int(unix.SIGKILL) {
			t.Errorf("it has ended as %+v", end)
		}
		_, err := b.Delete(b.context(), "c")
		must(t, err)
	})
}
