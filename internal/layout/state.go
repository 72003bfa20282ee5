package layout

import (
	"os"
	"path/filepath"
	"strings"
)

// State is the directory for what belongs to one boot of the host: sockets, shards, bundles. It outlives the daemon, and
// is lost in a reboot where it is on a tmpfs. `jobd clean` removes all of it.
type State string

// inState is all that is jobd's in a state directory.
var inState = []entry{
	{pattern: "attached", mounts: true},
	{pattern: "containerd", mounts: true},
	{pattern: "containerd.sock"},
	{pattern: "devices"},
	{pattern: "epoch"},
	{pattern: "epoch~new"}, // being written
	{pattern: "handlers"},
	{pattern: "host", mounts: true}, // never among the host's own mounts; but it would be the host's root
	{pattern: "jobd-users.sock"},
	{pattern: "jobd.sock"},
	{pattern: "ns", mounts: true},
	{pattern: "ns-prepared", mounts: true},
	{pattern: "pins", mounts: true},
	{pattern: "pod-api"},
	{pattern: "pods", mounts: true},
	{pattern: "processes", mounts: true},
	{pattern: "root"},
	{pattern: "seccomp"},
	{pattern: "shards", mounts: true},
	{pattern: "state.lock"},
	{pattern: "userns", mounts: true},
	{pattern: ProbePrefix + "*"},
}

// ProbePrefix begins the names of the directories and logs of probe containers, in which an OCI runtime is tried out. They
// belong to no pod.
const ProbePrefix = "trial-"

// Owns reports whether something directly in the directory is jobd's, by its name.
func (s State) Owns(name string) bool { return own(inState, name) }

// Own returns the paths of what exists in the directory and is jobd's.
func (s State) Own() ([]string, error) {
	entries, err := os.ReadDir(string(s))
	var out []string
	for _, e := range entries {
		if s.Owns(e.Name()) {
			out = append(out, s.join(e.Name()))
		}
	}
	return out, err
}

// Mounts returns the directories in which something may be mounted.
func (s State) Mounts() []string { return mounts(string(s), inState) }

// Lock is held by the one process that works on the directory. Its name differs from that of the root's lock, since the
// root may be the same directory.
func (s State) Lock() string { return s.join("state.lock") }

// Owner is the file with the path of the root that the directory belongs to.
func (s State) Owner() string { return s.join("root") }

// Epoch is the file with the name of this life of the directory. Containers of another one have ended.
func (s State) Epoch() string { return s.join("epoch") }

// Socket is where the API is served, unless the configuration has it somewhere else.
func (s State) Socket() string { return s.join("jobd.sock") }

// UsersSocket is where all users of the machine are served, beside the socket of administrators.
func UsersSocket(socket string) string { return strings.TrimSuffix(socket, ".sock") + "-users.sock" }

// PodAPI is the file with the address at which pods without a bridge reach the API.
func (s State) PodAPI() string { return s.join("pod-api") }

// Host is an empty directory, at which a container that runs a command of the host finds the host's files: in the mounts that its OCI
// runtime has, and not in the host's own.
func (s State) Host() string { return s.join("host") }

// Containerd is the embedded containerd's: what it mounts, and its records of containers, which need no fsync.
func (s State) Containerd() string { return s.join("containerd") }

// ContainerdSocket is where the embedded containerd answers ctr and the like.
func (s State) ContainerdSocket() string { return s.join("containerd.sock") }

// Shards has a directory for each shard, which names what lies in there itself.
func (s State) Shards() string { return s.join("shards") }

// Containers returns the directories of the containers that shards hold.
func (s State) Containers() ([]string, error) {
	return filepath.Glob(filepath.Join(s.Shards(), "*", "containers", "*"))
}

// Pods has the volumes of each pod that are in memory, and its subpaths, by its UID.
func (s State) Pods() string { return s.join("pods") }

// Attached has the mount points of volumes that outlive pods, each by the name of its PersistentVolume. It differs in name
// from the root's Volumes, since the root may be the same directory.
func (s State) Attached() string { return s.join("attached") }

// PinMounts is the mount namespace in which the namespaces of pods are pinned. Its directory is a mount of its own.
func (s State) PinMounts() string { return filepath.Join(s.join("pins"), "private", "mnt") }

// Network has the pinned namespaces of each pod and the record of its address, by its UID.
func (s State) Network() string { return s.join("ns") }

// PreparedNetworks has the same for pods to come, by numbers.
func (s State) PreparedNetworks() string { return s.join("ns-prepared") }

// Processes has the pinned PID namespace of each pod whose containers share one, by its UID.
func (s State) Processes() string { return s.join("processes") }

// UserNamespaces has the pinned user namespace of each pod that has one of its own, and the record of its range, by its
// UID.
func (s State) UserNamespaces() string { return s.join("userns") }

// Devices has the record of the devices that each pod was given, by its UID.
func (s State) Devices() string { return s.join("devices") }

// Handlers has the record of the OCI runtime of each pod that names a runtime class, by its UID.
func (s State) Handlers() string { return s.join("handlers") }

// Seccomp keeps compiled filters.
func (s State) Seccomp() string { return s.join("seccomp") }

// Probes is a pattern for what probe containers have left, for filepath.Glob.
func (s State) Probes() string { return s.join(ProbePrefix + "*") }

func (s State) join(name string) string { return filepath.Join(string(s), name) }
