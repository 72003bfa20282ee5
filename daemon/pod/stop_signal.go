package pod

import (
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/signals"
	"github.com/jobd/jobd/runtime"
)

// stopSignal returns the signal that stops a container, nil for SIGTERM: lifecycle.stopSignal, or else the image's. It
// is kept in the status, so that a restarted daemon knows it.
func stopSignal(spec *corev1.Container, image runtime.Image) *corev1.Signal {
	name := image.Config.StopSignal
	if l := spec.Lifecycle; l != nil && l.StopSignal != nil {
		name = string(*l.StopSignal)
	}
	number := signals.Parse(name)
	if number == signals.TERM {
		return nil
	}
	signal := corev1.Signal(signals.Name(number))
	if signal == "" {
		signal = corev1.Signal(name)
	}
	return &signal
}

func (c container) stopSignal() syscall.Signal {
	if s := c.status.StopSignal; s != nil {
		return signals.Parse(string(*s))
	}
	return signals.TERM
}
