package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/userns"
)

// mountFlag is what an option of mount(8) sets or clears.
type mountFlag struct {
	flag  uintptr
	clear bool
}

func lookupMountFlag(option string) (mountFlag, bool) {
	switch option {
	case "ro":
		return mountFlag{flag: unix.MS_RDONLY}, true
	case "rw":
		return mountFlag{unix.MS_RDONLY, true}, true
	case "nosuid":
		return mountFlag{flag: unix.MS_NOSUID}, true
	case "nodev":
		return mountFlag{flag: unix.MS_NODEV}, true
	case "noexec":
		return mountFlag{flag: unix.MS_NOEXEC}, true
	case "noatime":
		return mountFlag{flag: unix.MS_NOATIME}, true
	case "relatime":
		return mountFlag{flag: unix.MS_RELATIME}, true
	case "bind":
		return mountFlag{flag: unix.MS_BIND}, true
	case "rbind":
		return mountFlag{flag: unix.MS_BIND | unix.MS_REC}, true
	}
	return mountFlag{}, false
}

// mountOptions separates what the kernel takes as flags from what the file system takes as text.
func mountOptions(m protocol.Mount) (flags uintptr, data []string) {
	for _, option := range m.Options {
		f, ok := lookupMountFlag(option)
		switch {
		case !ok:
			data = append(data, option)
		case f.clear:
			flags &^= f.flag
		default:
			flags |= f.flag
		}
	}
	return flags, data
}

// mountAll mounts a root file system in the calling thread's mount namespace, with the ids of a user namespace, which is
// nil for the host's. The thread's working directory may change.
func mountAll(mounts []protocol.Mount, root string, own *namespace) error {
	for _, m := range mounts {
		if err := mountOne(m, filepath.Join(root, m.Target), own); err != nil {
			return fmt.Errorf("mount %s %s: %w", m.Type, m.Source, err)
		}
	}
	return nil
}

func mountOne(m protocol.Mount, target string, own *namespace) error {
	flags, data := mountOptions(m)
	if own != nil && flags&unix.MS_BIND != 0 {
		o := userns.MountOptions{Recursive: flags&unix.MS_REC != 0}
		if flags&unix.MS_RDONLY != 0 {
			o.Attributes = unix.MOUNT_ATTR_RDONLY
		}
		return userns.Mount(m.Source, target, own.file, o)
	}
	text := strings.Join(data, ",")
	if own != nil || len(text) >= os.Getpagesize() { // the kernel takes a page
		dir, near, short := shortenLayers(data)
		text = strings.Join(short, ",")
		if len(text) >= os.Getpagesize() {
			return fmt.Errorf("%d bytes of options: %w", len(text), errdefs.ErrInvalidArgument)
		}
		if own != nil {
			// The layers below get the ids of the namespace; the writable one belongs to its root already. They are mounted
			// where the overlay is going to be, which hides them.
			if err := userns.Mount(dir, target, own.file, userns.MountOptions{}); err != nil {
				return err
			}
			dir = target
		}
		if err := unix.Chdir(filepath.Join(dir, near)); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if slices.Contains(data, volatile) {
		if err := forgetVolatile(data); err != nil {
			return err
		}
	}
	err := unix.Mount(m.Source, target, m.Type, flags, text)
	if errors.Is(err, unix.EINVAL) && slices.Contains(data, volatile) { // a kernel before 5.10 does not know of it
		options := slices.DeleteFunc(strings.Split(text, ","), func(option string) bool { return option == volatile })
		err = unix.Mount(m.Source, target, m.Type, flags, strings.Join(options, ","))
	}
	if err != nil {
		return err
	}
	if flags&unix.MS_BIND != 0 && flags&^(unix.MS_BIND|unix.MS_REC) != 0 {
		// The kernel takes the flags of a bind mount only on a second call.
		return unix.Mount("", target, "", flags&^unix.MS_REC|unix.MS_REMOUNT, "")
	}
	return nil
}

const volatile = "volatile"

// forgetVolatile removes the mark that a volatile overlay leaves below its work directory, which keeps it from being
// mounted there again, since not all of it may have reached the disk. By now nothing of what it had is left.
func forgetVolatile(options []string) error {
	for _, option := range options {
		if work, ok := strings.CutPrefix(option, "workdir="); ok {
			return os.RemoveAll(filepath.Join(work, "work/incompat"))
		}
	}
	return nil
}

// shortenLayers makes the paths of an overlay's layers relative to a directory that is near most of them. dir is the directory
// that all layers are in, and near the path from there: no path leads out of dir.
func shortenLayers(options []string) (dir, near string, short []string) {
	var layers []string
	for _, option := range options {
		if list, ok := strings.CutPrefix(option, "lowerdir="); ok {
			layers = strings.Split(list, ":")
		}
	}
	if len(layers) == 0 {
		return "/", ".", options
	}
	dir = filepath.Dir(layers[0])
	for _, layer := range layers {
		for dir != "/" && !strings.HasPrefix(layer, dir+"/") {
			dir = filepath.Dir(dir)
		}
	}
	list, near := relative(layers, dir), "."
	for _, place := range []string{layers[0], layers[len(layers)-1]} { // most are where the first is, or the last
		place = filepath.Dir(filepath.Dir(place))
		if below, err := filepath.Rel(dir, place); err == nil && !strings.HasPrefix(below, "..") {
			if l := relative(layers, place); len(l) < len(list) {
				list, near = l, below
			}
		}
	}
	for _, option := range options {
		if strings.HasPrefix(option, "lowerdir=") {
			option = "lowerdir=" + list
		}
		short = append(short, option)
	}
	return dir, near, short
}

// relative returns a list of paths as seen from a directory.
func relative(paths []string, from string) string {
	short := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if short[i], err = filepath.Rel(from, path); err != nil {
			short[i] = path
		}
	}
	return strings.Join(short, ":")
}
