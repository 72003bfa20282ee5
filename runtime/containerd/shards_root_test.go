package containerd

import (
	"context"
	"syscall"
	"testing"

	"github.com/jobd/jobd/runtime"
)

func TestShardThatDies(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	r.start(t, c)
	if err := syscall.Kill(r.shards.at(r.shards.of("u1")).PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := r.container(t, pod("u1", "echo next"), "main")
	next.ID = runtime.ContainerID("u1", "next", 0)
	next.Spec.Linux.CgroupsPath = r.config.CgroupParent + "/" + next.ID
	r.start(t, next)
	if status := r.wait(t, next.ID); status.ExitCode != 0 {
		t.Errorf("a start while the shard was dead: %+v", status)
	}
	// What the dead one held is kept where the kernel allows that, and is known to be lost elsewhere.
	if r.state(t, c.ID).State == runtime.Running {
		if err := r.Signal(context.Background(), c.ID, syscall.SIGKILL, true); err != nil {
			t.Fatal(err)
		}
		if status := r.wait(t, c.ID); status.ExitCode != 137 {
			t.Errorf("got %+v", status)
		}
	} else if status := r.wait(t, c.ID); status.State != runtime.Lost {
		t.Errorf("got %+v", status)
	}
}
