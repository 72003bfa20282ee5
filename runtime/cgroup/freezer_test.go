package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

// processorTime returns the processor time of a process, in ticks.
func processorTime(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(stat))[13:15], " ")
}

// versions returns the hierarchies of this host as if it had only those of one version of control groups.
func versions(t *testing.T) map[string]Hierarchies {
	t.Helper()
	h, err := Find()
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs control groups, and root")
	}
	found := map[string]Hierarchies{}
	for _, one := range h.all {
		if one.v2 {
			found["v2"] = Hierarchies{all: []hierarchy{one}, main: one}
			continue
		}
		v1 := found["v1"]
		v1.all, v1.main = append(v1.all, one), h.main
		found["v1"] = v1
	}
	return found
}

func TestFrozenGroups(t *testing.T) {
	for version, h := range versions(t) {
		t.Run(version, func(t *testing.T) {
			group := fmt.Sprintf("/jobd-freezer-test-%d", os.Getpid())
			if err := h.Freeze(group, true); !errors.Is(err, errdefs.ErrNotFound) {
				t.Skipf("this host does not let groups be frozen: %v", err)
			}
			spin := exec.Command("sh", "-c", "while :; do :; done")
			if err := spin.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = spin.Process.Kill() })
			if err := Enter(group, spin.Process.Pid); err != nil {
				t.Skip(err)
			}
			whole, err := Find()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = whole.RemoveAll(group) })
			if h.Frozen(group) {
				t.Error("a new group is frozen")
			}
			if err := h.Freeze(group, true); err != nil {
				t.Fatal(err)
			}
			before := processorTime(t, spin.Process.Pid)
			for range 1000 { // to freeze it again changes nothing, and takes some time
				if err := h.Freeze(group, true); err != nil {
					t.Fatal(err)
				}
			}
			if now := processorTime(t, spin.Process.Pid); now != before || !h.Frozen(group) {
				t.Errorf("it runs: %s, then %s", before, now)
			}
			if err := h.Freeze(group, false); err != nil || h.Frozen(group) {
				t.Errorf("it stays frozen: %v", err)
			}
			if err := h.Freeze(group, true); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- spin.Wait() }()
			h.Kill(group)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Error("what was frozen does not end when it is killed")
			}
		})
	}
}

// What was frozen goes with its group, and with the group above it.
func TestFrozenGroupsAreRemoved(t *testing.T) {
	h, err := Find()
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs control groups, and root")
	}
	group := fmt.Sprintf("/jobd-freezer-tree-%d", os.Getpid())
	spin := exec.Command("sleep", "1000")
	if err := spin.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = spin.Wait() }()
	t.Cleanup(func() { _ = spin.Process.Kill() })
	if err := Enter(group+"/below", spin.Process.Pid); err != nil {
		t.Skip(err)
	}
	if err := h.Freeze(group+"/below", true); err != nil {
		_ = spin.Process.Kill()
		_ = h.RemoveAll(group)
		t.Skip(err)
	}
	if err := h.RemoveAll(group); err != nil {
		t.Error(err)
	}
}
