package signals

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheSignalsAreThoseOfLinux(t *testing.T) {
	for s := syscall.Signal(-1); s < 70; s++ {
		name := Name(s)
		if name != unix.SignalName(s) {
			t.Errorf("%d: %q", s, name)
		}
		if name != "" && (Number(name) != s || unix.SignalNum(name) != s) {
			t.Errorf("%s is %d", name, Number(name))
		}
	}
	if Number("SIGNOSUCH") != 0 || Number("TERM") != 0 || Number("") != 0 {
		t.Error("there are others")
	}
	for s, want := range map[syscall.Signal]syscall.Signal{
		ILL: unix.SIGILL, ABRT: unix.SIGABRT, KILL: unix.SIGKILL, SEGV: unix.SIGSEGV,
		PIPE: unix.SIGPIPE, TERM: unix.SIGTERM, STOP: unix.SIGSTOP, SYS: unix.SIGSYS,
	} {
		if s != want {
			t.Errorf("%v, not %v", s, want)
		}
	}
}
