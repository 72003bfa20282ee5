package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/internal/handover"
)

// SetFollower follows a JobSet to its end, through all its attempts.
type SetFollower struct {
	Client  *Client
	Display progress.Display
	// Signals are the interrupts of the command; OnInterrupt is as of a Follower, and asks nobody.
	Signals     <-chan os.Signal
	OnInterrupt string
	// Again is the command that follows it again, for people.
	Again string
	// Logs is what is shown of the logs.
	Logs SetLogs
}

// SetEnded is how following a JobSet ended.
type SetEnded struct {
	Result
	// Set is its last known state.
	Set         *jobsetv1.JobSet
	Interrupted bool
}

// setFollowing is one run of a SetFollower. Its fields are those of the goroutine that calls take.
type setFollowing struct {
	*SetFollower
	ctx     context.Context
	set     *jobsetv1.JobSet
	updates chan setUpdate
	wait    sync.WaitGroup
	flow    flow

	seen    map[types.UID]bool // Jobs whose log is shown, or is to be
	queue   []*batchv1.Job     // whose log is to be shown
	reading int
	full    bool // it was said that there are too many
	said    map[string]string
	contact contact
	looked  bool // at what had begun when it ended
	told    bool // why no logs are shown
}

type setUpdate struct {
	set     *jobsetv1.JobSet
	job     *batchv1.Job
	deleted bool
	ended   *batchv1.Job // whose log has ended, with err
	refused bool
	err     error
}

// Follow shows what a JobSet does until it has finished. An error means that it could not be followed to its end.
func (f *SetFollower) Follow(ctx context.Context, js *jobsetv1.JobSet) (SetEnded, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &setFollowing{
		SetFollower: f, ctx: ctx, set: js, updates: make(chan setUpdate, 64), seen: map[types.UID]bool{}, said: map[string]string{},
	}
	defer r.wait.Wait()
	defer cancel()
	sets := setsNamed(f.Client.Dynamic, js.Namespace, js.Name)
	sets.see = func(js *jobsetv1.JobSet, deleted bool) { r.send(setUpdate{set: js, deleted: deleted}) }
	sets.connected = func(err error) { r.send(setUpdate{err: err}) }
	jobs := r.jobs()
	jobs.see = func(j *batchv1.Job, deleted bool) { r.send(setUpdate{job: j, deleted: deleted}) }
	jobs.connected = func(error) {} // the watch of the JobSet says it
	for _, watch := range []func() error{
		func() error { return sets.run(ctx, "") },
		func() error { return jobs.run(ctx, "") },
	} {
		r.wait.Go(func() {
			if err := watch(); ctx.Err() == nil {
				r.send(setUpdate{refused: true, err: err})
			}
		})
	}
	interrupted, err := r.run()
	ended := SetEnded{Set: r.set}
	switch {
	case interrupted != nil:
		ended.Result, ended.Interrupted = InterruptedBy(interrupted).Result, true
	case err == nil:
		ended.Result = r.result()
	}
	return ended, err
}

func (r *setFollowing) send(u setUpdate) {
	select {
	case r.updates <- u:
	case <-r.ctx.Done():
	}
}

// jobs are the Jobs with the label of the JobSet.
func (r *setFollowing) jobs() *watched[*batchv1.Job] {
	return jobsOf(r.Client.Kubernetes, r.set.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = setSelector(r.set) })
}

func (r *setFollowing) notice(format string, args ...any) {
	r.Display.Event(progress.Event{Time: time.Now(), Type: "notice", Message: fmt.Sprintf(format, args...)})
}

// tell shows a state of the JobSet, or of something of it, unless that was said last.
func (r *setFollowing) tell(of, state, message string) {
	if r.said[of] == state+message {
		return
	}
	r.said[of] = state + message
	r.Display.Event(progress.Event{
		Time: time.Now(), Type: "jobset", Namespace: r.set.Namespace, Name: r.set.Name, State: state, Message: message,
	})
}

func (r *setFollowing) run() (interrupted os.Signal, err error) {
	var drained <-chan time.Time
	for {
		select {
		case u := <-r.updates:
			if err := r.take(u); err != nil {
				return nil, err
			}
			if jobset.End(&r.set.Status) == nil {
				continue
			}
			if !r.looked {
				r.looked, drained = true, time.After(drain)
				if found, err := jobsOfSet(r.ctx, r.Client, r.set); err == nil {
					for _, j := range found {
						r.see(j)
					}
				}
			}
			if r.reading == 0 && len(r.queue) == 0 {
				return nil, nil
			}
		case s := <-r.Signals:
			return s, r.leave()
		case <-r.contact.over:
			return nil, fmt.Errorf("the server has not answered for %v; follow the JobSet again with: %s", Patience, r.Again)
		case <-drained:
			if idle := r.flow.idle(); idle < drain {
				drained = time.After(drain - idle)
				continue
			}
			r.notice("the end of the logs is not shown")
			return nil, nil
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		}
	}
}

func (r *setFollowing) take(u setUpdate) error {
	switch {
	case u.refused:
		return u.err
	case u.ended != nil:
		r.reading--
		if errors.Is(u.err, errNoJobLog) && !r.told { // it was gone before it was asked for, or this is a cluster
			r.told = true
			if ours, err := handover.IsJobd(r.Client.Kubernetes.Discovery()); err == nil && !ours {
				r.notice("%v", noLogsOfSets(r.set))
			}
		} else if u.err != nil && !errors.Is(u.err, errNoJobLog) && r.ctx.Err() == nil {
			r.notice("the log of job %s cannot be read: %v", u.ended.Name, u.err)
		}
		r.next()
	case u.set != nil:
		return r.takeSet(u.set, u.deleted)
	case u.job != nil:
		if !u.deleted {
			r.see(u.job)
		}
	default:
		r.contact.take(u.err, r.notice)
	}
	return nil
}

