package manifests

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// still is how long a file has to stay as it is until it counts as whole: who writes one may pause anywhere, as after a "---".
const still = 10 * time.Second

// Stamp is a state of a file, which changes with whatever is written to it.
type Stamp struct {
	Inode uint64
	Size  int64
	// Written and Changed are its mtime, which whoever writes it may set, and its ctime, which the kernel sets.
	Written, Changed time.Time
}

func stampOf(info fs.FileInfo) Stamp {
	s := Stamp{Size: info.Size(), Written: info.ModTime()}
	if of, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode, s.Changed = of.Ino, time.Unix(of.Ctim.Unix())
	}
	return s
}

// isWritten reports whether a program has a file open for writing: then nobody gets a lease to read it. Where there are no leases it is
// not known, and only its stamp counts.
func isWritten(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return errors.Is(err, unix.EAGAIN)
}

// sighting is a state of a file, and since when it is so.
type sighting struct {
	Stamp
	since time.Time
}

// watch is how long the files have been as they are, by their names.
type watch map[string]sighting

// look notes which of the files are not known to be whole. It returns when to look again, zero for not before something changes, and
// what takes too long. A file that was there before the first look was changed when the kernel says.
func (w watch) look(files []File, now time.Time) (again time.Duration, problems []Problem) {
	first := len(w) == 0
	there := map[string]bool{}
	for i := range files {
		f := &files[i]
		if f.Stamp == (Stamp{}) { // it was not read
			continue
		}
		there[f.Name] = true
		s, seen := w[f.Name]
		if !seen || s.Stamp != f.Stamp {
			s = sighting{f.Stamp, now}
			if first && f.Stamp.Changed.Before(now) {
				s.since = f.Stamp.Changed
			}
			w[f.Name] = s
		}
		left := still - now.Sub(s.since)
		f.Moving = left > 0 || f.Written
		if f.Written && left <= 0 {
			problems = append(problems, Problem{f.Name, "a program has it open for writing: until it is closed, nothing is removed, and its last document waits"})
			left = still
		}
		if f.Moving && (again == 0 || left < again) {
			again = left
		}
	}
	for name := range w {
		if !there[name] {
			delete(w, name)
		}
	}
	return again, problems
}
