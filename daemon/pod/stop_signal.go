package pod

import (
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/signals"
	"github.com/jobd/jobd/runtime"
)

// rtmin is the first real-time signal as the C library counts them.
const rtmin = 34

// stopSignal returns the signal that stops a container, nil for SIGTERM: lifecycle.stopSignal, or else the image's. It
// is kept in the status, so that a restarted daemon knows it.
func stopSignal(spec *corev1.Container, image runtime.Image) *corev1.Signal {
	name := image.Config.StopSignal
	if l := spec.Lifecycle; l != nil && l.StopSignal != nil {
		name = string(*l.StopSignal)
	}
	number := signalNumber(name)
	if number == signals.TERM {
		return nil
	}
	signal := corev1.Signal(signals.Name(number))
	if signal == "" {
		signal = corev1.Signal(name)
	}
	return &signal
}

// signalNumber parses a signal as images name it: SIGQUIT, QUIT, 3 or SIGRTMIN+3. Anything else is SIGTERM.
func signalNumber(name string) syscall.Signal {
	name = strings.ToUpper(strings.TrimSpace(name))
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n)
	}
	name = "SIG" + strings.TrimPrefix(name, "SIG")
	if n := signals.Number(name); n != 0 {
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
	return signals.TERM
}

func (c container) stopSignal() syscall.Signal {
	if s := c.status.StopSignal; s != nil {
		return signalNumber(string(*s))
	}
	return signals.TERM
}
