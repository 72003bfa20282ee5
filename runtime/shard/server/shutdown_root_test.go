package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/shard"
)

func TestShutdownOfAShardThatHoldsContainers(t *testing.T) {
	b := newBed(t, "crun")
	b.run("c", "true")
	if err := b.Shutdown(b.context()); !errors.Is(err, errdefs.ErrFailedPrecondition) {
		t.Error(err)
	}
	b.exit("c")
	_, err := b.Delete(b.context(), "c")
	must(t, err)
}

func TestShutdownLeavesNothing(t *testing.T) {
	b := newBed(t, "crun")
	o := b.options
	o.Dir, o.Cgroup = filepath.Join(b.dir, "other"), b.cgroup+"/other"
	other, err := shard.Open(b.context(), o)
	must(t, err)
	pid := other.PID()
	request := b.request("c", b.spec("c", "true"))
	_, err = other.Start(b.context(), request)
	must(t, err)
	b.exit("c")
	_, err = other.Delete(b.context(), "c")
	must(t, err)
	must(t, other.Shutdown(b.context()))
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(cmdline), o.Dir) {
		t.Errorf("it runs: %s", cmdline)
	}
	if entries, err := os.ReadDir(o.Dir); !os.IsNotExist(err) {
		t.Errorf("its directory is left with %v, %v", entries, err)
	}
	h, err := cgroup.Find()
	must(t, err)
	// That of the other shard still exists.
	if names, err := h.Children(b.cgroup); err != nil || len(names) != 1 || names[0] != "shard" {
		t.Errorf("control groups %v, %v", names, err)
	}
	again, err := shard.Open(b.context(), o)
	must(t, err)
	must(t, again.Shutdown(b.context()))
}

// A container that is to be started in a shard which is about to end is started in the next one.
func TestStartWhileTheShardEnds(t *testing.T) {
	b := newBed(t, "crun")
	for round := range 10 {
		before := b.PID()
		id := fmt.Sprint("c", round)
		request := b.request(id, b.spec(id, "true"))
		var both sync.WaitGroup
		both.Go(func() { _ = unix.Kill(before, unix.SIGTERM) })
		both.Go(func() {
			if _, err := b.Start(b.context(), request); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if t.Failed() {
			return
		}
		b.exit(id)
		_, err := b.Delete(b.context(), id)
		must(t, err)
	}
}

// A daemon that connects while a shard ends at the request of another one gets a shard.
func TestOpenWhileTheShardEnds(t *testing.T) {
	b := newBed(t, "crun")
	o := b.options
	o.Dir, o.Cgroup = filepath.Join(b.dir, "other"), b.cgroup+"/other"
	for round := range 10 {
		first, err := shard.Open(b.context(), o)
		must(t, err)
		must(t, unix.Kill(first.PID(), unix.SIGTERM))
		must(t, first.Close())
		second, err := shard.Open(b.context(), o)
		must(t, err)
		id := fmt.Sprint("c", round)
		if _, err := second.Start(b.context(), b.request(id, b.spec(id, "true"))); err != nil {
			t.Error(err)
		}
		b.exit(id)
		_, err = second.Delete(b.context(), id)
		must(t, err)
		must(t, second.Shutdown(b.context()))
	}
}

// A daemon that is killed says nothing to its shards.
func TestShardWithoutContainersOutlivesItsDaemon(t *testing.T) {
	b := newBed(t, "crun")
	pid := b.PID()
	must(t, b.Close())
	b.open()
	if b.PID() != pid {
		t.Errorf("another shard: %d, was %d", b.PID(), pid)
	}
}
