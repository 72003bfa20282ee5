package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// What an interrupt does (--on-interrupt).
const (
	// OnInterruptAsk asks on a terminal, and is OnInterruptDetach elsewhere.
	OnInterruptAsk = "ask"
	// OnInterruptDetach leaves the Job running.
	OnInterruptDetach = "detach"
	// OnInterruptDelete deletes the Job, and waits until its pods have ended.
	OnInterruptDelete = "delete"
)

// What becomes of a Job that cannot start before somebody changes something (--on-start-error).
const (
	// OnStartErrorWait waits until somebody has mended it, as the server does.
	OnStartErrorWait = "wait"
	// OnStartErrorFail gives up: the command ends with ExitCannot.
	OnStartErrorFail = "fail"
)

// Follower follows a Job to its end.
type Follower struct {
	Client  *Client
	Display progress.Display
	// Signals are the interrupts of the command.
	Signals      <-chan os.Signal
	OnInterrupt  string
	OnStartError string
	// Again is the command that follows the Job again, for people; empty if that is not possible.
	Again string
	// Own says that the server belongs to this command alone and ends with it: nobody else can change anything there, or read
	// the logs later.
	Own bool
	// Pods is called with each state of each pod; may be nil.
	Pods func(*corev1.Pod)
}

// Ended is how a command ended.
type Ended struct {
	Result
	// Job is its last known state.
	Job *batchv1.Job
	// Model has the pods that were seen.
	Model *progress.Model
	// Interrupted says that the command ended before the Job.
	Interrupted bool
	// Next are the commands that say more of a Job that has failed, or run it again.
	Next []string
}

// update is something that a goroutine of a Follower has seen.
type update struct {
	job     *batchv1.Job
	pod     *corev1.Pod
	deleted bool

	images []progress.Transfer
	over   bool // no container waits for an image any more

	signal os.Signal
	answer string // what an interrupt does; empty if it does nothing
	why    string // the Job cannot start, or waits
	kind   string // of why

	err error // the server is out of reach, or again in reach
	is  updateKind
}

type updateKind int

const (
	aboutJob updateKind = iota
	aboutPod
	aboutImages
	aboutConnection
	refused
	logsEnded
	logsOfPods
	cannotStart
	waits
	answered
)

// following is one run of a Follower.
type following struct {
	*Follower
	ctx      context.Context
	job      *batchv1.Job
	model    *progress.Model
	failures *failures
	updates  chan update
	wait     sync.WaitGroup

	isNew         bool
	pods          *podLogs // nil unless the server has no log of the Job
	contact       contact
	imagesAsked   bool
	logsOver      bool
	flow          flow // of the logs
	asking        bool
	deleting      bool
	startHinted   bool
	saidWhy       string // why the Job waits, as it was said last, without numbers
	saidKind      string
	interruptedBy os.Signal
}

// Follow shows what a Job does until it has finished. An error means that it could not be followed to its end.
func (f *Follower) Follow(ctx context.Context, j *batchv1.Job, isNew bool) (Ended, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &following{
		Follower: f, ctx: ctx, job: j, model: &progress.Model{}, failures: newFailures(j), updates: make(chan update, 64),
		isNew: isNew,
	}
	defer r.wait.Wait()
	defer cancel()
	r.model.SetValues(IndexValues(ctx, f.Client.Kubernetes, j))
	r.emit(r.model.SetJob(j, time.Now()))
	version := ""
	if isNew { // it has no pods yet
		version = j.ResourceVersion
	}
	r.watchJob()
	r.watchPods(version)
	r.followLogs()
	r.wait.Go(r.askWhy)
	err := r.run()
	return Ended{
		Result: r.result(), Job: r.job, Model: r.model, Interrupted: r.interruptedBy != nil, Next: r.next(),
	}, err
}

func (r *following) send(u update) {
	select {
	case r.updates <- u:
	case <-r.ctx.Done():
	}
}

func (r *following) watchJob() {
	jobs := jobsNamed(r.Client.Kubernetes, r.job.Namespace, r.job.Name)
	jobs.see = func(j *batchv1.Job, deleted bool) { r.send(update{is: aboutJob, job: j, deleted: deleted}) }
	jobs.connected = func(err error) { r.send(update{is: aboutConnection, err: err}) }
	r.wait.Go(func() {
		if err := jobs.run(r.ctx, r.job.ResourceVersion, r.job); r.ctx.Err() == nil {
			r.send(update{is: refused, err: err})
		}
	})
}

// selectorOf selects the pods of a Job.
func selectorOf(j *batchv1.Job) string {
	return labels.Set{batchv1.ControllerUidLabel: string(j.UID)}.String()
}

