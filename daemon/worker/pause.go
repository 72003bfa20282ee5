package worker

import (
	"errors"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
)

// pause freezes the containers of a pod, unless the pod ends. Nothing is asked of them meanwhile: a probe would fail, or hang.
func (p *Pool) pause(obj *corev1.Pod, w *worker) {
	p.mu.Lock()
	for _, id := range p.held(obj) {
		p.unwatch(id)
	}
	w.frozen = true
	ending := w.ending
	p.mu.Unlock()
	if ending {
		return
	}
	var err error
	p.take(obj, w, "pause", func() { err = p.freeze(obj, true) })
	crash.At("pause.frozen")
	p.mu.Lock()
	ending = w.ending
	p.mu.Unlock()
	if ending {
		_ = p.freeze(obj, false) // it has been told to stop meanwhile: SIGKILL reaches it in any case
		return
	}
	p.reportPause(obj, duty.Paused, err)
}

// goOn lets the containers of a pod go on that pause has frozen, and asks them again what is asked of running containers.
func (p *Pool) goOn(obj *corev1.Pod, w *worker) {
	var err error
	p.take(obj, w, "end of a pause", func() { err = p.freeze(obj, false) })
	crash.At("pause.thawed")
	if err != nil {
		p.reportPause(obj, duty.Continued, err)
		return
	}
	p.mu.Lock()
	w.frozen = false
	p.mu.Unlock()
	held, err := p.config.Runtime.Containers(p.ctx)
	if err != nil {
		p.log(obj).Warn("cannot list the containers of the runtime", "error", err)
	}
	for _, a := range pod.Newest(obj) {
		id := containerID(obj, a.Container.Name, a.Number)
		for _, s := range held {
			if s.ID == id && s.State == runtime.Running { // the pod may be from before it has started
				p.watchAgain(obj, a, s)
			}
		}
	}
	p.reportPause(obj, duty.Continued, nil)
}

func (p *Pool) reportPause(obj *corev1.Pod, what duty.What, err error) {
	o := duty.Observation{What: what, OK: err == nil}
	if err != nil {
		o.Message = err.Error()
	}
	if p.ctx.Err() == nil {
		p.report(obj, o)
	}
}

// freeze freezes the containers of a pod that run, or lets them go on.
func (p *Pool) freeze(obj *corev1.Pod, freeze bool) error {
	var failed []error
	for _, id := range p.held(obj) {
		if err := p.config.Runtime.Freeze(string(obj.UID), id, freeze); err != nil && !errdefs.IsNotFound(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// thaw lets a container go on that is to be stopped, if its pod may be paused: a process that is frozen gets no signal.
func (p *Pool) thaw(obj *corev1.Pod, id string) {
	p.mu.Lock()
	w := p.pods[obj.UID]
	frozen := w != nil && w.frozen
	p.mu.Unlock()
	if !frozen && conditions.Find(obj.Status.Conditions, core.PodPaused) == nil {
		return
	}
	if err := p.config.Runtime.Freeze(string(obj.UID), id, false); err != nil && !errdefs.IsNotFound(err) {
		p.log(obj).Warn("cannot let a container go on that is to be stopped", "container", id, "error", err)
	}
}
