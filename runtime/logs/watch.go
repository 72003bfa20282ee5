package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watch tells when a file in a directory has grown or come.
type watch struct {
	events *os.File
	buffer [4096]byte
}

func newWatch(dir string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w (see fs.inotify.max_user_instances)", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		events.Close()
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &watch{events: events}, nil
}

func (w *watch) Close() error { return w.events.Close() }

// wait returns when the file has grown since the last call, or the container has ended; the error is that of ctx.
func (w *watch) wait(ctx context.Context, ended <-chan struct{}) error {
	got := make(chan error, 1)
	if err := w.events.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	go func() {
		_, err := w.events.Read(w.buffer[:])
		got <- err
	}()
	select {
	case err := <-got:
		if err != nil {
			return fmt.Errorf("follow log: %w", err)
		}
		return nil
	case <-ended:
	case <-ctx.Done():
	}
	w.events.SetReadDeadline(time.Unix(1, 0))
	if err := <-got; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("follow log: %w", err)
	}
	return ctx.Err()
}