func (r *following) watchPods(version string) {
	pods := podsOf(r.Client.Kubernetes, r.job)
	pods.see = func(p *corev1.Pod, deleted bool) { r.send(update{is: aboutPod, pod: p, deleted: deleted}) }
	pods.connected = func(error) {} // the watch of the Job says it
	r.wait.Go(func() {
		if err := pods.run(r.ctx, version); r.ctx.Err() == nil {
			r.send(update{is: refused, err: err})
		}
	})
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

func (r *following) followLogs() {
	log := &jobLog{client: r.Client, job: r.job, out: shown{fromAttempt(batch.AttemptOf(r.job.Annotations), r.show), r.Display.Flush, &r.flow}}
	r.wait.Go(func() {
		err := log.follow(r.ctx)
		switch {
		case errors.Is(err, errNoJobLog):
			r.send(update{is: logsOfPods})
		default:
			r.send(update{is: logsEnded, err: err})
		}
	})
}

// fromAttempt shows what a Job has printed from an attempt on: what an earlier one has printed was followed then, and would be taken for
// what the retry does. A chunk without a source continues the one before.
func fromAttempt(attempt int, show func(progress.Chunk)) func(progress.Chunk) {
	wanted := true
	return func(c progress.Chunk) {
		if c.Pod != "" {
			wanted = max(c.Attempt, 1) >= attempt
		}
		if wanted {
			show(c)
		}
	}
}

// show shows what a pod has printed, or as a message that some of that is missing.
func (r *following) show(c progress.Chunk) {
	if c.Stream != missing {
		if c.Begins && r.model.SawProgress(c.Pod, c.Text) {
			r.Display.Update(r.model)
		}
		r.Display.Log(c)
	} else if c.Begins {
		r.notice("pod %s, container %s: %s", c.Pod, c.Container, c.Text)
	}
}

func (r *following) emit(events []progress.Event) {
	for _, e := range events {
		r.Display.Event(e)
	}
	r.Display.Update(r.model)
}

func (r *following) notice(format string, args ...any) {
	r.Display.Event(progress.Event{Time: time.Now(), Type: "notice", Message: fmt.Sprintf(format, args...)})
}

// drain is for how long nothing may come of logs that have not ended after the Job has.
const drain = 10 * time.Second

// run takes in what happens until the Job and its logs have ended.
func (r *following) run() error {
	var drained <-chan time.Time
	ended := false
	for {
		select {
		case u := <-r.updates:
			done, err := r.take(u)
			if done || err != nil {
				return err
			}
			if batch.End(&r.job.Status) != nil && !ended {
				ended = true
				if !r.Own {
					drained = time.After(drain)
				}
				r.lastLook()
			}
			if batch.End(&r.job.Status) != nil && r.logsOver {
				return nil
			}
		case s := <-r.Signals:
			if over, err := r.interrupt(s); over || err != nil {
				return err
			}
		case <-r.contact.over:
			return fmt.Errorf("the server has not answered for %v%s", Patience, r.again())
		case <-drained:
			if idle := r.flow.idle(); idle < drain {
				drained = time.After(drain - idle)
				continue
			}
			r.notice("the end of the logs is not shown%s", r.again())
			return nil
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}

func (r *following) again() string {
	if r.Again == "" {
		return ""
	}
	return "; follow the Job again with: " + r.Again
}

func (r *following) take(u update) (done bool, err error) {
	now := time.Now()
	switch u.is {
	case aboutJob:
		if u.job.UID != r.job.UID {
			return false, nil
		}
		if u.deleted {
			if r.deleting {
				return true, nil
			}
			if batch.End(&r.job.Status) == nil && batch.End(&u.job.Status) == nil {
				return true, fmt.Errorf("job %s was deleted before it had finished", r.job.Name)
			}
		}
		r.job = u.job
		r.emit(r.model.SetJob(u.job, now))
	case aboutPod:
		return r.takePod(u, now)
	case aboutImages:
		r.emit(r.model.SetImages(now, u.images))
		if u.over {
			r.imagesAsked = false
			r.followImages()
		}
	case aboutConnection:
		r.contact.take(u.err, r.notice)
	case answered:
		r.asking = false
		if u.answer != "" {
			return r.leave(u.signal, u.answer)
		}
	case refused:
		return true, u.err
	case cannotStart:
		if r.OnStartError == OnStartErrorFail {
			return true, fmt.Errorf("job %s cannot start: %s%s", r.job.Name, strings.TrimSuffix(u.why, "."), r.giveUp())
		}
		r.waits(u.why, "")
	case waits:
		r.waits(u.why, u.kind)
	case logsOfPods:
		r.pods = newPodLogs(r.ctx, r.Client, shown{r.Display.Log, r.Display.Flush, &r.flow})
		r.lastLook()
	case logsEnded:
		r.logsOver = true
		if u.err != nil && r.ctx.Err() == nil {
			r.notice("the logs cannot be read: %v", u.err)
		}
	}
	return false, nil
}

func (r *following) takePod(u update, now time.Time) (done bool, err error) {
	p := u.pod
	if batch.PodAttempt(p.Annotations) != batch.AttemptOf(r.job.Annotations) {
		return false, nil // of an attempt before the Job was retried
	}
	r.failures.see(p)
	if r.Pods != nil {
		r.Pods(p)
	}
	if r.pods != nil {
		r.pods.see(p)
	}
	if u.deleted {
		r.emit(r.model.DeletePod(p, now))
		return false, nil
	}
	r.emit(r.model.SetPod(p, now))
	r.followImages()
	switch why := startError(p); {
	case why != "" && r.OnStartError == OnStartErrorFail:
		return true, fmt.Errorf("pod %s cannot start: %s%s", p.Name, why, r.giveUp())
	case why != "":
		r.hint(" until this is fixed")
	}
	return false, nil
}

// giveUp deletes a Job that this command has created and that cannot start, so that it does not run when nobody expects it any
// more, and returns what has become of it. A Job that somebody else has created stays.
func (r *following) giveUp() string {
	if r.Own {
		return "" // all of it ends with the command
	}
	stays := "; it stays and starts once that is mended; delete it with: " + strings.Replace(r.Again, "follow", "delete", 1)
	if !r.isNew {
		return stays
	}
	background := metav1.DeletePropagationBackground
	err := r.Client.Kubernetes.BatchV1().Jobs(r.job.Namespace).Delete(r.ctx, r.job.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &r.job.UID},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return "; the Job was deleted (--on-start-error=fail)"
	}
	return fmt.Sprintf("; deleting it has failed (%v)%s", err, stays)
}

// waits says why the Job waits, unless that has been said, or is in the line of a pod. A later reason may have other numbers
// and be the same.
func (r *following) waits(why, kind string) {
	r.model.SetWhy(why)
	r.Display.Update(r.model)
	same := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c == '.' {
			return -1
		}
		return c
	}, why)
	said := kind != "" && (kind == r.saidKind || r.startHinted && slices.Contains(onPods, kind))
	if said || kind == "" && r.startHinted || same == r.saidWhy {
		return
	}
	r.saidWhy, r.saidKind = same, kind
	r.startHinted = false
	r.hint(": " + strings.TrimSuffix(why, "."))
}

