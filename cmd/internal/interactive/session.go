// Package interactive stays with a Job whose container reads a terminal or the standard input: it waits with it in the queue, attaches when
// the container runs, and returns the exit code, for `jobctl submit -it` and `jobctl attach jobs/NAME`.
//
// A Job, a client of the API and the command's own streams come in; an exit code goes out. It changes the mode of the terminal while it is
// attached, and deletes the Job when the session that has created it ends before the Job.
package interactive

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/printable"
)

// DetachKeys are those that leave a session unless others are asked for.
const DetachKeys = "ctrl-p,ctrl-q"

const (
	// askEvery is how long it takes until the server is first asked why the Job waits. Later it is asked less often, up to askSeldom.
	askEvery  = time.Second
	askSeldom = 10 * time.Second
	// again is how long it takes until a session that broke off is joined again.
	again = time.Second
)

// Session is one command that stays with a Job.
type Session struct {
	Client *submit.Client
	Config *rest.Config
	In     io.Reader
	Out    io.Writer
	ErrOut io.Writer
	// DetachKeys leave the session, and the Job running.
	DetachKeys string
	// Signals are the interrupts of the command.
	Signals <-chan os.Signal
	// Own says that this command has created the Job, which ends with it.
	Own bool
}

// event is something that has happened.
type event struct {
	job     *batchv1.Job
	pod     *corev1.Pod
	deleted bool
	lost    error  // the server is out of reach; nil with known: it answers
	known   bool   // lost says something
	why     string // the Job waits
	ended   *ended // the connection to the container
	refused error
}

// running is one run of a Session.
type running struct {
	*Session
	ctx    context.Context
	job    *batchv1.Job
	events chan event
	screen *screen

	pod       *corev1.Pod // the one whose container runs, or ran last
	container string
	attached  *attachment // nil while there is none
	keys      *keyboard   // nil until the first attachment
	lostSince time.Time
	retry     <-chan time.Time
	retries   int
}

// Run stays with a Job to its end, and returns the exit code: that of the container, if it has failed, 0 if the Job goes on without us, or
// that of the signal that has ended the command.
func (s *Session) Run(ctx context.Context, j *batchv1.Job) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &running{Session: s, ctx: ctx, job: j, events: make(chan event, 16), screen: newScreen(s.ErrOut)}
	watch := s.Client.Watch(ctx, j, submit.Seen{
		Job:       func(j *batchv1.Job, deleted bool) { r.send(event{job: j, deleted: deleted}) },
		Pod:       func(p *corev1.Pod, deleted bool) { r.send(event{pod: p, deleted: deleted}) },
		Connected: func(err error) { r.send(event{lost: err, known: true}) },
		Refused:   func(err error) { r.send(event{refused: err}) },
	})
	go r.askWhy()
	code, err := r.run()
	if r.attached != nil {
		r.attached.leave()
	}
	cancel()
	watch.Wait()
	r.screen.clear()
	if err != nil {
		r.screen.say("error: " + err.Error())
	}
	return code
}

func (r *running) send(e event) {
	select {
	case r.events <- e:
	case <-r.ctx.Done():
	}
}

func (r *running) run() (int, error) {
	var patience <-chan time.Time
	for {
		if batch.End(&r.job.Status) != nil && r.attached == nil {
			return r.result()
		}
		r.attach()
		select {
		case e := <-r.events:
			if over, code, err := r.take(e); over || err != nil {
				return code, err
			}
			switch {
			case r.lostSince.IsZero():
				patience = nil
			case patience == nil:
				patience = time.After(submit.Patience)
			}
		case <-r.retry:
			r.retry = nil
		case <-patience:
			return submit.ExitCannot, fmt.Errorf("the server has not answered for %v; %s", submit.Patience, r.joinAgain())
		case s := <-r.Signals:
			return r.signaled(s)
		}
	}
}

// take takes in an event, and reports whether the command is over.
func (r *running) take(e event) (over bool, code int, err error) {
	switch {
	case e.refused != nil:
		return true, submit.ExitCannot, e.refused
	case e.known && e.lost != nil && r.lostSince.IsZero():
		r.lostSince = time.Now()
		r.screen.say("the server does not answer, trying again: " + e.lost.Error())
	case e.known && e.lost == nil:
		r.lostSince = time.Time{}
	case e.job != nil:
		if e.job.UID != r.job.UID {
			return false, 0, nil
		}
		r.job = e.job
		if e.deleted && batch.End(&e.job.Status) == nil {
			return true, submit.ExitCannot, fmt.Errorf("job %s was deleted before it had finished", r.job.Name)
		}
	case e.pod != nil:
		r.see(e.pod, e.deleted)
	case e.why != "" && r.attached == nil:
		r.screen.status("job " + r.job.Name + " waits: " + e.why)
	case e.ended != nil:
		return r.detached(e.ended)
	}
	return false, 0, nil
}

// see takes in a pod: the one of this attempt whose container runs is the one to attach to.
func (r *running) see(p *corev1.Pod, deleted bool) {
	if batch.PodAttempt(p.Annotations) != batch.AttemptOf(r.job.Annotations) {
		return
	}
	if r.pod != nil && r.pod.UID == p.UID && (deleted || podspec.Ended(p)) {
		r.pod = nil
		return
	}
	if name := talker(p); name != "" && !deleted {
		r.pod, r.container = p, name
	}
}

