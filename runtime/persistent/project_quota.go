package persistent

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/untrusted"
)

// Project quotas (ext4, xfs, f2fs) limit all files that have the same project id. A directory hands its id down to what
// is made in it.

// The ids of our volumes are among these 2^24, at a place that depends on the volume's path: other programs that choose
// some (the kubelet, Docker) begin lower, and two daemons on a file system seldom meet.
const (
	firstProject = 0x6a000000
	projects     = 1 << 24
)

// From linux/quota.h and linux/dqblk_xfs.h.
const (
	cmdGetQuota  = 0x800007 // Q_GETQUOTA
	cmdSetQuota  = 0x800008 // Q_SETQUOTA
	cmdGetStateV = 0x5808   // Q_XGETQSTATV

	projectType   = 2      // PRJQUOTA
	limitsBlocks  = 1      // QIF_BLIMITS
	quotaBlock    = 1024   // QIF_DQBLKSIZE, in bytes
	enforced      = 1 << 5 // FS_QUOTA_PDQ_ENFD
	stateVersion1 = 1      // FS_QSTATV_VERSION1
)

// quotaBlocks is struct if_dqblk of linux/quota.h.
type quotaBlocks struct {
	BlockHard, BlockSoft, Space  uint64 // limits in blocks of quotaBlock, space in bytes
	InodeHard, InodeSoft, Inodes uint64
	BlockTime, InodeTime         uint64
	Valid                        uint32
	_                            uint32
}

// quotaState is struct fs_quota_statv of linux/dqblk_xfs.h.
type quotaState struct {
	Version int8
	_       uint8
	Flags   uint16
	_       [39]uint32
}

func quotactl(fd int, cmd uint32, id uint32, p unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(cmd<<8|projectType), uintptr(id), uintptr(p), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// projectQuotas returns why the file system of an open directory does not enforce project quotas; empty if it does.
func projectQuotas(fd int) string {
	state := quotaState{Version: stateVersion1}
	err := quotactl(fd, cmdGetStateV, 0, unsafe.Pointer(&state))
	switch {
	case err == nil && state.Flags&enforced != 0:
		return ""
	case errors.Is(err, unix.ENOSYS) && !quotactlKnown():
		return "has no project quotas, or the kernel is older than 5.14"
	}
	var fs unix.Statfs_t
	_ = unix.Fstatfs(fd, &fs)
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC:
		if _, err := attributes(fd); err == nil && takesProjects(fd) {
			return "is not mounted with the option prjquota"
		}
		return "has no project quotas: `tune2fs -O project,quota -Q prjquota` on the unmounted file system and the mount " +
			"option prjquota enable them"
	case unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
		return "is not mounted with the option prjquota"
	}
	return "has no project quotas"
}

// quotactlKnown reports whether the kernel has quotactl_fd: one that does says that a descriptor is bad.
func quotactlKnown() bool {
	var state quotaState
	return errors.Is(quotactl(-1, cmdGetStateV, 0, unsafe.Pointer(&state)), unix.EBADF)
}

// fileAttributes is struct fsxattr of linux/fs.h.
type fileAttributes struct {
	Flags, ExtentSize, Extents, Project, CowExtentSize uint32
	_                                                  [8]uint8
}

const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	inherit       = 0x200      // FS_XFLAG_PROJINHERIT
)

func ioctl(fd int, request uintptr, p unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	if errno != 0 {
		return errno
	}
	return nil
}

func attributes(fd int) (is fileAttributes, err error) {
	return is, ioctl(fd, getAttributes, unsafe.Pointer(&is))
}

// takesProjects reports whether the files of an open directory's file system can have project ids. It gives the directory
// the one that it has already.
func takesProjects(fd int) bool {
	is, err := attributes(fd)
	if err != nil {
		return false
	}
	if is.Project != 0 {
		return true
	}
	is.Project = firstProject
	if ioctl(fd, setAttributes, unsafe.Pointer(&is)) != nil {
		return false
	}
	is.Project = 0
	return ioctl(fd, setAttributes, unsafe.Pointer(&is)) == nil
}