// onPods are the causes that the lines of pods show.
var onPods = []string{"ImagePull", "ImageNeverPull", "InvalidImageName", "CreateContainerConfigError"}

// next returns the commands that lead on from the end of a Job that has failed.
func (r *following) next() []string {
	end := batch.End(&r.job.Status)
	if end == nil || end.Type != batchv1.JobFailed || r.interruptedBy != nil || r.Own || r.Again == "" {
		return nil
	}
	commands := []string{r.whyCommand()}
	ctx, stop := context.WithTimeout(r.ctx, 5*time.Second)
	defer stop()
	said, err := r.explain(ctx)
	if err != nil {
		return commands // a cluster, which cannot run it again, or a server that does not answer any more
	}
	for _, c := range said.Causes {
		for _, help := range c.Help {
			if c.Type == end.Reason && strings.HasPrefix(help, "jobctl retry ") {
				return append(commands, why.Reaching(help, r.Client.Words))
			}
		}
	}
	return commands
}

// whyCommand is the command that explains the Job.
func (r *following) whyCommand() string { return strings.Replace(r.Again, "follow", "why", 1) }

// hint says once that the Job waits, and how to learn more.
func (r *following) hint(what string) {
	if r.startHinted {
		return
	}
	r.startHinted = true
	if r.Again != "" && r.OnStartError != OnStartErrorFail { // else the Job is about to be deleted
		what += "; for what to do, run: " + r.whyCommand()
	}
	r.notice("job %s waits%s", r.job.Name, what)
}

// lastLook reads the pods as they are now: those of a finished Job have ended, but the watch may be behind.
func (r *following) lastLook() {
	list, err := r.Client.Kubernetes.CoreV1().Pods(r.job.Namespace).List(r.ctx, metav1.ListOptions{LabelSelector: selectorOf(r.job)})
	if err != nil {
		return // what was seen has to do
	}
	for i := range list.Items {
		_, _ = r.takePod(update{pod: &list.Items[i]}, time.Now())
	}
	if r.pods != nil && batch.End(&r.job.Status) != nil {
		pods := r.pods
		r.wait.Go(func() {
			pods.wait()
			r.send(update{is: logsEnded})
		})
	}
}

// startError returns why a container of the pod cannot start before somebody has changed something; empty if it can.
func startError(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	for s := range podspec.Statuses(p) {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError":
			return fmt.Sprintf("container %s: %s: %s", s.Name, w.Reason, w.Message)
		}
	}
	return ""
}

// result returns the exit code of the command as far as the Job and interrupts decide it.
func (r *following) result() Result {
	if r.interruptedBy != nil {
		return InterruptedBy(r.interruptedBy).Result
	}
	return r.failures.result(r.job)
}
