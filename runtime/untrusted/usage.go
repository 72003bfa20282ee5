package untrusted

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Used is an amount of disk.
type Used struct{ Bytes, Inodes int64 }

const (
	// maxLevels is how deep a tree is measured: it takes one inode and its block for each level, and 24 bytes here.
	maxLevels = 1 << 20
	// maxLinked is how many files with several names are remembered as counted.
	maxLinked = 1 << 20
	// measureAgain is how often a tree that changes while it is measured is measured from the start.
	measureAgain = 3
)

// Usage returns what a directory uses of its disk, however deep its tree is. A file with several names counts once, and
// what is removed meanwhile, or mounted there, is left out. Files that have no name any more are found by Unlinked.
func Usage(dir string) (most Used) {
	for range measureAgain {
		m := measure{linked: map[uint64]struct{}{}}
		w := walk{visit: func(_ int, _ string, is *unix.Stat_t) { m.add(is) }}
		whole := w.tree(dir)
		if m.used.Bytes > most.Bytes {
			most.Bytes = m.used.Bytes
		}
		if m.used.Inodes > most.Inodes {
			most.Inodes = m.used.Inodes
		}
		if whole {
			break
		}
	}
	return most
}

// Visit calls a function for a directory and for all that is below it, however deep that is, but not for what is mounted
// there. It passes an open directory and a name in it, and what was found there; since then it may have been replaced by
// something else. It reports whether it has seen the whole tree, which it has not if that was changed meanwhile.
func Visit(dir string, visit func(dir int, name string, is *unix.Stat_t)) (whole bool) {
	return (&walk{visit: visit}).tree(dir)
}

// measure is what a tree uses, as far as it has been seen.
type measure struct {
	used   Used
	linked map[uint64]struct{} // files that have other names too
}

// walk goes through a tree. One directory is open at a time, and nothing grows with the number of entries.
type walk struct {
	visit  func(dir int, name string, is *unix.Stat_t)
	device uint64
	above  []level
}

// level is a directory above the one that is open.
type level struct {
	inode  uint64
	offset int64 // where its entries are read on
}

// tree reports whether it has seen the whole tree: it has not when a directory was moved elsewhere meanwhile.
func (w *walk) tree(dir string) (whole bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer func() { unix.Close(fd) }()
	var top, is unix.Stat_t
	if unix.Fstat(fd, &top) != nil {
		return true
	}
	w.device = top.Dev
	w.visit(fd, ".", &top)
	inode, buffer := top.Ino, make([]byte, 8<<10)
	for {
		below, offset, found := w.entries(fd, buffer)
		if found {
			if unix.Fstat(below, &is) != nil || is.Dev != w.device || len(w.above) == maxLevels {
				unix.Close(below)
				continue
			}
			w.above = append(w.above, level{inode, offset})
			unix.Close(fd)
			fd, inode = below, is.Ino
			continue
		}
		if len(w.above) == 0 {
			return true
		}
		up, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		unix.Close(fd)
		fd = up
		last := w.above[len(w.above)-1]
		w.above = w.above[:len(w.above)-1]
		if unix.Fstat(fd, &is) != nil || is.Dev != w.device || is.Ino != last.inode {
			return false
		}
		if _, err := unix.Seek(fd, last.offset, unix.SEEK_SET); err != nil {
			return false
		}
		inode = last.inode
	}
}

// entries visits entries of a directory up to the first one that is a directory itself, which it opens, and returns where
// the others begin.
func (w *walk) entries(fd int, buffer []byte) (below int, offset int64, found bool) {
	for {
		n, err := unix.Getdents(fd, buffer)
		if err != nil || n <= 0 {
			return -1, 0, false
		}
		// struct linux_dirent64: inode, offset of the next one, length, type, name.
		for entry := buffer[:n]; len(entry) > 19; {
			size := int(binary.NativeEndian.Uint16(entry[16:]))
			name, _, _ := bytes.Cut(entry[19:size], []byte{0})
			offset = int64(binary.NativeEndian.Uint64(entry[8:]))
			entry = entry[size:]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			var is unix.Stat_t
			if unix.Fstatat(fd, string(name), &is, unix.AT_SYMLINK_NOFOLLOW) != nil || is.Dev != w.device {
				continue
			}
			w.visit(fd, string(name), &is)
			if is.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			below, err := unix.Openat(fd, string(name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC,
				0)
			if err != nil {
				continue
			}
			if _, err := unix.Seek(fd, offset, unix.SEEK_SET); err == nil {
				return below, offset, true
			}
			unix.Close(below)
		}
	}
}

func (m *measure) add(is *unix.Stat_t) {
	size := is.Blocks * 512
	if is.Nlink > 1 && is.Mode&unix.S_IFMT != unix.S_IFDIR {
		if _, twice := m.linked[is.Ino]; twice {
			return
		}
		if len(m.linked) < maxLinked {
			m.linked[is.Ino] = struct{}{}
		} else {
			size /= int64(is.Nlink) // each name has its share
		}
	}
	m.used.Bytes += size
	m.used.Inodes++
}
