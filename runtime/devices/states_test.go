package devices

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispecs "tags.cncf.io/container-device-interface/specs-go"
)

// cards is a file with as many cards of NVIDIA.
func cards(t *testing.T, n int) (dir string) {
	t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name": "%d", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia%d"}]}}`, i, i))
	}
	dir = t.TempDir()
	content := `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [` + strings.Join(list, ",") + `]}`
	if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestChoose: which devices pods are given, and which have to wait. A pod is written as its name and what it asks for; "a-" gives back
// what a has. Others than pods use what stands behind "used".
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		cards, replicas int
		steps, want     string
	}{
		"whole ones in their order":           {3, 0, "a:gpu=1 b:gpu=2 c:gpu=1", "a=0 b=1,2 c=waits"},
		"one that is used is left out":        {2, 0, "used=0 a:gpu=1 b:gpu=1", "a=1 b=waits"},
		"one that is used no more":            {1, 0, "used=0 a:gpu=1 used= b:gpu=1", "a=waits b=0"},
		"a pod keeps what others come to use": {1, 0, "a:gpu=1 used=0 a:gpu=1 a- b:gpu=1", "a=0 a=0 b=waits"},
		"shares are spread evenly":            {2, 2, "a:shared=1 b:shared=1 c:shared=1 d:shared=1 e:shared=1", "a=0 b=1 c=0 d=1 e=waits"},
		"the emptiest device is shared next":  {2, 3, "a:shared=1 b:shared=1 c:shared=1 b- d:shared=1", "a=0 b=1 c=0 d=1"},
		"a whole one waits for who shares it": {1, 4, "a:shared=1 b:shared=1 c:gpu=1 a- c:gpu=1 b- c:gpu=1", "a=0 b=0 c=waits c=waits c=0"},
		"nobody shares what a pod has alone":  {1, 4, "a:gpu=1 b:shared=1", "a=0 b=waits"},
		"whole and shared beside each other":  {2, 4, "a:gpu=1 b:shared=1 c:gpu=1 d:shared=1", "a=0 b=1 c=waits d=1"},
		"nobody shares what others use":       {2, 4, "used=0 a:shared=1 b:shared=1", "a=1 b=1"},
		"two containers share one or two":     {2, 2, "a:shared=2", "a=0,1"},
		"without replicas nothing is shared":  {1, 0, "a:shared=1", "a="},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), SpecDirs: []string{cards(t, c.cards)}, LookFirst: true, Logger: slog.New(slog.DiscardHandler)}
			if c.replicas > 0 {
				o.Replicas = map[corev1.ResourceName]int{"nvidia.com/gpu": c.replicas}
			}
			d, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			d.SetUsed(map[string]bool{})
			var got []string
			for step := range strings.FieldsSeq(c.steps) {
				if numbers, ok := strings.CutPrefix(step, "used="); ok {
					used := map[string]bool{}
					for n := range strings.SplitSeq(numbers, ",") {
						used["nvidia.com/gpu="+n] = n != ""
					}
					d.SetUsed(used)
					continue
				}
				if pod, ok := strings.CutSuffix(step, "-"); ok {
					if err := d.TearDown(pod); err != nil {
						t.Fatal(err)
					}
					continue
				}
				pod, ask, _ := strings.Cut(step, ":")
				kind, n, _ := strings.Cut(ask, "=")
				resource := map[string]string{"gpu": "nvidia.com/gpu", "shared": "nvidia.com/gpu.shared"}[kind]
				got = append(got, pod+"="+chosen(t, d, podOf(t, pod, `containers: [{name: c, resources: {requests: {`+resource+`: `+n+`}}}]`)))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			// What is on the disk says the same.
			again, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d.Holders(), again.Holders()); diff != "" {
				t.Errorf("after a restart: -before +after\n%s", diff)
			}
		})
	}
}

// chosen returns the numbers of the devices that a pod is given, or that it waits.
func chosen(t *testing.T, d *Devices, pod *corev1.Pod) string {
	t.Helper()
	asks, err := d.asks(pod)
	if err != nil {
		t.Fatal(err)
	}
	given, _, err := d.give(pod, asks)
	if errdefs.IsUnavailable(err) {
		return "waits"
	} else if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, names := range given["c"] {
		for _, name := range names {
			all = append(all, strings.TrimPrefix(name, "nvidia.com/gpu="))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// TestLookFirst: no card is given away before somebody has looked who uses it, and other devices are.
func TestLookFirst(t *testing.T) {
	dir := cards(t, 1)
	if err := os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"cdiVersion": "0.5.0", "kind": "vendor.com/net",
"devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/net0"}]}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	moves := 0
	d, err := Open(Options{
		Dir: t.TempDir(), SpecDirs: []string{dir}, LookFirst: true, Moved: func() { moves++ }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	gpu := podOf(t, "a", `containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]`)
	if got := chosen(t, d, gpu); got != "waits" {
		t.Errorf("before anybody has looked it has %q", got)
	}
	if got := chosen(t, d, podOf(t, "b", `containers: [{name: c, resources: {requests: {vendor.com/net: 1}}}]`)); got == "waits" {
		t.Error("a device that is no card is held back")
	}
	before := moves
	d.SetUsed(map[string]bool{})
	d.SetUsed(map[string]bool{})
	if got := chosen(t, d, gpu); got != "0" || moves != before+1 {
		t.Errorf("it has %q, after %d moves", got, moves-before)
	}
	want := []State{{Kind: "nvidia.com/gpu", Devices: []Device{{Name: "nvidia.com/gpu=0", Pods: map[string]int{"a": 0}}}}}
	if diff := cmp.Diff(want, d.States()); diff != "" || d.Moved() {
		t.Errorf("-want +got\n%s", diff)
	}
	d.SetUsed(nil)
	want[0].Devices[0].Used = true
	if diff := cmp.Diff(want, d.States()); diff != "" {
		t.Errorf("when nobody looks any more: -want +got\n%s", diff)
	}
}

func TestCardOf(t *testing.T) {
	for nodes, want := range map[string]Card{
		"/dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm":               {Minors: []int{0}},
		"/dev/nvidia3 /dev/nvidia-caps/nvidia-cap21 /dev/dri/card1": {Minors: []int{3}, Capabilities: []int{21}},
		"/dev/nvidiactl":                  {},
		"/dev/kfd /dev/dri/renderD128":    {},
		"/dev/nvidia99999999999999999999": {},
	} {
		device := &cdi.Device{Device: &cdispecs.Device{}}
		for path := range strings.FieldsSeq(nodes) {
			device.ContainerEdits.DeviceNodes = append(device.ContainerEdits.DeviceNodes, &cdispecs.DeviceNode{Path: path})
		}
		got, ok := cardOf(device)
		if diff := cmp.Diff(want, got); diff != "" || ok != (len(want.Minors) > 0) {
			t.Errorf("%s: -want +got\n%s", nodes, diff)
		}
	}
}
