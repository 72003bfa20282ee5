package untrusted

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Used is an amount of disk.
type Used struct{ Bytes, Inodes int64 }

const (
	// maxLinked is how many files with several names are remembered as counted.
	maxLinked = 1 << 20
	// measureAgain is how often a tree that changes while it is measured is measured from the start.
	measureAgain = 3
)

// Usage returns what a directory uses of its disk, however deep its tree is. A file with several names counts once, and
// what is removed meanwhile, or mounted there, is left out. Files that have no name any more are found by Unlinked.
//
// It ends with the context, with what it has seen until then and the error of the context: a tree may be of any size, and need not end
// where files are made in it meanwhile.
func Usage(ctx context.Context, dir string) (most Used, err error) {
	for range measureAgain {
		m := measure{linked: map[uint64]struct{}{}}
		err = Visit(dir, func(_ int, _ string, is *unix.Stat_t) error {
			m.add(is)
			return ctx.Err()
		})
		most.Bytes, most.Inodes = max(most.Bytes, m.used.Bytes), max(most.Inodes, m.used.Inodes)
		if !errors.Is(err, errMoved) {
			return most, err
		}
	}
	return most, nil
}

// measure is what a tree uses, as far as it has been seen.
type measure struct {
	used   Used
	linked map[uint64]struct{} // files that have other names too
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
