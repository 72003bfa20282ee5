package gpus

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/nvidia"
)

// TestForeign: which programs keep a card from pods.
func TestForeign(t *testing.T) {
	for name, c := range map[string]struct {
		pod   string
		draws bool
		mb    int64
		want  bool
	}{
		"one that computes":                         {"", false, 9000, true},
		"one of a pod":                              {"p", false, 9000, false},
		"the service of MPS":                        {"", false, 30, false},
		"one that computes a little":                {"", false, 300, true},
		"one that computes with who knows how much": {"", false, -1, true},
		"a desktop":                                 {"", true, 700, false},
		"a desktop with who knows how much":         {"", true, -1, false},
		"a game":                                    {"", true, 6000, true},
	} {
		u := use{Process: nvidia.Process{Draws: c.draws, Memory: c.mb << 20}, Owner: nvidia.Owner{Pod: c.pod}}
		if c.mb < 0 {
			u.Memory = nvidia.Unknown
		}
		if got := u.foreign(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUsesOf: which devices a process uses. A device is its cards and capabilities, a process its card, GPU instance and compute instance.
func TestUsesOf(t *testing.T) {
	const capabilities = "config 1\nmonitor 2\ngpu1/gi3/access 30\ngpu1/gi3/ci0/access 31\ngpu1/gi4/access 40\ngpu1/gi4/ci0/access 41\nnonsense\n"
	cards := map[string]devices.Card{
		"nvidia.com/gpu=0": {Minors: []int{0}}, "nvidia.com/gpu=1:0": {Minors: []int{1}, Capabilities: []int{30, 31}},
		"nvidia.com/gpu=1:1": {Minors: []int{1}, Capabilities: []int{40, 41}}, "nvidia.com/pair=a": {Minors: []int{0, 1}},
	}
	none := nvidia.Unknown
	r := &nvidia.Report{GPUs: []nvidia.GPU{
		{Index: 0, Minor: 1, Processes: []nvidia.Process{ // the driver numbers cards in another order than their files
			{PID: 11, GPU: 3, Compute: 0}, {PID: 12, GPU: 4, Compute: 0}, {PID: 13, GPU: 4, Compute: 1}, {PID: 14, GPU: none, Compute: none},
			{PID: 99, GPU: none, Compute: none},
		}},
		{Index: 1, Minor: 0, Processes: []nvidia.Process{
			{PID: 1, GPU: none, Compute: none, Memory: 5}, {PID: 1, GPU: none, Compute: none, Memory: 7, Draws: true},
		}},
	}}
	owner := func(pid int) nvidia.Owner { return nvidia.Owner{Gone: pid == 99, Started: "then"} }
	got := map[string][]int{}
	all := usesOf(r, cards, minors(capabilities), owner)
	for _, u := range all {
		got[u.device] = append(got[u.device], u.PID)
	}
	want := map[string][]int{
		"nvidia.com/gpu=0": {1}, "nvidia.com/gpu=1:0": {11, 14}, "nvidia.com/gpu=1:1": {12, 14}, "nvidia.com/pair=a": {11, 12, 13, 14, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if all[0].Memory != 7 || !all[0].Draws {
		t.Errorf("a process that is listed twice: %+v", all[0])
	}
	later := still(all, func(pid int) nvidia.Owner {
		started := "then"
		if pid == 12 {
			started = "later" // another process with its pid
		}
		return nvidia.Owner{Gone: pid == 11, Started: started}
	})
	if slices.ContainsFunc(later, func(u use) bool { return u.PID == 11 || u.PID == 12 }) || len(later) != len(all)-4 {
		t.Errorf("what is still there: %+v", later)
	}
}

func TestProgram(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/python3 train.py --password x": "python3", "python": "python", "": "", "[Not Found]": "", "[Insufficient Permissions]": "", "./a": "a",
	} {
		u := use{Process: nvidia.Process{Name: name}}
		if got := u.program(); got != want || strings.Contains(got, "password") {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
