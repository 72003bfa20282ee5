package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Where something is mounted in a volume of the same container, both are mounted in the root file system before the OCI runtime is started,
// which binds that with all that is mounted in it. Another container that has the volume too may put a symlink in the way at any moment, and
// runc goes by paths: it makes mount points on the host (before 1.1.14: CVE-2024-45310), or mounts something over the container's own files,
// as crun does.
//
// A process of its own does it, in the mount namespace of the OCI runtime, which it then becomes. So everything is gone with that, whoever is
// killed; and a file system that does not answer (NFS) keeps nobody else: the process is killed when it takes too long. Each mount has its
// own options and ids. No symlink leads out of the volume that it is in.
//
// What is in /dev, /proc or /sys, which the OCI runtime mounts by itself, it has to mount too. It is told to mount a tree that has been put
// together elsewhere in the namespace; so it is where mounts spread, which crun does not allow in a root file system. With users of the
// pod's own that is left to the OCI runtime altogether: crun 1.8 would mount only the top of the tree.

// nestFile is the file of a bundle that says what that process is to do.
const nestFile = "nest"

// nestJob is what that process is to do.
type nestJob struct {
	Users   *users `json:",omitempty"`
	Places  string // the directory of the shard
	Program string // to become
	Argv    []string
}

// nested returns the program, and its arguments, that does it for the container and then becomes the one that is given; the same ones if
// nothing lies in a volume. The root file system is mounted, and nothing uses it yet, so that the image's own symlinks mean what they mean
// to the OCI runtime.
func (c *container) nested(program string, argv []string) (string, []string, error) {
	n, err := newNesting(c.dir, c.record.Users, c.host.places)
	if err != nil {
		return "", nil, err
	}
	defer n.close()
	if found, err := n.look(); err != nil || !found {
		return program, argv, err
	}
	err = writeRecord(c.dir, nestFile, nestJob{Users: c.record.Users, Places: c.host.dir, Program: program, Argv: argv})
	return "/proc/self/exe", []string{"jobd-shim", NestFlag, c.dir}, err
}

// NestFlag makes the program of a shard that process. The bundle of a container follows.
const NestFlag = "--nest"

// Nest is that process. It returns only if something is wrong.
func Nest(bundle string) error {
	var job nestJob
	err := readRecord(bundle, nestFile, &job)
	if err == nil {
		err = nest(bundle, job.Users, placesIn(job.Places))
	}
	if err == nil {
		err = os.NewSyscallError("exec "+job.Argv[0], unix.Exec(job.Program, job.Argv, os.Environ()))
	}
	// As the OCI runtime says what is wrong.
	text, _ := json.Marshal(map[string]string{"level": "error", "msg": err.Error()}) // cannot fail
	return errors.Join(err, files.Write(filepath.Join(bundle, runtimeLog), append(text, '\n'), 0o600))
}

// nest mounts what is nested for the container whose bundle this is, and takes it out of its spec.
func nest(bundle string, mapped *users, at places) error {
	n, err := newNesting(bundle, mapped, at)
	if err != nil {
		return err
	}
	defer n.close()
	if _, err := n.look(); err != nil {
		return err
	}
	for _, d := range n.devices {
		if err := n.checkDevice(d); err != nil {
			return fmt.Errorf("device %s: %w", d.Path, err)
		}
	}
	tops := n.trees
	n.trees = nil
	n.cover(tops)
	for i, m := range n.mounts {
		if !protocol.IsBind(m) {
			continue
		}
		if j := slices.IndexFunc(tops, func(t *tree) bool { return t.of == i }); j >= 0 {
			err = n.addTop(tops[j])
		} else {
			err = n.addNested(i)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Destination, err)
		}
	}
	spec, err := n.apply()
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(bundle, configFile), spec, 0o600)
}

// nesting are the mounts of a container, as far as they have been looked at.
type nesting struct {
	spec    []byte
	mounts  []specs.Mount
	devices []specs.LinuxDevice
	rootfs  string
	root    int // of the root file system
	mapped  *users
	places  places

	trees []*tree
	gone  map[int]bool // those that the OCI runtime is not told of
}

func newNesting(bundle string, mapped *users, at places) (*nesting, error) {
	n := &nesting{rootfs: filepath.Join(bundle, rootfsDir), mapped: mapped, places: at, gone: map[int]bool{}}
	var err error
	if n.spec, err = os.ReadFile(filepath.Join(bundle, configFile)); err != nil {
		return nil, err
	}
	var known struct {
		Mounts []specs.Mount
		Linux  struct{ Devices []specs.LinuxDevice }
	}
	if err := json.Unmarshal(n.spec, &known); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	n.mounts, n.devices = known.Mounts, known.Linux.Devices
	if n.root, err = unix.Open(n.rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, os.NewSyscallError("open root", err)
	}
	return n, nil
}

// tree is something of the host that is mounted in the container.
type tree struct {
	of int // the mount
	// place is where it is in the root file system; empty if it lies in another tree. ofKernel says that this is in what the OCI runtime
	// mounts there before, of which the image knows nothing.
	place    string
	ofKernel bool

	holds bool // something is mounted in it
	// apart says that it is mounted by the OCI runtime nevertheless, which finds it at another place.
	apart bool

	fd int    // of its root, once it is mounted; -1: not yet
	id uint64 // of the mount
	at string // where the OCI runtime finds it; empty: it does not look for it
}

func (n *nesting) close() {
	unix.Close(n.root)
	for _, t := range n.trees {
		if t.fd >= 0 {
			unix.Close(t.fd)
		}
	}
}

