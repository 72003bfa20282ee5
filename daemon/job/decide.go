package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
)

// Settings are those of the daemon. A zero field stands for its default.
type Settings struct {
	BackoffBase time.Duration // after the first failure: 10s
	BackoffCap  time.Duration // at most: 6m
	Batch       int           // pods created, deleted or adopted in one Decision: 500
	StatusRate  int           // bytes of index lists written for one Job in a second: 256 KiB

	// WorkloadWithJob makes gangs of Indexed Jobs that run all their indexes at the same time.
	WorkloadWithJob bool

	// TTL is that of Jobs that have none.
	TTL TTL
}

func (s Settings) withDefaults() Settings {
	or := func(v *int, other int) {
		if *v <= 0 {
			*v = other
		}
	}
	if s.BackoffBase <= 0 {
		s.BackoffBase = 10 * time.Second
	}
	if s.BackoffCap <= 0 {
		s.BackoffCap = 6 * time.Minute
	}
	or(&s.Batch, 500)
	or(&s.StatusRate, 256<<10)
	return s
}

// Decision is what is to be done for a Job, all in one transaction and in the order of the fields. What was done is
// then to be folded into the Record.
type Decision struct {
	Adopt   []Ref     // make the Job their controller and track them: Adopt
	Orphan  []Ref     // let them go: Orphan
	Create  []NewPod  // in this order; at the first refusal call CreationRefused, skip all the rest, and decide again
	Release []Release // take the tracking finalizer from them: Untrack
	Delete  []Ref     // with the grace of their spec

	// Status holds the revisions to be written one after the other: none, one, or two, so that a watcher sees the
	// interim condition before the final one.
	Status []batchv1.JobStatus
	Memory *Memory // to be stored with the Job; nil: unchanged, or nothing if the Status ends the Job
	// PausedFor is to be written into batch.PausedForAnnotation together with the Status; nil: unchanged.
	PausedFor *time.Duration
	Events    []Event // to be recorded after those of the created pods

	More bool      // more is to be done at once: fold this in, then decide again
	Wake time.Time // when to decide again without a change; zero: never
}

// Ref names a pod.
type Ref struct {
	UID  types.UID
	Name string
}

// Release is a pod whose tracking finalizer is removed, and what it was counted as.
type Release struct {
	Ref
	Outcome Outcome
	Action  batchv1.PodFailurePolicyAction // of the podFailurePolicy rule that matched; empty for none
}

// Outcome is what a pod was counted as.
type Outcome uint8

// A pod is counted as neither when the controller removed it for another reason than a failure, when a rule of
// podFailurePolicy ignores its failure, or when its index is none of the Job's or has failed before.
const (
	neither Outcome = iota
	Succeeded
	Failed
)

// Decide returns what a Job needs now. It changes nothing: for the same Record and time it returns the same Decision.
func Decide(r *Record, now time.Time, s Settings) Decision {
	d := &decision{r: r, now: now, s: s.withDefaults(), next: r.status, pausedFor: r.pausedFor, suspends: r.spec.suspend}
	if r.spec.managed && !r.Finished() {
		d.lookAtWindow()
	}
	switch {
	case !r.spec.managed:
	case r.Finished():
		d.releaseAll()
	case r.spec.unknownMode:
		d.Events = append(d.Events, unknownCompletionMode())
	case d.awaitsWindow():
		d.waitForWindow()
	case r.gated: // nothing of it begins
		if d.pauseOrContinue(); d.forced {
			d.Status = append(d.Status, d.next)
		}
	case len(r.at(adopting)) > 0 && !r.deleting:
		d.adopt()
	default:
		d.decide()
	}
	return d.Decision
}

// decision is a Decision in the making.
type decision struct {
	Decision
	r    *Record
	now  time.Time
	s    Settings
	next batchv1.JobStatus // as it will be
	end  *verdict          // why the Job ends, nil if it does not

	active, ready, terminating int32
	succeeded                  int32 // with those that are counted now or later
	replaced                   []*pod
	pausedFor                  time.Duration // as it will be
	forced                     bool          // the status must be written now
	closed                     string        // why no pod may start, if the Job is outside of its window
	pauses                     bool          // the window pauses it
	suspends                   bool          // spec.suspend, or the window suspends it
}

func (d *decision) decide() {
	r := d.r
	d.active, d.ready, d.terminating = r.active, r.ready, r.terminating
	d.succeeded = r.status.Succeeded + r.succeeded
	if r.spec.indexed {
		d.succeeded = int32(r.completed.Len())
	}
	if !r.deleting {
		d.orphan()
	}
	d.pauseOrContinue()
	waits := r.waitsPaused() && !d.suspends
	if d.next.StartTime == nil && !d.suspends && !waits {
		if r.spec.attempt > 1 && standing(r.status.Conditions, batchv1.JobSuspended) == nil {
			d.Events = append(d.Events, retried(r.spec.attempt))
		}
		d.start()
	}
	if waits {
		d.suspendOrResume()
	} else if d.end = d.judge(); d.end != nil {
		d.stop()
	} else {
		d.run()
		d.countDisplaced()
	}
	d.endPause()
	d.showWindow()
	d.writeStatus()
	if pausedFor := d.pausedFor; pausedFor != r.pausedFor && len(d.Status) > 0 {
		d.PausedFor = &pausedFor
	}
}

// start starts the Job, or starts it anew: what was before counts for nothing.
func (d *decision) start() {
	d.next.StartTime = d.time()
	d.pausedFor = 0
	d.forced = true
}

