package progress

import (
	"os"

	"golang.org/x/sys/windows"
)

// A console has no such signals; what is drawn is right again within a second.

func notifyResized(chan<- os.Signal)   {}
func notifyContinued(chan<- os.Signal) {}

// Drawable lets a console understand sequences, as terminals do by themselves.
func Drawable(console *os.File) {
	var m uint32
	if windows.GetConsoleMode(windows.Handle(console.Fd()), &m) == nil {
		_ = windows.SetConsoleMode(windows.Handle(console.Fd()), m|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	}
}

// mode is how a console treats keys.
type mode uint32

func modeOf(console *os.File) (*mode, bool) {
	var m uint32
	err := windows.GetConsoleMode(windows.Handle(console.Fd()), &m)
	return (*mode)(&m), err == nil
}

func (m *mode) set(console *os.File) {
	_ = windows.SetConsoleMode(windows.Handle(console.Fd()), uint32(*m))
}

func (m *mode) hide() { *m &^= windows.ENABLE_ECHO_INPUT | windows.ENABLE_LINE_INPUT }

func (m *mode) takeKeys() {
	*m &^= windows.ENABLE_ECHO_INPUT | windows.ENABLE_LINE_INPUT | windows.ENABLE_PROCESSED_INPUT
}

func (m *mode) interrupt() { *m |= windows.ENABLE_PROCESSED_INPUT }
