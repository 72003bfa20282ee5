// Package devices assigns pods the devices of this machine that the Container Device Interface describes: a file of it
// names devices of a kind such as nvidia.com/gpu, and what a container needs for each. A kind is a resource that
// containers ask for, and a device is assigned to one pod at a time, or, as a kind that is shared, to a few.
//
// It takes pods and produces edits of the OCI specs of their containers, and follows the files (Watch). What a pod was
// assigned is recorded before it is used, in one file per pod below STATE/devices, until the pod has been torn down: so it
// is known again after the daemon has died.
package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/jobd/jobd/internal/files"
)

// freeTimeout bounds how long a pod waits until another pod's devices are free: the other has ended, or there would
// have been no room for this one.
const freeTimeout = time.Minute

// Assigned holds the devices of a pod by container and kind, under their full names: nvidia.com/gpu=0. Those of which it has a share
// are also under the empty name, each as often as the pod has one of its shares.
type Assigned map[string]map[corev1.ResourceName][]string

// Devices assigns the devices of this machine. It is safe for concurrent use.
type Devices struct {
	options  Options
	unusable map[string]string // why files cannot be used, as it was logged last; refresh alone uses it

	mu    sync.Mutex
	cache *cdi.Cache                       // never refreshed: another one takes its place
	kinds map[corev1.ResourceName][]string // the names of the devices
	cards map[string]Card                  // those of NVIDIA, by the names of the devices
	pods  map[string]Assigned              // by UID
	freed chan struct{}                    // closed when there may be more free devices
	// used are the devices that others than pods use; nil: nobody has looked yet.
	used map[string]bool
	// moved says that States may return something else than before.
	moved atomic.Bool
}

// Options say where devices are described. All of it is required but for Missed, Replicas and LookFirst.
type Options struct {
	// Dir is where it is recorded which devices pods have.
	Dir string
	// SpecDirs are the directories of the CDI files. They need not exist.
	SpecDirs []string
	// Missed reports whether a resource that no file offers stands for devices all the same, since files offered them
	// before: pods that request it wait. Nil: it never does.
	Missed func(corev1.ResourceName) (bool, error)
	// Replicas is how many pods may share a device of a kind.
	Replicas map[corev1.ResourceName]int
	// LookFirst says that no card is assigned before somebody has looked who else uses it (SetUsed).
	LookFirst bool
	// Moved is told that States may return something else than before. It must not block.
	Moved  func()
	Logger *slog.Logger
}

// Open reads which devices there are, and which of them pods have. A file that cannot be used is logged, and only the
// devices in it are missing.
func Open(o Options) (*Devices, error) {
	d := &Devices{options: o, pods: map[string]Assigned{}, freed: make(chan struct{})}
	if _, err := d.refresh(); err != nil {
		return nil, err
	}
	dir := o.Dir
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("devices: %w", err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		var given Assigned
		if err == nil && !strings.HasSuffix(e.Name(), files.Unfinished) {
			err = json.Unmarshal(content, &given)
		}
		if err != nil {
			return nil, fmt.Errorf("devices of pod %s: %w", e.Name(), err)
		}
		if given != nil {
			d.pods[e.Name()] = given
		}
	}
	return d, nil
}

// refresh reads the CDI files, and reports whether they offer other devices than before.
func (d *Devices) refresh() (changed bool, err error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(d.options.SpecDirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return false, fmt.Errorf("devices: %w", err)
	}
	unusable := map[string]string{}
	for path, errs := range cache.GetErrors() {
		unusable[path] = errors.Join(errs...).Error()
		if d.unusable[path] != unusable[path] {
			d.options.Logger.Warn("cannot offer the devices of a file to pods", "path", path, "error", unusable[path])
		}
	}
	d.unusable = unusable
	named := map[corev1.ResourceName][]*cdi.Device{}
	for _, name := range cache.ListDevices() {
		vendor, class, _ := parser.ParseDevice(name)
		kind := corev1.ResourceName(vendor + "/" + class)
		named[kind] = append(named[kind], cache.GetDevice(name))
	}
	kinds, cards := map[corev1.ResourceName][]string{}, map[string]Card{}
	for kind, all := range named {
		kinds[kind] = distinct(all)
		for _, device := range all {
			if card, ok := cardOf(device); ok && slices.Contains(kinds[kind], device.GetQualifiedName()) {
				cards[device.GetQualifiedName()] = card
			}
		}
	}
	d.mu.Lock()
	changed = !maps.EqualFunc(d.kinds, kinds, slices.Equal)
	d.cache, d.kinds, d.cards = cache, kinds, cards
	d.wake()
	d.mu.Unlock()
	if changed {
		d.move()
	}
	return changed, nil
}

// wake wakes those who wait for free devices. The lock must be held.
func (d *Devices) wake() {
	close(d.freed)
	d.freed = make(chan struct{})
}

// Capacity returns how many devices of each kind there are.
func (d *Devices) Capacity() corev1.ResourceList {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := corev1.ResourceList{}
	for kind, all := range d.kinds {
		out[kind] = *resource.NewQuantity(int64(len(all)), resource.DecimalSI)
		if n := d.options.Replicas[kind]; n > 0 {
			out[kind+sharedSuffix] = *resource.NewQuantity(int64(n*len(all)), resource.DecimalSI)
		}
	}
	return out
}