// time returns the current time as clusters write it: in whole seconds.
func (d *decision) time() *metav1.Time {
	t := metav1.NewTime(d.now.Truncate(time.Second))
	return &t
}

// wake asks for another decision at t.
func (d *decision) wake(t time.Time) {
	if d.Wake.IsZero() || t.Before(d.Wake) {
		d.Wake = t
	}
}

// judge returns why the Job ends, nil if it does not. The first rule that applies decides.
func (d *decision) judge() *verdict {
	r := d.r
	if v := standing(r.status.Conditions, batchv1.JobSuccessCriteriaMet); v != nil {
		return v
	}
	if v := standing(r.status.Conditions, batchv1.JobFailureTarget); v != nil {
		return v
	}
	for _, rule := range []func() *verdict{
		r.failJob,
		r.backoffLimitExceeded,
		d.deadlineExceeded,
		r.failedIndexes,
		r.successPolicyMet,
	} {
		if v := rule(); v != nil {
			return v
		}
	}
	if at, ok := r.deadlineIn(&d.next, d.pausedFor); ok {
		d.wake(at)
	}
	return nil
}

// stop removes what still runs of a Job that ends.
func (d *decision) stop() {
	for _, p := range d.surplus(int(d.active)) {
		d.remove(p)
	}
}

// run brings the number of pods of a Job that goes on to what it wants, and finds out whether the Job is complete.
func (d *decision) run() {
	r := d.r
	if !r.deleting {
		switch {
		case d.suspends:
			d.stop()
		case batch.PausedBy(&d.next) != batch.PausedByUser: // otherwise none is created, and none of those that are frozen has to go
			d.scale()
		}
	}
	done := d.succeeded > 0
	if r.spec.completions >= 0 {
		done = d.succeeded >= r.spec.completions
	}
	switch {
	case done && d.active == 0:
		d.end = &verdict{
			batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached,
			"Reached expected number of succeeded pods",
		}
	case !r.deleting:
		d.suspendOrResume()
	}
}

// remove deletes an active pod. Its finalizer is removed at once: that it will end changes no count but that of the failed pods of
// a Job that fails (release).
func (d *decision) remove(p *pod) {
	d.Delete = append(d.Delete, p.ref())
	d.Events = append(d.Events, deleted(p.name))
	d.active--
	if p.is(isReady) {
		d.ready--
	}
	d.terminating++
	if p.is(isTracked) {
		d.release(p)
	}
}

// release removes a pod's tracking finalizer and counts the pod.
func (d *decision) release(p *pod) {
	r := d.r
	rel := Release{Ref: p.ref()}
	failed := r.over(p) || p.phase != succeededPhase && d.end != nil && d.end.condition == batchv1.JobFailureTarget
	switch {
	case !r.inRange(p):
	case p.phase == succeededPhase:
		if !r.spec.indexed {
			d.next.Succeeded++
			rel.Outcome = Succeeded
		} else if r.completed.Has(p.index) {
			rel.Outcome = Succeeded
		}
	case failed:
		rel.Action = policyAction(p.action)
		if p.action != ignoreAction {
			d.next.Failed++
			rel.Outcome = Failed
		}
	}
	d.Release = append(d.Release, rel)
}

// count counts the pods that have ended and those that are no longer held, and returns both. It reports whether those were all:
// there may be more than one decision takes on.
func (d *decision) count() (counted, unheld []*pod, all bool) {
	r := d.r
	all = true
	if d.end != nil || r.deleting { // no index gets another pod
		for _, pods := range r.held {
			var come []*pod
			come, all = d.countSome(pods, all)
			unheld = append(unheld, come...)
		}
	} else {
		unheld = d.replaced
		for _, p := range unheld { // with those that replace them
			d.release(p)
		}
	}
	counted, all = d.countSome(r.at(done), all)
	if d.end != nil || r.deleting {
		_, all = d.countSome(r.at(ending), all)
	}
	if d.end == nil && r.deleting { // its active pods are released
		_, all = d.countSome(r.at(live), all)
	}
	return counted, unheld, all
}

// countSome counts those of some pods that are tracked, as long as the decision takes on more. It returns the pods to which it
// has come, and whether these and those before were all.
func (d *decision) countSome(pods []*pod, before bool) (come []*pod, all bool) {
	for i, p := range pods {
		if !p.is(isTracked) {
			continue
		}
		if len(d.Release) >= d.s.Batch {
			d.More = true
			return pods[:i], false
		}
		d.release(p)
	}
	return pods, before
}

// releaseAll releases pods that are still tracked when the Job has finished.
func (d *decision) releaseAll() {
	for p := range d.r.pods.all() {
		if p.is(isTracked) && !p.is(isOrphan) {
			if len(d.Release) == d.s.Batch {
				d.More = true
				return
			}
			d.Release = append(d.Release, Release{Ref: p.ref()})
		}
	}
}

// adopt adopts orphans. Nothing else is decided before that, since they count.
func (d *decision) adopt() {
	d.Adopt = d.refs(adopting)
	d.More = true
}

// orphan releases pods that the selector no longer selects. They do not count any more.
func (d *decision) orphan() {
	d.Orphan = d.refs(letting)
	d.More = d.More || len(d.Orphan) < len(d.r.at(letting))
}

func (d *decision) refs(from stage) []Ref {
	var refs []Ref
	for _, p := range d.r.at(from) {
		if len(refs) == d.s.Batch {
			break
		}
		refs = append(refs, p.ref())
	}
	return refs
}

func policyAction(a action) batchv1.PodFailurePolicyAction {
	for name, n := range actions {
		if n == a {
			return name
		}
	}
	return ""
}
