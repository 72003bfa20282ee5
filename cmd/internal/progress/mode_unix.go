//go:build unix

package progress

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func notifyResized(c chan<- os.Signal)   { signal.Notify(c, syscall.SIGWINCH) }
func notifyContinued(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCONT) }

// Drawable does nothing: terminals understand sequences.
func Drawable(*os.File) {}

// mode is how a terminal treats keys.
type mode unix.Termios

// modeOf returns the mode of a terminal; false in the background.
func modeOf(terminal *os.File) (*mode, bool) {
	fd := int(terminal.Fd())
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil, false
	}
	m, err := unix.IoctlGetTermios(fd, getMode)
	return (*mode)(m), err == nil
}

func (m *mode) set(terminal *os.File) {
	_ = unix.IoctlSetTermios(int(terminal.Fd()), setMode, (*unix.Termios)(m))
}

func (m *mode) hide() { m.Lflag &^= unix.ECHO | unix.ICANON }

func (m *mode) takeKeys() {
	m.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	m.Cc[unix.VMIN], m.Cc[unix.VTIME] = 1, 0
}

func (m *mode) interrupt() { m.Lflag |= unix.ISIG }