// SetUp ensures that a pod has the devices that it asks for, and waits until they are free where need be: within away,
// since the teardown of those who have them may need the caller's turn.
func (d *Devices) SetUp(ctx context.Context, pod *corev1.Pod, away func(wait func())) (Assigned, error) {
	asks, err := d.asks(pod)
	if err != nil || len(asks) == 0 && !d.has(pod) {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	for {
		given, freed, err := d.give(pod, asks)
		if err == nil || !errdefs.IsUnavailable(err) {
			return given, err
		}
		away(func() {
			select {
			case <-freed:
			case <-ctx.Done():
			}
		})
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

// has reports whether a pod has devices, even ones that no longer exist: that is reported when a container is to get
// them.
func (d *Devices) has(pod *corev1.Pod) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.pods[string(pod.UID)]
	return ok
}

// give assigns a pod what is free, or returns an errdefs.ErrUnavailable and a channel that is closed when more may be
// free.
func (d *Devices) give(pod *corev1.Pod, asks map[corev1.ResourceName]int) (Assigned, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	uid := string(pod.UID)
	if given, ok := d.pods[uid]; ok {
		return given, nil, nil
	}
	given := Assigned{}
	held := d.holdings()
	for _, kind := range slices.Sorted(maps.Keys(asks)) { // whole devices first: nvidia.com/gpu.shared is behind nvidia.com/gpu
		chosen, err := d.choose(kind, asks[kind], held)
		if err != nil {
			return nil, d.freed, err
		}
		given.share(pod, kind, chosen)
		if d.whole(kind) != kind {
			given.note(kind, chosen)
		}
	}
	content, err := json.Marshal(given)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(os.MkdirAll(d.options.Dir, 0o700),
		files.Replace(filepath.Join(d.options.Dir, uid), content, 0o600)); err != nil {
		return nil, nil, fmt.Errorf("record the devices of pod %s: %w", uid, err)
	}
	d.pods[uid] = given
	d.moveShared(given)
	return given, nil, nil
}

// TearDown frees a pod's devices, if it has any.
func (d *Devices) TearDown(uid string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.pods[uid]; !ok {
		return nil
	}
	if err := os.Remove(filepath.Join(d.options.Dir, uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("devices: %w", err)
	}
	d.moveShared(d.pods[uid])
	delete(d.pods, uid)
	d.wake()
	return nil
}

// Held lists the pods that have devices.
func (d *Devices) Held() (uids []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid := range d.pods {
		uids = append(uids, uid)
	}
	return uids, nil
}

// Inject adds what a container needs for its devices to its spec: device nodes, mounts, variables, hooks.
func (d *Devices) Inject(spec *specs.Spec, kinds map[corev1.ResourceName][]string) error {
	var names []string
	for _, devices := range kinds {
		names = append(names, devices...)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names) // it may have two shares of one
	d.mu.Lock()
	cache := d.cache
	d.mu.Unlock()
	if missing, err := cache.InjectDevices(spec, names...); err != nil {
		return fmt.Errorf("devices %s: %w", strings.Join(append(missing, names...), ", "), err)
	}
	for i := range spec.Mounts {
		// The files need not say so, but crun 1.8 takes the source for a directory then.
		if m := &spec.Mounts[i]; m.Type == "" &&
			(slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")) {
			m.Type = "bind"
		}
	}
	return nil
}

// InjectNodes adds only the device nodes and the variables: what runs with the host's own files has all libraries already, and mounts and
// hooks would change those files.
func (d *Devices) InjectNodes(spec *specs.Spec, kinds map[corev1.ResourceName][]string) error {
	with := &specs.Spec{Process: &specs.Process{Env: spec.Process.Env}, Linux: &specs.Linux{Resources: &specs.LinuxResources{}}}
	if err := d.Inject(with, kinds); err != nil {
		return err
	}
	spec.Process.Env = with.Process.Env
	spec.Linux.Devices = append(spec.Linux.Devices, with.Linux.Devices...)
	if added := with.Linux.Resources.Devices; len(added) > 0 {
		if spec.Linux.Resources == nil {
			spec.Linux.Resources = &specs.LinuxResources{}
		}
		spec.Linux.Resources.Devices = append(spec.Linux.Resources.Devices, added...)
	}
	return nil
}

// distinct names each device once. Files may list one under several names, by number and by UUID, and name bundles of
// several, such as "all".
func distinct(all []*cdi.Device) (names []string) {
	type nodes map[string]bool
	of := make([]nodes, len(all))
	edits := make([]string, len(all))
	for i, device := range all {
		of[i] = nodes{}
		for _, n := range device.ContainerEdits.DeviceNodes {
			of[i][n.HostPath+":"+n.Path] = true
		}
		content, _ := json.Marshal(device.ContainerEdits) // of a type that was decoded from JSON
		edits[i] = string(content)
	}
	contains := func(a, b nodes) bool {
		for n := range b {
			if !a[n] {
				return false
			}
		}
		return len(b) > 0 && len(a) > len(b)
	}
	for i, device := range all {
		another := slices.Index(edits, edits[i]) != i
		for j := range all {
			another = another || contains(of[i], of[j])
		}
		if !another && (device.Name != "all" || len(all) == 1) {
			names = append(names, device.GetQualifiedName())
		}
	}
	slices.SortFunc(names, byNumber)
	return names
}

// byNumber puts gpu=2 before gpu=10.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
