package containerd

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jobd/jobd/runtime"
)

func TestTwoRuntimesDoNotMeet(t *testing.T) {
	a, b := newRig(t, "crun"), newRig(t, "crun")
	ca, cb := a.container(t, pod("u1", "sleep 1000"), "main"), b.container(t, pod("u1", "sleep 1000"), "main")
	a.start(t, ca)
	b.start(t, cb)
	a.Close()
	if err := Clean(context.Background(), a.config.Root, a.config.State); err != nil {
		t.Fatal(err)
	}
	a.Runtime = nil
	if got := b.state(t, cb.ID); got.State != runtime.Running || syscall.Kill(got.PID, 0) != nil {
		t.Errorf("got %+v", got)
	}
	if left := leftOnHost(filepath.Base(a.config.State), a.config.CgroupParent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if list, _ := b.Containers(context.Background()); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
}
