package cgroup

import (
	"os"
	"testing"
)

func TestExpectedMovesLeaveTheProcessWhereItIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenMoves()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		m.Expect()
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if m.last.Load() == 0 {
		t.Error("nothing was moved")
	}
	if after, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(after) != string(before) {
		t.Errorf("was in\n%s, is in\n%s, %v", before, after, err)
	}
	(*Moves)(nil).Expect()
}
