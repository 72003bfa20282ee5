package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rotatedTime is in the name of a file that was rotated. Names are in the order of the files.
const rotatedTime = "20060102-150405.000000000"

// File is a container's log on the disk. When it has reached MaxSize it is renamed to PATH.TIME-BEGIN and begun anew; the
// newest MaxFiles are kept, including the one that is being written. BEGIN is how many bytes the files before it had: it
// tells readers how much they have missed.
type File struct {
	path  string
	limit Limit
	now   func() time.Time
	file  *os.File
	size  int64
}

// Limit bounds a log. The zero value is none.
type Limit struct {
	MaxSize  int64
	MaxFiles int
}

// OpenFile opens a log to append to it.
func OpenFile(path string, limit Limit) (*File, error) {
	l := &File{path: path, limit: limit, now: time.Now}
	return l, l.open()
}

func (l *File) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends records; those of one call stay in one file. A file that cannot be rotated grows on.
func (l *File) Write(records []byte) (int, error) {
	var failed error
	if l.limit.MaxSize > 0 && l.size > 0 && l.size+int64(len(records)) > l.limit.MaxSize {
		failed = l.rotate()
	}
	n, err := l.file.Write(records)
	l.size += int64(n)
	if err == nil && failed != nil {
		err = fmt.Errorf("rotate log: %w", failed)
	}
	return n, err
}

func (l *File) rotate() error {
	older, err := rotated(l.path)
	if err != nil {
		return err
	}
	at, begin := l.now().UTC(), int64(0)
	if n := len(older); n > 0 {
		last, its, _ := parseRotated(l.path, older[n-1])
		info, err := os.Stat(older[n-1])
		if err != nil {
			return err
		}
		if begin = its + info.Size(); !at.After(last) { // the clock was set back
			at = last.Add(1)
		}
	}
	name := fmt.Sprintf("%s.%s-%d", l.path, at.Format(rotatedTime), begin)
	if err := os.Rename(l.path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	older = append(older, name)
	for len(older) > max(l.limit.MaxFiles, 1)-1 {
		if err := os.Remove(older[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		older = older[1:]
	}
	return nil
}

// Close closes the file.
func (l *File) Close() error { return l.file.Close() }

// rotated returns the files that a log was in before, oldest first.
func rotated(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(path), e.Name())
		if _, _, ok := parseRotated(path, name); ok {
			names = append(names, name)
		}
	}
	return names, nil // as ReadDir has them, in order
}

// parseRotated returns when a file of a log was rotated, and where it begins in all that was ever written. Older versions
// did not say the latter; it is 0 then.
func parseRotated(path, name string) (at time.Time, begin int64, ok bool) {
	stamp, ok := strings.CutPrefix(name, path+".")
	if !ok || len(stamp) < len(rotatedTime) {
		return at, 0, false
	}
	at, err := time.Parse(rotatedTime, stamp[:len(rotatedTime)])
	if err != nil {
		return at, 0, false
	}
	if rest := stamp[len(rotatedTime):]; rest != "" {
		if begin, err = strconv.ParseInt(strings.TrimPrefix(rest, "-"), 10, 64); err != nil || rest[0] != '-' {
			return at, 0, false
		}
	}
	return at, begin, true
}

func beginOf(path, name string) int64 {
	_, begin, _ := parseRotated(path, name)
	return begin
}

// Exists reports whether there is a log at path.
func Exists(path string) bool {
	older, _ := rotated(path) // without its directory there is none
	_, err := os.Stat(path)
	return err == nil || len(older) > 0
}

// Removed returns how many bytes of the log at path were removed by its rotation before what is left of it.
func Removed(path string) int64 {
	older, _ := rotated(path) // without its directory there is none
	if len(older) == 0 {
		return 0
	}
	return beginOf(path, older[0])
}

// segments are the files of a log, oldest first, as if they were one.
type segments struct {
	files []*os.File
	ends  []int64 // where each one ends in the whole
	begin int64   // where the whole begins in all that was ever written
}

// openSegments opens all files of a log, none of them twice and none left out, whatever is rotated meanwhile.
func openSegments(path string) (*segments, error) {
	for {
		before, err := rotated(path)
		if err != nil {
			return nil, err
		}
		s := &segments{}
		if len(before) > 0 {
			s.begin = beginOf(path, before[0])
		}
		err = s.open(append(slices.Clone(before), path))
		after, failed := rotated(path)
		switch {
		case failed != nil:
			s.Close()
			return nil, failed
		case !slices.Equal(before, after):
			s.Close()
			continue
		case errors.Is(err, fs.ErrNotExist) && len(before) > 0 && len(s.files) == len(before):
			return s, nil // just between two
		case err != nil:
			s.Close()
			return nil, err
		}
		return s, nil
	}
}

func (s *segments) open(paths []string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		info, err := f.Stat()
		if err != nil {
			return err
		}
		s.ends = append(s.ends, s.size()+info.Size())
	}
	return nil
}

func (s *segments) size() int64 {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

// take removes a file from the segments and returns it, with its offset in the whole.
func (s *segments) take(i int) (f *os.File, at int64) {
	if i > 0 {
		at = s.ends[i-1]
	}
	f = s.files[i]
	s.files = slices.Delete(s.files, i, i+1)
	return f, at
}

func (s *segments) Close() error {
	for _, f := range s.files {
		f.Close()
	}
	return nil
}

// ReadAt reads from the whole.
func (s *segments) ReadAt(b []byte, at int64) (read int, err error) {
	begin := int64(0)
	for i, f := range s.files {
		if at < s.ends[i] && len(b) > 0 {
			n, err := f.ReadAt(b[:min(int64(len(b)), s.ends[i]-at)], at-begin)
			read += n
			if err != nil {
				return read, err
			}
			b, at = b[n:], at+int64(n)
		}
		begin = s.ends[i]
	}
	if len(b) > 0 {
		return read, io.EOF
	}
	return read, nil
}

// current is the file of a log that a follower reads.
type current struct {
	*os.File
	begin int64 // where it begins in all that was ever written
}

// after opens the file that follows one in a log, which was rotated: the oldest, when that is no longer there. missed is
// how many bytes between the two were removed.
func after(path string, f current) (next current, missed int64, err error) {
	s, err := openSegments(path)
	if err != nil {
		return current{}, 0, err
	}
	defer s.Close()
	info, err := f.Stat()
	if err != nil {
		return current{}, 0, err
	}
	i := 0
	for n, candidate := range s.files {
		if other, err := candidate.Stat(); err == nil && os.SameFile(info, other) {
			i = n + 1
		}
	}
	if i >= len(s.files) {
		return current{}, 0, fs.ErrNotExist
	}
	file, at := s.take(i)
	if i == 0 {
		missed = max(0, s.begin-f.begin-info.Size())
	}
	return current{file, s.begin + at}, missed, nil
}

// replaced reports whether another file has taken the place of one in a log.
func replaced(path string, f *os.File) (bool, error) {
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	return err == nil && !os.SameFile(now, info), err
}
