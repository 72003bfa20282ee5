// Package userns gives pods user namespaces of their own (KEP-127): a range of users and groups of the host for each,
// in which root is an ordinary user of the host, and the network and IPC namespaces that belong to it, so that its root
// rules over them and over nothing else.
//
// The UIDs of pods come in, the paths of their namespaces go out. They are pinned below STATE/userns. A file beside the
// pins is the record of the range; it is written first and removed last, so that no range is given to two pods, whenever
// the daemon is killed.
package userns

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/userns/holder"
)

// Options configure Namespaces.
type Options struct {
	// Dir has a directory for each pod: layout.State.UserNamespaces.
	Dir string
	// IDs are the ids that pods may be given: see Choose.
	IDs IDs
	// Owner names the daemon: several that have the same IDs start in different places.
	Owner string
	// On are the directories whose files containers get to see. Their file systems have to support idmapped mounts.
	On []string
	// Program makes the namespaces: see holder.By. Empty: this process does.
	Program string
	// Pins keep the namespaces.
	Pins *pins.Pins
}

// Namespaces is safe for concurrent use; calls for one pod must not overlap.
type Namespaces struct {
	dir       string
	ids       IDs
	begin     int   // the range that is given away first
	supported error // why no pod can have any
	program   string
	pins      *pins.Pins

	mu    sync.Mutex
	pods  map[string]uint32 // the first ID of each, by the pod's UID
	taken map[uint32]bool   // the values of pods
}

// Namespace is the user namespace of a pod.
type Namespace struct {
	// First is the ID on the host of the namespace's root, the first of Size ids.
	First uint32
	// Paths are the paths of the user namespace, and of the others that belong to it and that the containers share.
	Paths map[specs.LinuxNamespaceType]string
	// Reach is a path by which this process and its children reach the user namespace itself.
	Reach string
}

// Mapping returns how its ids map to those of the host.
func (n *Namespace) Mapping() specs.LinuxIDMapping {
	return specs.LinuxIDMapping{ContainerID: 0, HostID: n.First, Size: Size}
}

// recordName is the file that holds the first ID of a pod. No pin has that name.
const recordName = "first-id"

// kinds are the namespaces that are created, by the names of their files. The user namespace is pinned last: where it
// is, the others are too.
var kinds = []struct {
	name string
	kind specs.LinuxNamespaceType
}{{"net", specs.NetworkNamespace}, {"ipc", specs.IPCNamespace}, {"user", specs.UserNamespace}}

// Open returns the Namespaces, with what an earlier run has given away. If pods cannot have user namespaces on this
// host, Supported says why.
func Open(o Options) (*Namespaces, error) {
	n := &Namespaces{
		dir: o.Dir, ids: o.IDs, program: o.Program, pins: o.Pins,
		pods: map[string]uint32{}, taken: map[uint32]bool{},
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(o.Owner))
	n.begin = int(hash.Sum32() % uint32(o.IDs.Pods()))
	uids, err := n.Held()
	if err != nil {
		return nil, err
	}
	for _, uid := range uids {
		first, err := n.record(uid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("user namespaces: %w", err)
		}
		n.pods[uid], n.taken[first] = first, true
	}
	n.supported = n.try(o.On)
	return n, nil
}

// Supported returns why no pod can have a user namespace on this host, or nil if pods can.
func (n *Namespaces) Supported() error { return n.supported }

// Has reports whether a pod has a range.
func (n *Namespaces) Has(podUID string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.pods[podUID]
	return ok
}

