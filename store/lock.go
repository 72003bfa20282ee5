package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is a file beside the database that is locked while the database is open and holds the process's id. The kernel
// drops the lock with the process; the file stays, since removing it would let two processes lock two files of one name.
type fileLock struct{ f *os.File }

func lockFile(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, &LockedError{PID: holder(f)}
	}
	if err == nil {
		err = writePID(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &fileLock{f}, nil
}

func writePID(f *os.File) error {
	pid := fmt.Appendf(nil, "%d\n", os.Getpid())
	if _, err := f.WriteAt(pid, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(pid)))
}

// holder reads the id of the process that has the lock, and gives one that has only just taken it the time to write it.
func holder(f *os.File) int {
	for range 20 {
		b := make([]byte, 32)
		n, _ := f.ReadAt(b, 0)
		if line, _, ok := bytes.Cut(b[:n], []byte("\n")); ok {
			if pid, err := strconv.Atoi(string(line)); err == nil && pid > 0 && unix.Kill(pid, 0) != unix.ESRCH {
				return pid
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

func (l *fileLock) unlock() error {
	// An empty file while nobody has the lock: the next holder's id is not mistaken for this one's.
	_ = l.f.Truncate(0)
	return l.f.Close()
}
