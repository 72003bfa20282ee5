package jobset

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
)

// Decision is what a JobSet needs now. It is carried out in the order of its fields, in one transaction.
type Decision struct {
	// Delete are Jobs to be deleted, each after its pods.
	Delete []Job
	// Service and Claims say that the JobSet needs its Service, and its claims, if they are not there.
	Service, Claims bool
	// Create are Jobs to be created.
	Create []New
	// Suspend are Jobs to be suspended, Resume those to go on with the template as it is now.
	Suspend, Resume []Job
	// Pause are Jobs to be paused, or to go on, as the JobSet is.
	Pause []Job
	// Status is the JobSet's status, if Changed.
	Status  jobsetv1.JobSetStatus
	Changed bool
	Events  []Event
	// Finished says that the JobSet had finished before.
	Finished bool
	// Expired says that the JobSet is to be deleted, after its Jobs.
	Expired bool
	// More says that there is more to decide at once: not all Jobs fitted in, or the JobSet has begun another attempt.
	More bool
	// Wake is when time alone changes something; zero for never.
	Wake time.Time
	// Ended is Completed or Failed if the JobSet has finished by this decision.
	Ended jobsetv1.JobSetConditionType
}

// New is a Job to be created: that of a group, by its index in the spec, with an index.
type New struct{ Group, Index int }

// Event is what happened to a JobSet.
type Event struct{ Type, Reason, Message string }

// Decide returns what a JobSet needs now, with no more than batch Jobs to be created and changed. It changes nothing but what the Record
// counts: for the same JobSet, Record and time it returns the same Decision.
func Decide(js *jobsetv1.JobSet, r *Record, now time.Time, batch int) Decision {
	if js.DeletionTimestamp != nil || !jobset.Managed(js) {
		return Decision{}
	}
	if js.Status.Restarts != r.restarts {
		r.restart(js.Status.Restarts)
	}
	d := &decision{js: js, r: r, now: now, room: batch, replicas: make(map[string]int32, len(js.Spec.ReplicatedJobs))}
	status := js.Status
	status.ReplicatedJobsStatus = nil // they are counted
	status.DeepCopyInto(&d.Status)
	d.tally()
	d.judge()
	d.Changed = !same(&d.Status, &js.Status)
	return d.Decision
}

// decision is a Decision in the making.
type decision struct {
	Decision
	js   *jobsetv1.JobSet
	r    *Record
	now  time.Time
	room int // for further Jobs
	// replicas of each group
	replicas map[string]int32
}

// tally sets status.replicatedJobsStatus.
func (d *decision) tally() {
	d.Status.ReplicatedJobsStatus = make([]jobsetv1.ReplicatedJobStatus, 0, len(d.js.Spec.ReplicatedJobs))
	for i := range d.js.Spec.ReplicatedJobs {
		name := d.js.Spec.ReplicatedJobs[i].Name
		d.replicas[name] = d.js.Spec.ReplicatedJobs[i].Replicas
		d.Status.ReplicatedJobsStatus = append(d.Status.ReplicatedJobsStatus, d.r.of(name).status(name))
	}
	slices.SortFunc(d.Status.ReplicatedJobsStatus, func(a, b jobsetv1.ReplicatedJobStatus) int { return cmp.Compare(b.Name, a.Name) })
}

// same reports whether two statuses are alike. That of a JobSet of many groups is looked at whenever something happens to one of them,
// and to look at it by reflection takes longer than all else.
func same(a, b *jobsetv1.JobSetStatus) bool {
	if !slices.EqualFunc(a.ReplicatedJobsStatus, b.ReplicatedJobsStatus, func(x, y jobsetv1.ReplicatedJobStatus) bool {
		return x.Name == y.Name && x.Ready == y.Ready && x.Succeeded == y.Succeeded && x.Failed == y.Failed && x.Active == y.Active &&
			x.Suspended == y.Suspended && slices.Equal(x.JobRestarts, y.JobRestarts) &&
			slices.Equal(x.JobRestartsCountTowardsMax, y.JobRestartsCountTowardsMax)
	}) {
		return false
	}
	rest, others := *a, *b
	rest.ReplicatedJobsStatus, others.ReplicatedJobsStatus = nil, nil
	return equality.Semantic.DeepEqual(rest, others)
}

// judge decides in the order in which a cluster's controller does.
func (d *decision) judge() {
	if end := jobset.End(&d.Status); end != nil {
		d.Finished = true
		d.finished(end)
		return
	}
	d.delete(d.r.former)
	if !jobset.Suspended(d.js) && d.allReady() {
		d.notRestarting("JobsReady", "all jobs are ready")
	}
	if d.anyFailed() {
		d.applyFailurePolicy()
		if !d.Wake.IsZero() { // what goes on of this attempt still does as it is told
			d.holdBack()
		}
		return
	}
	if d.succeeded() {
		d.complete()
		return
	}
	any := jobset.Jobs(d.js) > 0 // without any, nothing has checked what their names would be
	d.Service, d.Claims = any && jobset.HostNames(d.js), any && len(d.js.Spec.VolumeClaimPolicies) > 0
	d.create()
	if !jobset.Suspended(d.js) {
		d.resume()
	}
	d.holdBack()
}

// holdBack suspends and pauses Jobs, or lets paused ones go on, as the JobSet is.
func (d *decision) holdBack() {
	if jobset.Suspended(d.js) {
		d.suspend()
	}
	d.pause()
}

// finished ends what still goes on of a JobSet that has finished, and lets it expire.
func (d *decision) finished(end *metav1.Condition) {
	for i := range d.js.Spec.ReplicatedJobs {
		g := d.r.of(d.js.Spec.ReplicatedJobs[i].Name)
		d.delete(g.running)
		d.delete(g.suspended)
	}
	d.delete(d.r.former)
	ttl := d.js.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return
	}
	expires := end.LastTransitionTime.Add(time.Duration(*ttl) * time.Second)
	if d.Expired = !expires.After(d.now); !d.Expired {
		d.Wake = expires
	}
}

// delete deletes Jobs, each after its pods.
func (d *decision) delete(jobs set) {
	some, more := jobs.first(d.room)
	d.Delete = append(d.Delete, some...)
	d.take(len(some), more)
}

// take takes in that room is used up, and whether more of it was needed than there was.
func (d *decision) take(n int, more bool) {
	d.room -= n
	d.More = d.More || more
}

// allReady reports whether every Job is there, and is ready or has succeeded.
func (d *decision) allReady() bool {
	ready := int64(0)
	for i := range d.Status.ReplicatedJobsStatus {
		s := &d.Status.ReplicatedJobsStatus[i]
		ready += int64(s.Ready) + int64(s.Succeeded)
	}
	return ready == jobset.Jobs(d.js)
}

func (d *decision) anyFailed() bool {
	for _, g := range d.r.groups { // also Jobs of no group, which a cluster counts here
		if len(g.failed) > 0 {
			return true
		}
	}
	return false
}

func (d *decision) event(kind, reason, message string) {
	d.Events = append(d.Events, Event{kind, reason, message})
}

// The types of events.
const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)