// SetUp ensures that a pod has its namespaces and returns them. The error is errdefs.ErrResourceExhausted when no range
// is free, and errdefs.ErrNotImplemented when this host does not support them.
func (n *Namespaces) SetUp(podUID string) (*Namespace, error) {
	if n.supported != nil {
		return nil, n.supported
	}
	first, err := n.reserve(podUID)
	if err != nil {
		return nil, err
	}
	out := &Namespace{First: first, Paths: map[specs.LinuxNamespaceType]string{}}
	for _, k := range kinds {
		out.Paths[k.kind] = n.path(podUID, k.name)
	}
	at := out.Paths[specs.UserNamespace]
	out.Reach, err = n.pins.Reach(at)
	if errors.Is(err, fs.ErrNotExist) {
		crash.At("userns.recorded")
		if err = n.make(podUID, first); err == nil {
			crash.At("userns.pinned")
			out.Reach, err = n.pins.Reach(at)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	return out, nil
}

// reserve returns the first ID of a pod's range: the one that it already has, or else the first that is free.
func (n *Namespaces) reserve(podUID string) (uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if first, ok := n.pods[podUID]; ok {
		return first, nil
	}
	for i := range n.ids.Pods() {
		first := n.ids.First + uint32((n.begin+i)%n.ids.Pods())*Size
		if n.taken[first] {
			continue
		}
		if err := os.MkdirAll(n.path(podUID, ""), 0o711); err != nil {
			return 0, err
		}
		record := strconv.FormatUint(uint64(first), 10)
		if err := files.Replace(n.path(podUID, recordName), []byte(record), 0o600); err != nil {
			return 0, fmt.Errorf("user namespace: %w", err)
		}
		n.pods[podUID], n.taken[first] = first, true
		return first, nil
	}
	return 0, fmt.Errorf("user namespace: all %d ranges of the ids %s (START:COUNT) are in use: %w",
		n.ids.Pods(), n.ids, errdefs.ErrResourceExhausted)
}

// make creates the namespaces of a pod and pins them.
func (n *Namespaces) make(podUID string, first uint32) error {
	if err := pins.UnpinAll(n.path(podUID, ""), recordName); err != nil { // what a crash has left
		return err
	}
	return n.enter(first, unix.CLONE_NEWNET|unix.CLONE_NEWIPC, func(pid int) error {
		for _, k := range kinds {
			namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, k.name))
			if err != nil {
				return err
			}
			err = n.pins.Pin(n.path(podUID, k.name), namespace)
			namespace.Close()
			if err != nil {
				return err
			}
			crash.At("userns.pinned", k.name)
		}
		return nil
	})
}

// enter calls fn with the PID of a process that stands still in a new user namespace of a range, and in other new
// namespaces that belong to it.
func (n *Namespaces) enter(first uint32, others uintptr, fn func(pid int) error) error {
	wanted := holder.Namespaces{First: int(first), Size: Size, Others: others}
	if n.program == "" {
		return holder.Fork(wanted, fn)
	}
	return holder.By(n.program, wanted, fn)
}

// TearDown removes the namespaces of a pod and frees its range. It is no error if the pod has none. No process of the
// pod may still run, and no file of the host may still belong to its users: it would be the next pod's.
func (n *Namespaces) TearDown(podUID string) error {
	if err := pins.UnpinAll(n.path(podUID, ""), recordName); err != nil {
		return fmt.Errorf("user namespace: %w", err)
	}
	crash.At("userns.pins-removed")
	for _, name := range []string{recordName, ""} {
		if err := os.Remove(n.path(podUID, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("user namespace: %w", err)
		}
		crash.At("userns.record-removed")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if first, ok := n.pods[podUID]; ok {
		delete(n.taken, first)
		delete(n.pods, podUID)
	}
	return nil
}

// Held lists the UIDs of the pods that something is set up for.
func (n *Namespaces) Held() ([]string, error) { return files.Names(n.dir) }

func (n *Namespaces) record(podUID string) (uint32, error) {
	text, err := os.ReadFile(n.path(podUID, recordName))
	if err != nil {
		return 0, err
	}
	first, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || first < Size || first%Size != 0 {
		return 0, fmt.Errorf("%s: %q is not the first id of a pod", n.path(podUID, recordName), text)
	}
	return uint32(first), nil
}

func (n *Namespaces) path(podUID, name string) string { return filepath.Join(n.dir, podUID, name) }
