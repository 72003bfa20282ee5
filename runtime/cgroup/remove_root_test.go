package cgroup

import (
	"crypto/rand"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A group is removed with all that runs in it and below, in whatever hierarchies it is.
func TestRemoveAll(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	h, err := Find()
	must(t, err)
	group := "/jobd-test-" + strings.ToLower(rand.Text()[:8])
	var below []*exec.Cmd
	for _, at := range []string{group + "/below", group + "/below/further"} {
		cmd := exec.Command("sleep", "1000")
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		if err := Enter(at, cmd.Process.Pid); err != nil {
			_ = h.RemoveAll(group)
			t.Skipf("no control groups can be made here: %v", err)
		}
		below = append(below, cmd)
	}
	if got := h.Processes(group); len(got) != 2 || !slices.Contains(got, below[0].Process.Pid) {
		t.Errorf("processes %v", got)
	}
	if h.Extra() != "" && len(processesBelow(h.Extra()+group)) != 2 {
		t.Error("they are not in the v2 hierarchy")
	}
	ended := make(chan error, len(below))
	for _, cmd := range below {
		go func() { ended <- cmd.Wait() }()
	}
	must(t, h.RemoveAll(group))
	for range below {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("one ended with %v", err)
		}
	}
	for _, one := range h.all {
		if _, err := os.Stat(one.dir(group)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", one.dir(group), err)
		}
	}
	must(t, h.RemoveAll(group))
}

// What is in use is left alone.
func TestPrune(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	h, err := Find()
	must(t, err)
	group := "/jobd-test-" + strings.ToLower(rand.Text()[:8])
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := Enter(group+"/below", cmd.Process.Pid); err != nil {
		_ = h.RemoveAll(group)
		t.Skipf("no control groups can be made here: %v", err)
	}
	must(t, h.Prune(group))
	must(t, h.Prune(group+"/below"))
	if got := h.Processes(group + "/below"); len(got) != 1 {
		t.Errorf("processes %v", got)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, h.Prune(group+"/below"))
	must(t, h.Prune(group))
	if names, err := h.Children("/"); err != nil || slices.Contains(names, group[1:]) {
		t.Errorf("it is left: %v", err)
	}
	must(t, h.Prune(group))
}
