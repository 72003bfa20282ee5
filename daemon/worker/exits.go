package worker

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

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/logs"
)

// How much of the end of a log is a termination message with FallbackToLogsOnError, as in clusters.
const (
	maxTailLines = 80
	maxTailBytes = 2048
)

// onExit is called by the runtime for every exit.
func (p *Pool) onExit(s runtime.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	crash.At("exit.observed")
	p.unwatch(s.ID)
	log := p.tails[s.ID]
	delete(p.tails, s.ID)
	if log != "" && s.Message == "" {
		// The log has to be read, which must not hold up the runtime.
		if p.ctx.Err() == nil {
			p.group.Go(func() {
				s.Message = p.terminationMessage(s, log)
				p.mu.Lock()
				defer p.mu.Unlock()
				p.exited(s)
			})
		}
		return
	}
	p.exited(s)
}

// exited reports an exit, with the launch of the container when that is not reported yet.
func (p *Pool) exited(s runtime.Status) {
	if diskFull(s) {
		return // the launch reports it as a failure to start
	}
	o := duty.Observation{What: duty.Exited, Container: s.Name, Attempt: s.Attempt, Status: s}
	if s.State == runtime.Lost {
		o.What = duty.Lost
	}
	obj := &corev1.Pod{}
	obj.UID = types.UID(s.PodUID)
	if w := p.pods[obj.UID]; w != nil && w.work != nil && w.pod != nil {
		obj = w.pod
		if l := w.launching(s.Name, s.Attempt); l != nil {
			l.exit = &o
			if l.hook != nil {
				l.hook()
			}
			return
		}
	}
	p.report(obj, o)
	crash.At("exit.reported")
}

// tailed returns the log of a container that its termination message may be taken from, "" if there is none.
func (p *Pool) tailed(obj *corev1.Pod, c *corev1.Container, attempt int) string {
	if p.config.LogPath == nil || c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	return p.config.LogPath(obj, c.Name, attempt)
}

// follow remembers, for when the container ends, the log in which its termination message is to be looked for.
func (p *Pool) follow(obj *corev1.Pod, c *corev1.Container, attempt int) {
	log := p.tailed(obj, c, attempt)
	if log == "" {
		return
	}
	p.mu.Lock()
	p.tails[containerID(obj, c.Name, attempt)] = log
	p.mu.Unlock()
}

// unfollow forgets that of a container whose end is not reported.
func (p *Pool) unfollow(id string) {
	p.mu.Lock()
	delete(p.tails, id)
	p.mu.Unlock()
}

// terminationMessage returns what a container has left in its termination message file, or the end of its log if it
// failed and that is what its policy asks for: log is empty if not.
func (p *Pool) terminationMessage(s runtime.Status, log string) string {
	if log == "" || s.Message != "" || s.ExitCode == 0 || s.StartError != "" {
		return s.Message
	}
	message, err := logTail(p.ctx, log)
	if err != nil {
		p.config.Logger.Warn("cannot read the termination message from the log", "container", s.ID, "error", err)
	}
	return message
}

// logTail returns the last lines of a container's log, nothing if there is no log.
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

// stop carries out a Stop of a container whose launch has been reported: it runs the preStop hook, if there is time for
// one, and then sends the signal. A Stop that allows no time ends the hook of the one before, and takes its place.
func (p *Pool) stop(obj *corev1.Pod, a duty.Action) {
	if a.Signal != syscall.SIGKILL { // which the runtime lets through
		p.thaw(obj, containerID(obj, a.Container, a.Attempt))
	}
	if a.Grace > 0 {
		if inTime := p.preStop(obj, a); !inTime {
			return
		}
	} else {
		p.endHook(containerID(obj, a.Container, a.Attempt))
	}
	p.signal(obj, a.Container, a.Attempt, a.Signal)
}

// signal sends a signal to a container. If SIGKILL finds no container, it reports what has become of it.
func (p *Pool) signal(obj *corev1.Pod, container string, attempt int, signal syscall.Signal) {
	id := containerID(obj, container, attempt)
	err := p.config.Runtime.Signal(p.ctx, id, signal, signal == syscall.SIGKILL)
	switch {
	case err == nil || p.ctx.Err() != nil:
	case signal == syscall.SIGKILL && errdefs.IsNotFound(err):
		p.lookUp(obj, container, attempt)
	case errdefs.IsNotFound(err):
		// It has just ended. Otherwise SIGKILL, which comes later, will find out.
	default:
		p.log(obj).Warn("cannot signal a container", "container", container, "signal", signal, "error", err)
	}
}

// lookUp reports what has become of a container that should be running and is not.
func (p *Pool) lookUp(obj *corev1.Pod, name string, attempt int) {
	held, err := p.config.Runtime.Containers(p.ctx)
	if err != nil {
		p.log(obj).Warn("cannot list the containers of the runtime", "container", name, "error", err)
		return
	}
	o := duty.Observation{What: duty.Lost, Container: name, Attempt: attempt, At: time.Now()}
	id := containerID(obj, name, attempt)
	for _, s := range held {
		if s.ID != id {
			continue
		}
		if s.State == runtime.Running {
			return
		}
		if s.State == runtime.Exited {
			o.What, o.Status = duty.Exited, s
			if c := podspec.Find(&obj.Spec, name); c != nil {
				o.Status.Message = p.terminationMessage(s, p.tailed(obj, c, attempt))
			}
		}
	}
	p.report(obj, o)
}
