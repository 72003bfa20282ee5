package pod

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/logs"
)

// onExit is told of every exit by the runtime.
func (w *Workers) onExit(s runtime.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	crash.At("exit.observed")
	w.unwatch(s.ID)
	if _, ok := w.tails[s.ID]; ok && s.Message == "" {
		// The log has to be read: not on the runtime's time.
		if w.ctx.Err() == nil {
			w.group.Go(func() {
				s.Message = w.terminationMessage(s)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.exited(s)
			})
		}
		return
	}
	delete(w.tails, s.ID)
	w.exited(s)
}

// exited reports an exit, with the launch of the container when that is not reported yet.
func (w *Workers) exited(s runtime.Status) {
	if diskFull(s) {
		return // its launch sees to it
	}
	o := Observation{What: Exited, Container: s.Name, Attempt: s.Attempt, Status: s}
	if s.State == runtime.Lost {
		o.What = Lost
	}
	pod := &corev1.Pod{}
	pod.UID = types.UID(s.PodUID)
	if p := w.pods[pod.UID]; p != nil && p.pod != nil {
		pod = p.pod
		if l := p.launching(s.Name, s.Attempt); l != nil {
			l.exit = &o
			return
		}
	}
	w.report(pod, o)
	crash.At("exit.reported")
}

// follow remembers where the termination message is to be looked for.
func (w *Workers) follow(c *corev1.Container, id, log string) {
	if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || log == "" {
		return
	}
	w.mu.Lock()
	w.tails[id] = log
	w.mu.Unlock()
}

// terminationMessage is what the container left in its file, or, where it may and failed, the end of its log.
func (w *Workers) terminationMessage(s runtime.Status) string {
	w.mu.Lock()
	path := w.tails[s.ID]
	delete(w.tails, s.ID)
	w.mu.Unlock()
	if path == "" || s.Message != "" || s.ExitCode == 0 || s.StartError != "" {
		return s.Message
	}
	message, err := logTail(w.ctx, path)
	if err != nil {
		w.config.Logger.Warn("termination message from the log", "container", s.ID, "error", err)
	}
	return message
}

// logTail gives the last lines of a container's log.
func logTail(ctx context.Context, path string) (string, error) {
	var out bytes.Buffer
	lines := int64(maxTailLines)
	err := logs.Read(ctx, path, logs.Options{TailLines: &lines}, &out, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	tail := out.Bytes()
	return string(tail[max(0, len(tail)-maxTailBytes):]), err
}

// stop takes a Stop of a container whose launch has been reported: its hook, if it has one, and then the signal.
func (w *Workers) stop(pod *corev1.Pod, a Action) {
	if a.Signal != syscall.SIGKILL {
		w.preStop(pod, a)
	}
	w.signal(pod, a.Container, a.Attempt, a.Signal)
}

// signal sends a signal. What cannot be killed because nobody knows it any more is reported as what it is.
func (w *Workers) signal(pod *corev1.Pod, container string, attempt int, signal syscall.Signal) {
	id := containerID(pod, container, attempt)
	err := w.config.Runtime.Signal(w.ctx, id, signal, signal == syscall.SIGKILL)
	switch {
	case err == nil || w.ctx.Err() != nil:
	case signal == syscall.SIGKILL && errdefs.IsNotFound(err):
		w.lookUp(pod, container, attempt)
	case errdefs.IsNotFound(err):
		// It has just ended, or SIGKILL will tell.
	default:
		w.log(pod).Warn("signal failed", "container", container, "signal", signal, "error", err)
	}
}

// lookUp reports how a container is that should be running and is not.
func (w *Workers) lookUp(pod *corev1.Pod, container string, attempt int) {
	held, err := w.config.Runtime.Containers(w.ctx)
	if err != nil {
		w.log(pod).Warn("look for container", "container", container, "error", err)
		return
	}
	o := Observation{What: Lost, Container: container, Attempt: attempt, At: time.Now()}
	id := containerID(pod, container, attempt)
	for _, s := range held {
		if s.ID != id {
			continue
		}
		if s.State == runtime.Running {
			return
		}
		if s.State == runtime.Exited {
			o.What, o.Status = Exited, s
			o.Status.Message = w.terminationMessage(s)
		}
	}
	w.report(pod, o)
}