// look reports whether something is mounted in something of the host, or a device is in it, and refuses what is safe in no way. It asks no
// file system but the root.
func (n *nesting) look() (found bool, err error) {
	for i, m := range n.mounts {
		if !protocol.IsBind(m) {
			if err := n.checkOwn(m); err != nil {
				return false, fmt.Errorf("mount %s: %w", m.Destination, err)
			}
			continue
		}
		in, below, place, err := n.find(m.Destination, ofKernel(m.Destination))
		switch {
		case err != nil:
			return false, fmt.Errorf("mount %s: %w", m.Destination, err)
		case in == nil && place == "/" && path.Clean(m.Destination) != "/":
			return false, fmt.Errorf("mount %s: a symlink of the image leads to its root: %w", m.Destination, errdefs.ErrInvalidArgument)
		case in == nil || below == ".":
			n.trees = append(n.trees, &tree{of: i, place: place, ofKernel: ofKernel(m.Destination), apart: ofKernel(m.Destination) || spreads(m), fd: -1})
		default:
			found, in.holds, in.apart = true, true, in.apart || spreads(m)
		}
	}
	for _, d := range n.devices {
		in, _, _, err := n.find(d.Path, ofKernel(d.Path))
		if err != nil {
			return false, fmt.Errorf("device %s: %w", d.Path, err)
		}
		found = found || in != nil
	}
	return found, nil
}

// cover leaves out what a later mount covers: it cannot be seen, and the way to it would lead through that.
func (n *nesting) cover(tops []*tree) {
	for i, t := range tops {
		if !t.ofKernel && (ofKernel(t.place) || slices.ContainsFunc(tops[i+1:], func(later *tree) bool {
			return !later.ofKernel && (t.place == later.place || inside(t.place, later.place))
		})) {
			n.gone[t.of] = true
		}
	}
}

// isLeft reports whether all that is in a tree is left to the OCI runtime. Mounts in one that spreads to the host would be the host's too
// (Bidirectional, which only privileged containers have).
func (n *nesting) isLeft(t *tree) bool {
	return slices.Contains(n.mounts[t.of].Options, "rshared") || t.apart && n.mapped != nil || t.place == "/"
}

// addTop mounts what lies in nothing else, if something lies in it.
func (n *nesting) addTop(t *tree) error {
	n.trees = append(n.trees, t)
	if !t.holds || t.apart || n.isLeft(t) || n.gone[t.of] {
		return nil
	}
	return n.mountInRoot(t)
}

// addNested mounts what lies in something else.
func (n *nesting) addNested(i int) error {
	m := n.mounts[i]
	in, below, _, err := n.find(m.Destination, ofKernel(m.Destination))
	if err != nil || in == nil {
		return err
	}
	if n.gone[in.of] && in.fd < 0 {
		n.gone[i] = true
		return nil
	}
	if n.isLeft(in) || n.hidden(in, i) {
		return nil
	}
	if in.apart {
		if err := n.mountApart(in); err != nil {
			return err
		}
	}
	directory, err := isDirectory(m.Source)
	if err != nil {
		return err
	}
	point, err := n.within(in, below, directory)
	if err != nil || point < 0 {
		return err
	}
	defer unix.Close(point)
	t := &tree{of: i, fd: -1}
	n.trees = append(n.trees, t)
	return n.mountAt(t, point)
}

// spreads reports whether mounts are to spread between the host and what is mounted.
func spreads(m specs.Mount) bool {
	return slices.ContainsFunc(m.Options, func(option string) bool {
		return strings.HasSuffix(option, "slave") || strings.HasSuffix(option, "shared")
	})
}

// apply changes the spec so that the OCI runtime mounts what has been put together.
func (n *nesting) apply() ([]byte, error) {
	outer := map[string]json.RawMessage{}
	var mounts, left []map[string]json.RawMessage
	err := json.Unmarshal(n.spec, &outer)
	if err == nil {
		err = json.Unmarshal(outer["mounts"], &mounts)
	}
	for i := range mounts {
		if n.gone[i] || err != nil {
			continue
		}
		left = append(left, mounts[i])
		j := slices.IndexFunc(n.trees, func(t *tree) bool { return t.of == i })
		if j < 0 {
			continue
		}
		t := n.trees[j]
		if !t.ofKernel { // where it is without any symlink, of which there are others now
			mounts[i]["destination"], err = json.Marshal(t.place)
		}
		if t.at != "" && err == nil {
			mounts[i]["source"], err = json.Marshal(t.at)
		}
		if t.at != "" && err == nil {
			mounts[i]["options"], err = json.Marshal(ofTop(n.mounts[i].Options))
		}
	}
	if err == nil {
		outer["mounts"], err = json.Marshal(left)
	}
	if err != nil {
		return nil, fmt.Errorf("spec: mounts: %w: %w", errdefs.ErrInvalidArgument, err)
	}
	return json.Marshal(outer)
}

// ofTop returns the options of a tree that hold for its first mount only. All others have their own already, and all spread as they should:
// crun would set that for all of them.
func ofTop(options []string) []string {
	out := []string{"rbind"}
	for _, option := range options {
		switch option {
		case "bind", "rbind":
		case "private", "rprivate", "slave", "rslave":
		case "rro":
			out = append(out, "ro")
		default:
			out = append(out, option)
		}
	}
	return out
}

// ofKernel reports whether a path is that of something that the OCI runtime mounts by itself in each container, or in it.
func ofKernel(place string) bool { return protocol.IsOwn(place) }

// canNest reports whether the kernel can copy mounts and set their attributes: Linux 5.12.
var canNest = sync.OnceValue(func() bool {
	return unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}) != unix.ENOSYS
})