// inProject reports whether a directory is part of a project, and what is made in it will be.
func inProject(fd int, project uint32) bool {
	is, err := attributes(fd)
	return err == nil && is.Project == project && is.Flags&inherit != 0
}

// joinBelow makes all files and directories in a directory part of a project. Those of other kinds have no content that
// counts.
func joinBelow(dir string, project uint32) error {
	top, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	return untrusted.Walk(top, 0, func(in int, name, _ string, is *unix.Stat_t) error {
		kind := is.Mode & unix.S_IFMT
		if name == "." || kind != unix.S_IFDIR && kind != unix.S_IFREG {
			return nil
		}
		file, err := untrusted.OpenAt(in, name)
		if errors.Is(err, fs.ErrNotExist) || errdefs.IsFailedPrecondition(err) {
			return nil // removed or replaced meanwhile
		} else if err != nil {
			return err
		}
		defer file.Close()
		return joinProject(int(file.Fd()), project)
	})
}

// joinProject makes a file part of a project; of a directory, what is made in it from now on is too.
func joinProject(fd int, project uint32) error {
	is, err := attributes(fd)
	if err != nil {
		return fmt.Errorf("has no project ids: %w", err)
	}
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return err
	}
	if is.Project = project; file.Mode&unix.S_IFMT == unix.S_IFDIR {
		is.Flags |= inherit
	}
	if err := ioctl(fd, setAttributes, unsafe.Pointer(&is)); err != nil {
		return fmt.Errorf("takes no project id: %w", err)
	}
	return nil
}

// limitProject sets the limit of a project in bytes; 0: it has none.
func limitProject(fd int, project uint32, size int64) error {
	blocks := uint64(size+quotaBlock-1) / quotaBlock
	q := quotaBlocks{BlockHard: blocks, BlockSoft: blocks, Valid: limitsBlocks}
	return quotactl(fd, cmdSetQuota, project, unsafe.Pointer(&q))
}

func projectUsage(fd int, project uint32) (q quotaBlocks, err error) {
	return q, quotactl(fd, cmdGetQuota, project, unsafe.Pointer(&q))
}

// chooseProject returns an id that nothing on the file system has, and that the host's /etc/projects does not give to
// anything else.
func (v *Volumes) chooseProject(fd int, data string) (uint32, error) {
	taken := map[uint32]bool{}
	for path, at := range map[string]int{"/etc/projects": 0, "/etc/projid": 1} {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		for id := range projectIDs(content, at) {
			taken[id] = true
		}
	}
	names, err := v.List()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if is, err := readRecord(v.dir(name)); err == nil {
			taken[is.Project] = true
		}
	}
	sum := sha256.Sum256([]byte(data))
	start := binary.BigEndian.Uint32(sum[:])
	for i := range uint32(1 << 16) {
		id := firstProject + (start+i)%projects
		if taken[id] {
			continue
		}
		q, err := projectUsage(fd, id)
		if errors.Is(err, unix.ENOENT) || err == nil && q.Inodes == 0 && q.Space == 0 && q.BlockHard == 0 && q.InodeHard == 0 {
			return id, nil
		} else if err != nil {
			return 0, fmt.Errorf("read quota of project %d: %w", id, err)
		}
	}
	return 0, fmt.Errorf("no project id is free: %w", errdefs.ErrResourceExhausted)
}

// projectIDs returns the ids of a file of projects, which are the field of each line with that index.
func projectIDs(content []byte, at int) map[uint32]struct{} {
	out := map[uint32]struct{}{}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if at >= len(fields) {
			continue
		}
		if id, err := strconv.ParseUint(strings.TrimSpace(fields[at]), 10, 32); err == nil {
			out[uint32(id)] = struct{}{}
		}
	}
	return out
}
