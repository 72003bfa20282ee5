// Package mountlist reads what is mounted, as the kernel lists it (mountinfo), however long its lines are. The library that knows the
// format gives up at a line of 64 KiB, and with it the whole list. A user of the machine who mounts something by FUSE, and then moves a
// directory above it deep down, makes a line of any length.
package mountlist

import (
	"bufio"
	"io"
	"os"

	"github.com/moby/sys/mountinfo"
)

// Get is mountinfo.GetMounts for the calling thread. A path that is too long to be named (PATH_MAX) is cut, but stays too long,
// so it never equals a path that anybody looks for. It is still found below each directory above it that can be named.
func Get(filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return From(f, filter)
}

// From is Get for a list that is read from elsewhere.
func From(r io.Reader, filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	return mountinfo.GetMountsFromReader(&short{in: bufio.NewReader(r)}, filter)
}

// The fields of a line with paths, counted from 0, and how long those and others may be. A byte of a path may be written as an escape of
// four (\040), and all of a line has to be less than 64 KiB.
const (
	root, point = 3, 4
	longestPath = 4 * 4096
	longest     = 4096
)

// short are the lines of a list, with fields that are cut.
type short struct {
	in     *bufio.Reader
	field  int  // of the line
	length int  // of the field, as far as it is not cut
	cut    bool // the field is, here
}

// Read implements io.Reader.
func (s *short) Read(to []byte) (n int, err error) {
	for n < len(to) {
		c, err := s.in.ReadByte()
		if err != nil {
			return n, err
		}
		switch c {
		case '\n':
			s.field, s.length, s.cut = 0, 0, false
		case ' ':
			s.field++
			s.length, s.cut = 0, false
		default:
			if s.cut = s.cut || s.length+s.takes(c) > s.most(); s.cut {
				continue
			}
			s.length++
		}
		to[n] = c
		n++
	}
	return n, nil
}

// takes returns how many bytes a character of a field has that begins with this one.
func (s *short) takes(c byte) int {
	if c == '\\' {
		return len(`\040`)
	}
	return 1
}

// most returns how long the field may be.
func (s *short) most() int {
	if s.field == root || s.field == point {
		return longestPath
	}
	return longest
}