func (r *setFollowing) takeSet(js *jobsetv1.JobSet, deleted bool) error {
	if js.UID != r.set.UID {
		return nil
	}
	if deleted && jobset.End(&js.Status) == nil {
		return fmt.Errorf("jobset %s was deleted before it had finished", js.Name)
	}
	r.set = js
	if n := js.Status.Restarts; n > 0 {
		message := ""
		for _, c := range js.Status.Conditions {
			if c.Type == string(jobsetv1.JobSetRestarting) && c.Status == metav1.ConditionTrue {
				message = c.Message
			}
		}
		if state := fmt.Sprintf("attempt %d", n+1); message != "" {
			r.tell("attempt", state, message)
		}
	}
	if suspended := jobset.Suspended(js); suspended || r.said["suspended"] != "" {
		r.tell("suspended", map[bool]string{true: "suspended", false: "resumed"}[suspended], "")
	}
	for i := range js.Spec.ReplicatedJobs {
		for k := range js.Status.ReplicatedJobsStatus {
			if s := &js.Status.ReplicatedJobsStatus[k]; s.Name == js.Spec.ReplicatedJobs[i].Name && s.Ready+s.Succeeded+s.Failed > 0 {
				r.tell("group "+s.Name, "group "+groupState(s, js.Spec.ReplicatedJobs[i].Replicas), "")
			}
		}
	}
	return nil
}

func groupState(s *jobsetv1.ReplicatedJobStatus, replicas int32) string {
	out := fmt.Sprintf("%s: %d of %d ready", s.Name, s.Ready, replicas)
	if s.Succeeded > 0 {
		out += fmt.Sprintf(", %d succeeded", s.Succeeded)
	}
	if s.Failed > 0 {
		out += fmt.Sprintf(", %d failed", s.Failed)
	}
	return out
}

// see begins to show the log of a Job that has begun.
func (r *setFollowing) see(j *batchv1.Job) {
	if _, owner := batch.SetOf(j); owner != r.set.UID || r.seen[j.UID] || !hasBegun(j) {
		return
	}
	r.seen[j.UID] = true
	r.queue = append(r.queue, j)
	r.next()
}

// next begins to show logs that are to be shown, as many as may be at a time.
func (r *setFollowing) next() {
	for len(r.queue) > 0 && r.reading < mostLogs {
		j := r.queue[0]
		r.queue = r.queue[1:]
		r.reading++
		log := r.Logs.jobLogOf(r.Client, j, r.Display, &r.flow, false)
		r.wait.Go(func() {
			err := log.follow(r.ctx)
			r.send(setUpdate{ended: j, err: err})
		})
	}
	if len(r.queue) > 0 && !r.full {
		r.full = true
		r.notice("the logs of %d Jobs are shown at a time; those of others are shown once these have ended", mostLogs)
	}
}

// leave does what an interrupt is to do.
func (r *setFollowing) leave() error {
	if r.OnInterrupt != OnInterruptDelete {
		if r.Again != "" {
			r.notice("jobset %s goes on; follow it again with: %s", r.set.Name, r.Again)
		}
		return nil
	}
	r.notice("deleting jobset %s", r.set.Name)
	return removeSet(context.WithoutCancel(r.ctx), r.Client, r.set)
}

// result returns how the JobSet has ended. The exit code of one that has failed is that of the Job which made it fail.
func (r *setFollowing) result() Result {
	end := jobset.End(&r.set.Status)
	out := Result{Reason: end.Reason, Message: end.Message}
	if end.Type == string(jobsetv1.JobSetCompleted) {
		return out
	}
	out.Code = ExitFailed
	j, err := r.Client.Kubernetes.BatchV1().Jobs(r.set.Namespace).Get(r.ctx, jobset.FirstFailed(&r.set.Status), metav1.GetOptions{})
	if err != nil {
		return out
	}
	if of, err := ResultOf(r.ctx, r.Client.Kubernetes, j); err == nil && of.Code != 0 && of.Code != ExitCannot {
		out.Code, out.Pod, out.Container = of.Code, of.Pod, of.Container
	}
	return out
}

// FinishSet says how the command ended, and returns its exit code.
func FinishSet(d progress.Display, e SetEnded, err error, next []string) int {
	switch {
	case err != nil:
		d.Event(progress.Event{Time: time.Now(), Type: "notice", Message: "error: " + err.Error()})
		e.Code = ExitCannot
	case !e.Interrupted:
		said := "jobset " + e.Set.Name + ": complete"
		if e.Reason != "AllJobsCompleted" {
			said = "jobset " + e.Set.Name + ": failed: " + e.Reason + ": " + e.Message
			if e.Container != "" {
				said += fmt.Sprintf(" (exit code %d of container %s in pod %s)", e.Code, e.Container, e.Pod)
			}
		} else {
			next = nil
		}
		d.Event(progress.Event{
			Time: time.Now(), Type: "end", Namespace: e.Set.Namespace, Name: e.Set.Name, ExitCode: &e.Code, Reason: e.Reason, Message: said, Next: next,
		})
	}
	if err := d.Close(); err != nil && e.Code == 0 {
		e.Code = ExitCannot
	}
	return int(e.Code)
}
