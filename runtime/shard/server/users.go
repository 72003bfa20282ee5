package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/userns"
)

// users describes the users of a container that is in its pod's own user namespace.
type users struct {
	// Namespace is its path.
	Namespace string
	// Root is the ID on the host of its root.
	Root uint32
	// Mounts get the ids of the namespace.
	Mounts []mappedMount `json:",omitempty"`
}

// mappedMount is a mount of a spec that is mounted at a place before the OCI runtime is started, which finds it there.
type mappedMount struct {
	Source, Place string
	Recursive     bool
	// Attributes are those that the volume mount asks for (VolumeMount.bindMountOptions): crun sets them on what it mounts
	// in a user namespace only where that is read-only too.
	Attributes uint64 `json:",omitempty"`
}

// places returns where the shard may mount something for a container, a directory or a file, by its number. What is
// mounted there is seen in the container's first mount namespace alone, so that all containers share the places.
type places func(number int, directory bool) (string, error)

// placesDir is the name, in the directory of a shard, of the directory whose entries serve only to be mounted over.
const placesDir = "places"

// placesIn makes places, as they are asked for, in the directory of a shard.
func placesIn(dir string) places {
	return func(number int, directory bool) (string, error) {
		if directory {
			place := filepath.Join(dir, placesDir, "d"+strconv.Itoa(number))
			return place, os.MkdirAll(place, 0o711)
		}
		place := filepath.Join(dir, placesDir, "f"+strconv.Itoa(number))
		if err := os.MkdirAll(filepath.Dir(place), 0o711); err != nil {
			return "", err
		}
		file, err := os.OpenFile(place, os.O_CREATE|os.O_RDONLY, 0o444)
		if err != nil {
			return "", err
		}
		return place, file.Close()
	}
}

// mapUsers notes which user namespace a container is in, and what has to be mounted for it. It returns the spec with
// the sources of those mounts in their places.
func (f *specFacts) mapUsers(
	spec []byte, namespaces []specs.LinuxNamespace, mappings []specs.LinuxIDMapping, mounts []specs.Mount, at places,
) ([]byte, error) {
	i := slices.IndexFunc(namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.UserNamespace })
	if i < 0 {
		return spec, nil
	}
	if namespaces[i].Path == "" || len(mappings) != 1 || mappings[0].ContainerID != 0 {
		return nil, fmt.Errorf("spec has no path and mapping of its user namespace: %w", errdefs.ErrInvalidArgument)
	}
	f.Users = &users{Namespace: namespaces[i].Path, Root: mappings[0].HostID}
	placed := map[int]specs.Mount{}
	for i, m := range mounts {
		if len(m.UIDMappings) == 0 {
			continue
		}
		info, err := os.Stat(m.Source)
		if err != nil {
			return nil, fmt.Errorf("spec: mount %s: %w", m.Destination, err)
		}
		place, err := at(i, info.IsDir())
		if err != nil {
			return nil, fmt.Errorf("spec: mount %s: %w", m.Destination, err)
		}
		kept, err := keptOptions(m.Source)
		if err != nil {
			return nil, fmt.Errorf("spec: mount %s: %w", m.Destination, err)
		}
		placed[i] = specs.Mount{Source: place, Options: append(slices.Clone(m.Options), kept...)}
		f.Users.Mounts = append(f.Users.Mounts, mappedMount{
			Source: m.Source, Place: place, Recursive: slices.Contains(m.Options, "rbind"), Attributes: restrictions(m.Options),
		})
	}
	if len(placed) == 0 {
		return spec, nil
	}
	return setMounts(spec, placed)
}

// restrictions returns what options of a mount forbid, as attributes of mount_setattr(2).
func restrictions(options []string) (attributes uint64) {
	for _, option := range options {
		switch option {
		case "nosuid":
			attributes |= unix.MOUNT_ATTR_NOSUID
		case "nodev":
			attributes |= unix.MOUNT_ATTR_NODEV
		case "noexec":
			attributes |= unix.MOUNT_ATTR_NOEXEC
		}
	}
	return attributes
}

// keptOptions returns the options of the host's mount that the root of a user namespace must not remove. Not every OCI
// runtime knows that, so it is told them.
func keptOptions(path string) (out []string, err error) {
	var is unix.Statfs_t
	if err := unix.Statfs(path, &is); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	for _, of := range []struct {
		flag   int64
		option string
	}{
		{unix.ST_RDONLY, "ro"}, {unix.ST_NOSUID, "nosuid"}, {unix.ST_NODEV, "nodev"}, {unix.ST_NOEXEC, "noexec"},
		{unix.ST_NOATIME, "noatime"}, {unix.ST_NODIRATIME, "nodiratime"},
	} {
		if int64(is.Flags)&of.flag != 0 {
			out = append(out, of.option)
		}
	}
	return out, nil
}

// setMounts sets the sources and options of mounts, by their index, and removes their mappings.
func setMounts(spec []byte, placed map[int]specs.Mount) ([]byte, error) {
	outer := map[string]json.RawMessage{}
	var mounts []map[string]json.RawMessage
	err := json.Unmarshal(spec, &outer)
	if err == nil {
		err = json.Unmarshal(outer["mounts"], &mounts)
	}
	for i, m := range placed {
		if err != nil {
			break
		}
		delete(mounts[i], "uidMappings")
		delete(mounts[i], "gidMappings")
		if mounts[i]["options"], err = json.Marshal(m.Options); err == nil {
			mounts[i]["source"], err = json.Marshal(m.Source)
		}
	}
	if err == nil {
		outer["mounts"], err = json.Marshal(mounts)
	}
	if err != nil {
		return nil, fmt.Errorf("spec: mounts: %w: %w", errdefs.ErrInvalidArgument, err)
	}
	return json.Marshal(outer)
}

// mount mounts what the container is to find with its own ids, in the calling thread's mount namespace.
func (u *users) mount(namespace *os.File) error {
	for _, m := range u.Mounts {
		if err := userns.Mount(m.Source, m.Place, namespace, userns.MountOptions{Recursive: m.Recursive, Attributes: m.Attributes}); err != nil {
			return fmt.Errorf("%w (hostUsers: true does without)", err)
		}
	}
	return nil
}

// namespace is an open user namespace.
type namespace struct {
	file *os.File
	root uint32 // the ID on the host of its root
}

func (u *users) open() (*namespace, error) {
	file, err := os.Open(u.Namespace)
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	return &namespace{file, u.Root}, nil
}

// options returns options that tell the overlays of one range of ids from those of others. Who has the range now does
// not matter.
func (n *namespace) options() []string {
	if n == nil {
		return nil
	}
	return []string{"root=" + strconv.FormatUint(uint64(n.root), 10)}
}

// own makes the root of the user namespace the owner of an open file. Without a namespace nothing is done.
func (u *users) own(fd int) error {
	if u == nil {
		return nil
	}
	return os.NewSyscallError("fchown", unix.Fchown(fd, int(u.Root), int(u.Root)))
}
