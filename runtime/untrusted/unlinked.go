package untrusted

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
)

// maxDescriptors is how many open files and mappings of processes are looked at. A pod that has more is measured only
// in part.
const maxDescriptors = 1 << 17

// Unlinked returns what processes use of the disk in files that have no name any more, since they were removed while they
// were open or mapped, or never had one. Usage does not see them. A file counts once, for what key returns for the first
// process that has it and the mount that it was opened in; an empty key leaves it out. The mount is nil where the process
// does not see it: somebody else has passed the file to it through a UNIX socket, and may be gone. Files that are in memory
// alone do not count then. Nothing is opened, and no file system of a pod is asked. What lies in the queue of a socket alone
// is not seen, and on Linux before 5.8 nothing is. It ends with the context, with what it has seen until then and the error
// of the context.
func Unlinked(ctx context.Context, pids []int, key func(pid int, mount *mountinfo.Info) string) (map[string]Used, error) {
	u := unlinked{
		ctx: ctx, key: key, used: map[string]Used{}, seen: map[file]bool{}, left: maxDescriptors, mounts: map[string]map[uint64]*mountinfo.Info{},
	}
	for _, pid := range pids {
		if err := u.process(pid); err != nil {
			return u.used, err
		}
	}
	return u.used, nil
}

// file is an inode.
type file struct {
	major, minor uint32
	inode        uint64
}

// unlinked is the state of one search.
type unlinked struct {
	ctx    context.Context
	key    func(int, *mountinfo.Info) string
	used   map[string]Used
	seen   map[file]bool
	left   int                                   // descriptors to look at
	mounts map[string]map[uint64]*mountinfo.Info // of mount namespaces, by ID
}

// process looks at what one process has, until the context ends.
func (u *unlinked) process(pid int) error {
	for _, kind := range []string{"fd", "map_files"} {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, kind))
		if err != nil {
			continue // it has ended
		}
		for u.left > 0 && u.ctx.Err() == nil {
			names, err := dir.Readdirnames(min(u.left, 1024))
			for _, name := range names {
				if u.ctx.Err() != nil {
					break
				}
				u.left--
				u.descriptor(pid, int(dir.Fd()), name)
			}
			if err != nil {
				break
			}
		}
		dir.Close()
	}
	return u.ctx.Err()
}

// descriptor counts a file if it has no name.
func (u *unlinked) descriptor(pid, dir int, name string) {
	var is unix.Statx_t
	const wanted = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID
	// What the kernel knows is enough: a file system in user space would answer when it likes.
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, wanted, &is); err != nil {
		return
	}
	kind := uint32(is.Mode) & unix.S_IFMT
	if is.Mask&unix.STATX_MNT_ID == 0 || is.Nlink != 0 || kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return
	}
	f := file{is.Dev_major, is.Dev_minor, is.Ino}
	if u.seen[f] {
		return
	}
	mount := u.mountsOf(pid)[is.Mnt_id]
	if mount == nil && (is.Blocks == 0 || memoryDevices()[unix.Mkdev(is.Dev_major, is.Dev_minor)]) {
		return
	}
	if key := u.key(pid, mount); key != "" {
		u.seen[f] = true
		used := u.used[key]
		used.Bytes += int64(is.Blocks) * 512
		used.Inodes++
		u.used[key] = used
	}
}

// memoryDevices are those of files in memory that are mounted nowhere, as memfd_create makes them, and the kernel for memory that is shared.
var memoryDevices = sync.OnceValue(func() map[uint64]bool {
	devices := map[uint64]bool{}
	for _, flags := range []int{0, unix.MFD_HUGETLB, unix.MFD_HUGETLB | unix.MFD_HUGE_2MB, unix.MFD_HUGETLB | unix.MFD_HUGE_1GB} {
		fd, err := unix.MemfdCreate("", flags|unix.MFD_CLOEXEC)
		if err != nil {
			continue // there are no such pages
		}
		var is unix.Stat_t
		if unix.Fstat(fd, &is) == nil {
			devices[is.Dev] = true
		}
		unix.Close(fd)
	}
	return devices
})

// mountsOf returns the mounts that a process sees, by ID.
func (u *unlinked) mountsOf(pid int) map[uint64]*mountinfo.Info {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return nil
	}
	if known, ok := u.mounts[namespace]; ok {
		return known
	}
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil
	}
	list, err := mountlist.From(bytes.NewReader(content), nil)
	if err != nil {
		return nil
	}
	mounts := make(map[uint64]*mountinfo.Info, len(list))
	for _, m := range list {
		mounts[uint64(m.ID)] = m
	}
	u.mounts[namespace] = mounts
	return mounts
}
