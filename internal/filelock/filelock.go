//go:build unix

// Package filelock lets one process at a time own a directory or a file. What is locked is a file of its own beside it,
// which names its holder and stays when nobody holds it: removing it would let two processes lock two files of one name.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

// HeldError says that another process holds the lock.
type HeldError struct {
	Path string // of the lock's file
	PID  int    // 0 when no living process could be found to hold it
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is held by another process", e.Path)
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.PID)
}

// Lock is held until Close, or until the process ends, however it ends.
type Lock struct{ file *os.File }

const (
	// childWait is how long a lock may outlive its holder: a process that was killed just when it started another one
	// leaves a copy of its descriptors in that one until that one executes its program.
	childWait = 10 * time.Second
	// nameWait is how long a holder may take until its process id is in the file.
	nameWait = 100 * time.Millisecond
	// pause is the time between two attempts.
	pause = 5 * time.Millisecond
)

// Take locks the file at path, which it creates where there is none. It fails with a *HeldError when a living process
// holds it, this one included, and waits for a while when the holder is dead.
func Take(path string) (*Lock, error) { return take(path, childWait) }

func take(path string, childWait time.Duration) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := acquire(file, childWait); err != nil {
		file.Close()
		return nil, err
	}
	if err := writePID(file); err != nil && !files.Full(err) { // others may have filled the disk: the lock has no name then
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{file}, nil
}

func acquire(file *os.File, childWait time.Duration) error {
	for begin := time.Now(); ; time.Sleep(pause) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		pid := holder(file)
		wait := nameWait
		if pid != 0 {
			if !dead(pid) {
				return &HeldError{Path: file.Name(), PID: pid}
			}
			wait = childWait
		}
		if time.Since(begin) >= wait {
			return &HeldError{Path: file.Name()}
		}
	}
}

// Close lets others take the lock, also while a child that is being started has a copy of its descriptor. The file is
// emptied first, so that the id of the next holder is not mistaken for this one's.
func (l *Lock) Close() error {
	return errors.Join(l.file.Truncate(0), unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return err
}

// holder returns the process id in the file, 0 where there is none.
func holder(file *os.File) int {
	content, _ := io.ReadAll(io.NewSectionReader(file, 0, 20))
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// dead reports whether there is no such process, or nothing of it but its exit code.
func dead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	_, fields, _ := strings.Cut(string(stat), ") ") // the name in front of it is that of one of our programs
	return strings.HasPrefix(fields, "Z") || strings.HasPrefix(fields, "X")
}
