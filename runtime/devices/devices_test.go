package devices

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

const kind = "vendor.com/gpu"

const offer = `
cdiVersion: 0.6.0
kind: vendor.com/gpu
devices:
- {name: all, containerEdits: {deviceNodes: [{path: /dev/gpu0}, {path: /dev/gpu1}, {path: /dev/gpu2}]}}
- {name: GPU-1234, containerEdits: {deviceNodes: [{path: /dev/gpu0}]}}
- {name: "0", containerEdits: {deviceNodes: [{path: /dev/gpu0}]}}
- {name: "1:0", containerEdits: {deviceNodes: [{path: /dev/gpu1}, {path: /dev/part0}]}}
- {name: "1:1", containerEdits: {deviceNodes: [{path: /dev/gpu1}, {path: /dev/part1}]}}
- {name: "10", containerEdits: {deviceNodes: [{path: /dev/null}], env: [GPU=ten]}}
- {name: "2", containerEdits: {deviceNodes: [{path: /dev/null}], env: [GPU=two]}}
`

// open opens devices that the files offer, and returns what is logged.
func open(t *testing.T, dir string, files ...string) (*Devices, *bytes.Buffer) {
	t.Helper()
	specs, logged := t.TempDir(), &bytes.Buffer{}
	for i, content := range files {
		if err := os.WriteFile(filepath.Join(specs, string(rune('a'+i))+".yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(Options{Dir: dir, SpecDirs: []string{specs}, Logger: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return d, logged
}

func podOf(t *testing.T, uid, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	pod.UID = types.UID(uid)
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

func asking(t *testing.T, uid, n string) *corev1.Pod {
	return podOf(t, uid, `containers: [{name: c, resources: {requests: {vendor.com/gpu: `+n+`}}}]`)
}

func TestADeviceOfSeveralNamesIsOne(t *testing.T) {
	d, _ := open(t, t.TempDir(), offer)
	want := []string{"vendor.com/gpu=2", "vendor.com/gpu=10", "vendor.com/gpu=1:0", "vendor.com/gpu=1:1"}
	got := slices.DeleteFunc(slices.Clone(d.kinds[kind]), func(name string) bool {
		return name == "vendor.com/gpu=0" || name == "vendor.com/gpu=GPU-1234" // either will do
	})
	slices.Sort(got)
	slices.Sort(want)
	if n := d.Capacity()[kind]; !slices.Equal(got, want) || n.Value() != int64(len(want))+1 {
		t.Errorf("got %v, want %v and one more", d.kinds[kind], want)
	}
}

func TestAFileThatIsNoneCostsNothingElse(t *testing.T) {
	d, logged := open(t, t.TempDir(), offer, "kind: nonsense")
	if _, err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logged.String(), "b.yaml"); len(d.kinds) != 1 || n != 1 {
		t.Errorf("got %v, warned of it %d times: %s", d.kinds, n, logged)
	}
}

func TestDevicesAreKnownAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "devices")
	d, _ := open(t, dir, offer)
	first, err := d.SetUp(t.Context(), asking(t, "a", "2"), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	d, _ = open(t, dir, offer) // the daemon has died
	again, err := d.SetUp(t.Context(), asking(t, "a", "2"), atOnce)
	if err != nil || !slices.Equal(again["c"][kind], first["c"][kind]) || len(first["c"][kind]) != 2 {
		t.Errorf("it had %v, and has %v, %v", first, again, err)
	}
	unplugged, _ := open(t, dir)
	if still, err := unplugged.SetUp(t.Context(), asking(t, "a", "2"), atOnce); err != nil || unplugged.Inject(&specs.Spec{}, still["c"]) == nil {
		t.Errorf("it goes on without what is not offered any more: %v, %v", still, err)
	}
	second, err := d.SetUp(t.Context(), asking(t, "b", "3"), atOnce)
	if err != nil || slices.ContainsFunc(second["c"][kind], func(name string) bool { return slices.Contains(first["c"][kind], name) }) {
		t.Errorf("one has %v and the other %v, %v", first, second, err)
	}
	if held, err := d.Held(); len(held) != 2 || err != nil {
		t.Errorf("held by %v, %v", held, err)
	}

	t.Run("who is early waits for one to come free", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := d.SetUp(ctx, asking(t, "c", "1"), atOnce); err == nil || !strings.Contains(err.Error(), "0 devices of kind vendor.com/gpu are free") {
			t.Errorf("got %v", err)
		}
		done := make(chan error)
		go func() {
			given, err := d.SetUp(context.Background(), asking(t, "c", "1"), atOnce)
			if len(given["c"][kind]) != 1 {
				err = errors.Join(err, errors.New("it has none"))
			}
			done <- err
		}()
		if err := d.TearDown("a"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for _, uid := range []string{"b", "c", "never"} {
		if err := d.TearDown(uid); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestInject(t *testing.T) {
	d, _ := open(t, t.TempDir(), offer)
	spec := &specs.Spec{Process: &specs.Process{}, Linux: &specs.Linux{}}
	if err := d.Inject(spec, map[corev1.ResourceName][]string{kind: {"vendor.com/gpu=10"}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(spec.Process.Env, []string{"GPU=ten"}) || len(spec.Linux.Devices) != 1 ||
		spec.Linux.Devices[0].Path != "/dev/null" || len(spec.Linux.Resources.Devices) != 1 {
		t.Errorf("got %+v %+v", spec.Process, spec.Linux)
	}
	if err := d.Inject(spec, map[corev1.ResourceName][]string{kind: {"vendor.com/gpu=gone"}}); err == nil {
		t.Error("one that is gone is had")
	}
}

// Containers that run together share no device, and each has as many as it asks for.
func TestShare(t *testing.T) {
	d := &Devices{kinds: map[corev1.ResourceName][]string{kind: nil}}
	rapid.Check(t, func(t *rapid.T) {
		always := corev1.ContainerRestartPolicyAlways
		pod := &corev1.Pod{}
		container := func(name string) corev1.Container {
			c := corev1.Container{Name: name}
			if n := rapid.Int64Range(0, 3).Draw(t, name); n > 0 {
				quantity := corev1.ResourceList{kind: *resource.NewQuantity(n, resource.DecimalSI)}
				c.Resources = corev1.ResourceRequirements{Requests: quantity, Limits: quantity}
			}
			return c
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "init") {
			c := container("i" + string(rune('0'+i)))
			if rapid.Bool().Draw(t, "sidecar") {
				c.RestartPolicy = &always
			}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "main") {
			pod.Spec.Containers = append(pod.Spec.Containers, container("m"+string(rune('0'+i))))
		}
		var devices []string
		asks, err := d.asks(pod)
		if err != nil {
			t.Fatal(err)
		}
		for i := range asks[kind] {
			devices = append(devices, string(rune('a'+i)))
		}
		given := Assigned{}
		given.share(pod, kind, devices)

		sidecars := map[string]bool{}
		use := func(c *corev1.Container, with map[string]bool) {
			if len(given[c.Name][kind]) != asked(c, kind) {
				t.Fatalf("%s has %v, and asks for %d", c.Name, given[c.Name][kind], asked(c, kind))
			}
			for _, device := range given[c.Name][kind] {
				if with[device] {
					t.Fatalf("%s has %s, and is not the only one: %v", c.Name, device, given)
				}
				with[device] = true
			}
		}
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			if c.RestartPolicy != nil {
				use(c, sidecars)
			} else {
				use(c, maps.Clone(sidecars))
			}
		}
		for i := range pod.Spec.Containers {
			use(&pod.Spec.Containers[i], sidecars)
		}
	})
}

// atOnce waits where nobody else needs the turn.
func atOnce(wait func()) { wait() }

// Of what a container with the host's own files gets nothing is mounted, and nothing is run.
func TestInjectNodes(t *testing.T) {
	const withMore = `{"cdiVersion": "0.6.0", "kind": "vendor.com/gpu", "containerEdits": {"env": ["GPU=all"],
  "mounts": [{"hostPath": "/etc/hostname", "containerPath": "/usr/lib/lib.so"}], "hooks": [{"hookName": "createContainer", "path": "/bin/true"}]},
"devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}}]}`
	d, _ := open(t, t.TempDir(), withMore)
	spec := &specs.Spec{Process: &specs.Process{Env: []string{"A=b"}}, Linux: &specs.Linux{}}
	if err := d.InjectNodes(spec, map[corev1.ResourceName][]string{kind: {"vendor.com/gpu=0"}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(spec.Process.Env, []string{"A=b", "GPU=all"}) || len(spec.Linux.Devices) != 1 || len(spec.Linux.Resources.Devices) != 1 ||
		len(spec.Mounts) > 0 || spec.Hooks != nil {
		t.Errorf("got %+v", spec)
	}
	if err := d.InjectNodes(spec, map[corev1.ResourceName][]string{kind: {"vendor.com/gpu=gone"}}); err == nil {
		t.Error("one that is gone is had")
	}
}