// talker returns the container of a pod that runs and reads; empty if there is none.
func talker(p *corev1.Pod) string {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if !c.Stdin && !c.TTY {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == c.Name && s.State.Running != nil {
				return c.Name
			}
		}
	}
	return ""
}

// attach joins the container, if it runs and that is not done yet.
func (r *running) attach() {
	if r.pod == nil || r.attached != nil || r.retry != nil || batch.End(&r.job.Status) != nil {
		return
	}
	r.screen.clear()
	c := podspec.Find(&r.pod.Spec, r.container)
	if r.keys == nil {
		r.keys = newKeyboard(r.In, c.TTY, r.DetachKeys)
	}
	r.attached = r.begin(c)
}

// detached takes in how a connection to the container has ended.
func (r *running) detached(e *ended) (over bool, code int, err error) {
	joined := r.attached.joined
	r.attached.leave()
	r.attached = nil
	switch {
	case e.left:
		r.screen.say("") // behind the prompt
		r.screen.say(fmt.Sprintf("job %s goes on; %s", r.job.Name, r.joinAgain()))
		return true, 0, nil
	case e.hangup:
		code, err := r.signaled(syscall.SIGHUP)
		return true, code, err
	}
	select {
	case <-joined: // the container may have ended before all of it was shown
	case <-r.ctx.Done():
	}
	r.retries++
	if e.err != nil && r.retries > 1 { // the first time is mostly the end of the container
		r.screen.status(fmt.Sprintf("the connection to the container is lost, joining again: %v", e.err))
	}
	r.retry = time.After(again)
	return false, 0, nil
}

// signaled ends the command, and the Job if that is its own.
func (r *running) signaled(s os.Signal) (int, error) {
	code := int(submit.InterruptedBy(s).Code)
	if !r.Own {
		r.screen.say(fmt.Sprintf("job %s goes on; %s", r.job.Name, r.joinAgain()))
		return code, nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), 10*time.Second)
	defer stop()
	background := metav1.DeletePropagationBackground
	err := r.Client.Kubernetes.BatchV1().Jobs(r.job.Namespace).Delete(ctx, r.job.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &r.job.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return code, fmt.Errorf("job %s could not be deleted, and goes on: %w", r.job.Name, err)
	}
	r.screen.say(fmt.Sprintf("job %s was deleted", r.job.Name))
	return code, nil
}

func (r *running) joinAgain() string {
	command := "jobctl attach jobs/" + r.job.Name
	if r.job.Namespace != metav1.NamespaceDefault {
		command += " -n " + r.job.Namespace
	}
	return "join it again with: " + command + r.Client.Words
}

// result returns the exit code of a Job that has ended.
func (r *running) result() (int, error) {
	result, err := submit.ResultOf(r.ctx, r.Client.Kubernetes, r.job)
	if err != nil {
		return submit.ExitCannot, err
	}
	if r.keys == nil {
		r.showLog()
	}
	switch {
	case result.Code == submit.ExitDeadline:
		r.screen.say(fmt.Sprintf("job %s has ended, since its deadline has passed", r.job.Name))
	case result.Code != 0 && result.Container == "": // no exit code says why
		r.screen.say(fmt.Sprintf("job %s: %s: %s", r.job.Name, result.Reason, result.Message))
	}
	return int(result.Code), nil
}

// showLog shows what the containers have printed of a Job that has ended before any of them could be joined.
func (r *running) showLog() {
	list, err := r.Client.Kubernetes.CoreV1().Pods(r.job.Namespace).List(r.ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(r.job.Spec.Selector),
	})
	if err != nil {
		return // the exit code still says something
	}
	r.screen.clear()
	for i := range list.Items {
		p := &list.Items[i]
		if batch.PodAttempt(p.Annotations) != batch.AttemptOf(r.job.Annotations) {
			continue
		}
		for k := range p.Spec.Containers {
			if c := &p.Spec.Containers[k]; c.Stdin || c.TTY {
				_, _ = r.Out.Write(r.earlier(p, c.Name, nil))
			}
		}
	}
}

// askWhy asks the server why the Job waits, until its container runs. A cluster has no answer.
func (r *running) askWhy() {
	for pause := askEvery; ; pause = min(pause*3/2, askSeldom) {
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return
		}
		said, err := r.Client.Explain(r.ctx, r.job)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			return
		case err != nil || said.State != batch.StateWaiting && said.State != batch.StateSuspended:
			continue
		}
		if first := why.First(said.Causes); first != nil && first.Brief != "" {
			r.send(event{why: Waits(first)})
		}
	}
}

// Waits says for what something waits, and at which place in the queue.
func Waits(c *why.Cause) string {
	text := strings.TrimSuffix(c.Brief, ".")
	if place := c.Details["place"]; place != "" && place != "0" {
		text += fmt.Sprintf("; place %s of %s in the queue", place, c.Details["waiting"])
	}
	return printable.Line(text)
}
