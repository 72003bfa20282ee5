package signals

import (
	"strconv"
	"strings"
	"syscall"
)

// rtmin is the first real-time signal as the C library counts them.
const rtmin = 34

// Parse parses a signal as images name it: SIGQUIT, QUIT, 3 or SIGRTMIN+3. Anything else is SIGTERM.
func Parse(name string) syscall.Signal {
	name = strings.ToUpper(strings.TrimSpace(name))
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n)
	}
	name = "SIG" + strings.TrimPrefix(name, "SIG")
	if n := Number(name); n != 0 {
		return n
	}
	for prefix, base := range map[string]int{"SIGRTMIN": rtmin, "SIGRTMAX": 64} {
		offset, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if offset == "" {
			return syscall.Signal(base)
		}
		if n, err := strconv.Atoi(offset); err == nil && base+n >= rtmin && base+n <= 64 {
			return syscall.Signal(base + n)
		}
	}
	return TERM
}
