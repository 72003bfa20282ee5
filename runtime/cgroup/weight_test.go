package cgroup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWeightsAreParsed(t *testing.T) {
	for text, want := range map[string]Weight{"": {}, "idle": {Idle: true}, "1": {Value: 1}, "10000": {Value: 10000}} {
		if got, err := ParseWeight(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "10001", "-1", "Idle", "1.5", "many"} {
		if got, err := ParseWeight(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// hierarchyWith makes a directory that looks like a hierarchy, with a group and its files.
func hierarchyWith(t *testing.T, v2 bool, controller string, files ...string) (Hierarchies, string) {
	t.Helper()
	one := hierarchy{mount: t.TempDir(), v2: v2}
	dir := one.dir("/pods")
	if v2 {
		write(t, filepath.Join(one.mount, "cgroup.controllers"), controller)
	} else {
		one.options = []string{controller}
	}
	for _, name := range files {
		write(t, filepath.Join(dir, name), "?")
	}
	return Hierarchies{all: []hierarchy{one}, main: one}, dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWeights(t *testing.T) {
	type files = map[string]string
	for name, c := range map[string]struct {
		v2         bool
		controller string
		there      []string
		weight     Weight
		want       files
	}{
		"CPU, v1":         {false, "cpu", []string{"cpu.shares"}, Weight{Value: 100}, files{"cpu.shares": "1024"}},
		"little CPU, v1":  {false, "cpu", []string{"cpu.shares"}, Weight{Value: 1}, files{"cpu.shares": "10"}},
		"much CPU, v1":    {false, "cpu", []string{"cpu.shares"}, Weight{Value: 10000}, files{"cpu.shares": "102400"}},
		"idle, v1":        {false, "cpu", []string{"cpu.shares", "cpu.idle"}, Weight{Idle: true}, files{"cpu.shares": "10", "cpu.idle": "1"}},
		"idle, an old v1": {false, "cpu", []string{"cpu.shares"}, Weight{Idle: true}, files{"cpu.shares": "10"}},
		"CPU, v2":         {true, "cpu", []string{"cpu.weight", "cpu.idle"}, Weight{Value: 7}, files{"cpu.weight": "7", "cpu.idle": "0"}},
		"idle, v2":        {true, "cpu", []string{"cpu.weight", "cpu.idle"}, Weight{Idle: true}, files{"cpu.weight": "1", "cpu.idle": "1"}},
		"as usual again":  {true, "cpu", []string{"cpu.weight", "cpu.idle"}, Weight{}, files{"cpu.weight": "100", "cpu.idle": "0"}},
		"disks, v1":       {false, "blkio", []string{"blkio.bfq.weight"}, Weight{Value: 100}, files{"blkio.bfq.weight": "100"}},
		"little disk, v1": {
			false, "blkio", []string{"blkio.bfq.weight", "blkio.weight"}, Weight{Value: 1}, files{"blkio.bfq.weight": "1", "blkio.weight": "10"},
		},
		"much disk, v1":    {false, "blkio", []string{"blkio.weight"}, Weight{Value: 10000}, files{"blkio.weight": "1000"}},
		"disks, v2":        {true, "io", []string{"io.weight"}, Weight{Value: 300}, files{"io.weight": "default 300"}},
		"idle disks, v2":   {true, "io", []string{"io.weight", "io.prio.class"}, Weight{Idle: true}, files{"io.weight": "default 1", "io.prio.class": "idle"}},
		"BFQ's, v2":        {true, "io", []string{"io.bfq.weight"}, Weight{Value: 10000}, files{"io.bfq.weight": "1000"}},
		"no group to mend": {false, "cpu", nil, Weight{}, files{}},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := hierarchyWith(t, c.v2, c.controller, c.there...)
			weigh := h.WeighIO
			if c.controller == "cpu" {
				weigh = h.WeighCPU
			}
			if err := weigh("/pods", c.weight); err != nil {
				t.Fatal(err)
			}
			got := files{}
			for _, name := range c.there {
				content, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				got[name] = strings.TrimSpace(string(content))
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestAHostWithoutWeightsSaysSo(t *testing.T) {
	h, _ := hierarchyWith(t, false, "blkio")
	if err := h.WeighIO("/pods", Weight{Idle: true}); !errors.Is(err, ErrNoWeight) {
		t.Error(err)
	}
	if err := h.WeighCPU("/pods", Weight{Value: 5}); !errors.Is(err, ErrNoWeight) {
		t.Error(err)
	}
	if err := h.WeighCPU("/pods", Weight{}); err != nil {
		t.Error(err)
	}
}
