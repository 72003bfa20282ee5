// Package signals has the names and numbers of the signals that containers get, which are Linux's, also where a program runs that speaks to
// a jobd on another machine, or plays a Job.
package signals

import (
	"slices"
	"syscall"
)

// Those that decisions are about.
const (
	ILL  syscall.Signal = 4
	ABRT syscall.Signal = 6
	KILL syscall.Signal = 9
	SEGV syscall.Signal = 11
	PIPE syscall.Signal = 13
	TERM syscall.Signal = 15
	STOP syscall.Signal = 19
	SYS  syscall.Signal = 31
)

var names = []string{
	"", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2",
	"SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU",
	"SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
}

// Name returns the name of a signal, such as SIGTERM; empty if it has none.
func Name(s syscall.Signal) string {
	if s < 0 || int(s) >= len(names) {
		return ""
	}
	return names[s]
}

// Number returns the signal of a name; 0 if there is none.
func Number(name string) syscall.Signal { return syscall.Signal(max(0, slices.Index(names, name))) }
