package containerd

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
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
	// What the killed shard held is kept where the kernel allows that, and is reported as lost elsewhere.
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

// Shards that hold nothing end with the daemon. The others keep what they hold until it comes back.
func TestCloseEndsShardsThatHoldNothing(t *testing.T) {
	r := newRig(t, "")
	c := r.container(t, pod("u1", "sleep 1000"), "main")
	pid := r.start(t, c).PID
	pids := map[int]int{}
	for i, one := range r.shards.all {
		pids[i] = one.PID()
	}
	holder := r.shards.of("u1")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Join(r.config.State, "shards"))
	if err != nil || len(entries) != 1 || entries[0].Name() != strconv.Itoa(holder) {
		t.Errorf("left of the shards: %v, %v", entries, err)
	}
	for i, pid := range pids {
		if i != holder {
			untilGone(t, pid)
		}
	}
	r.open(t)
	if got := r.shards.at(holder).PID(); got != pids[holder] {
		t.Errorf("the shard of the container was %d and is %d", pids[holder], got)
	}
	if got := r.state(t, c.ID); got.State != runtime.Running || got.PID != pid {
		t.Errorf("got %+v", got)
	}
	if err := r.Remove(context.Background(), c.ID); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left := leftOnHost(r.config.State, r.config.CgroupParent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	r.open(t)
}
