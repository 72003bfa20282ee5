package host

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// FollowClock calls changed whenever somebody sets the machine's clock, which timers that wait for a time of day do not
// notice. Close ends it.
func FollowClock(changed func()) (io.Closer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("follow the clock: %w", os.NewSyscallError("timerfd_create", err))
	}
	if err := awaitChange(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "clock")
	go func() {
		for buf := make([]byte, 8); ; {
			switch _, err := f.Read(buf); {
			case errors.Is(err, unix.ECANCELED):
				changed()
			case err != nil:
				return // closed
			}
		}
	}()
	return f, nil
}

// awaitChange arms a timer for a time that never comes: only a change of the clock ends it.
func awaitChange(fd int) error {
	never := unix.ItimerSpec{Value: unix.Timespec{Sec: 1 << 40}}
	err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
	if err != nil {
		return fmt.Errorf("follow the clock: %w", os.NewSyscallError("timerfd_settime", err))
	}
	return nil
}
