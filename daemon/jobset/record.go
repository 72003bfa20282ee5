package jobset

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
)

// Record is what decisions need to know about a JobSet beside its object: the Jobs that it controls. It must not be used by several
// goroutines at a time.
type Record struct {
	name  string // of the JobSet
	jobs  map[types.UID]*Job
	slots map[string]*slots // by group
	// restarts is the present attempt. Jobs of it are counted in groups. Of the others, former are still to be deleted, and departing
	// are being deleted.
	restarts  int32
	groups    map[string]*group
	former    set
	departing int
	begun     bool
}

// set is some of the Jobs.
type set map[types.UID]*Job

// group are the Jobs of a replicated Job in the present attempt, counted by what has become of them. One that has not finished, and is
// being deleted, is in none of the sets.
type group struct {
	ready, busy, held, paused           int32 // paused are some of running and suspended
	running, suspended, failed, success set
}

// slots are the names that the Jobs of a group have, by their indexes. Below from, all are taken.
type slots struct {
	taken map[int]bool
	from  int
}

// Job is what decisions need of a Job.
type Job struct {
	UID   types.UID
	Name  string
	Group string

	attempt   int32
	created   time.Time
	end       batchv1.JobConditionType // Complete or Failed, empty while it goes on
	ended     time.Time
	reason    string // of a failure
	message   string
	ready     bool
	busy      bool // it has pods
	suspended bool
	paused    bool // or is to be
	deleting  bool
}

// NewRecord makes the record of a JobSet. SetJob is then to be called with its Jobs.
func NewRecord(js *jobsetv1.JobSet) *Record {
	r := &Record{name: js.Name, jobs: map[types.UID]*Job{}, slots: map[string]*slots{}}
	r.restart(js.Status.Restarts)
	return r
}

// restart begins to count for an attempt.
func (r *Record) restart(restarts int32) {
	r.restarts, r.groups, r.former, r.departing = restarts, map[string]*group{}, set{}, 0
	for _, j := range r.jobs {
		r.count(j, 1)
	}
}

// summarize returns what decisions need of a Job.
func summarize(j *batchv1.Job) *Job {
	out := &Job{
		UID: j.UID, Name: j.Name, Group: j.Labels[jobsetv1.ReplicatedJobNameKey],
		created:   j.CreationTimestamp.Time,
		suspended: ptr.Deref(j.Spec.Suspend, false), busy: j.Status.Active > 0, deleting: j.DeletionTimestamp != nil,
		paused: batch.Paused(j.Annotations),
	}
	if attempt, err := strconv.ParseInt(j.Labels[jobset.RestartAttemptKey], 10, 32); err == nil {
		out.attempt = int32(attempt)
	} else {
		out.attempt = -1 // nobody knows: it is made again
	}
	pods := ptr.Deref(j.Spec.Parallelism, 1)
	if j.Spec.Completions != nil {
		pods = min(pods, *j.Spec.Completions)
	}
	out.ready = j.Status.Succeeded+ptr.Deref(j.Status.Ready, 0) >= pods
	if c := batch.End(&j.Status); c != nil {
		out.end, out.ended = c.Type, c.LastTransitionTime.Time
		if c.Type == batchv1.JobFailed {
			out.reason, out.message = c.Reason, c.Message
		}
	}
	return out
}

// began returns when the present attempt began: when the first of its Jobs was made.
func (r *Record) began() (at time.Time) {
	for _, j := range r.jobs {
		if j.attempt == r.restarts && (at.IsZero() || j.created.Before(at)) {
			at = j.created
		}
	}
	return at
}

// Begun reports whether a pod of any Job has run, as far as is known of the Jobs that have been there.
func (r *Record) Begun() bool { return r.begun }

// SetJob folds in a Job that the JobSet controls, and reports whether Decide is to be called: also when its first pod has begun to run.
func (r *Record) SetJob(j *batchv1.Job) bool {
	next := summarize(j)
	begins := !r.begun && (j.Status.Succeeded > 0 || j.Status.Failed > 0 || ptr.Deref(j.Status.Ready, 0) > 0)
	r.begun = r.begun || begins
	if old, ok := r.jobs[j.UID]; ok {
		if *old == *next {
			return begins
		}
		r.count(old, -1)
	} else if s, index := r.slotOf(j.Name); s != nil {
		s.taken[index] = true
	}
	r.jobs[j.UID] = next
	r.count(next, 1)
	return true
}

// slotOf returns where the name of a Job stands, SET-GROUP-INDEX; nil if it is no such name. Labels could be changed.
func (r *Record) slotOf(name string) (*slots, int) {
	rest, ok := strings.CutPrefix(name, r.name+"-")
	dash := strings.LastIndexByte(rest, '-')
	if !ok || dash < 0 {
		return nil, 0
	}
	index, err := strconv.Atoi(rest[dash+1:])
	if err != nil || index < 0 {
		return nil, 0
	}
	return r.slotsOf(rest[:dash]), index
}

func (r *Record) slotsOf(group string) *slots {
	if r.slots[group] == nil {
		r.slots[group] = &slots{taken: map[int]bool{}}
	}
	return r.slots[group]
}

// DropJob folds in that a Job is gone, or not the JobSet's any more.
func (r *Record) DropJob(uid types.UID) {
	j, ok := r.jobs[uid]
	if !ok {
		return
	}
	r.count(j, -1)
	delete(r.jobs, uid)
	if s, index := r.slotOf(j.Name); s != nil {
		delete(s.taken, index)
		s.from = min(s.from, index)
	}
}

// UIDs yields those of all Jobs.
func (r *Record) UIDs() iter.Seq[types.UID] { return maps.Keys(r.jobs) }

// AllEnded reports whether no Job goes on.
func (r *Record) AllEnded() bool {
	for _, j := range r.jobs {
		if j.end == "" || j.attempt < r.restarts {
			return false
		}
	}
	return true
}

// count adds a Job to what is counted, by 1, or takes it away, by -1.
func (r *Record) count(j *Job, by int32) {
	put := func(s set) {
		if by > 0 {
			s[j.UID] = j
		} else {
			delete(s, j.UID)
		}
	}
	if j.attempt < r.restarts {
		if j.deleting {
			r.departing += int(by)
		} else {
			put(r.former)
		}
		return
	}
	g := r.groups[j.Group]
	if g == nil {
		g = &group{running: set{}, suspended: set{}, failed: set{}, success: set{}}
		r.groups[j.Group] = g
	}
	switch {
	case j.end == batchv1.JobComplete:
		put(g.success)
		return
	case j.end == batchv1.JobFailed:
		put(g.failed)
		return
	case j.deleting:
	case j.suspended:
		put(g.suspended)
	default:
		put(g.running)
	}
	if j.suspended {
		g.held += by
	}
	if j.paused && !j.deleting {
		g.paused += by
	}
	if j.ready {
		g.ready += by
	}
	if j.busy {
		g.busy += by
	}
}

// none stands for groups without Jobs.
var none = &group{}

func (r *Record) of(name string) *group {
	if g := r.groups[name]; g != nil {
		return g
	}
	return none
}

// Missing returns how many Jobs of a group are not there.
func (r *Record) Missing(group *jobsetv1.ReplicatedJob) int {
	if s := r.slots[group.Name]; s != nil {
		return max(0, int(group.Replicas)-len(s.taken))
	}
	return int(group.Replicas)
}

// Held returns how many Jobs of a group are suspended, in the present attempt.
func (r *Record) Held(group *jobsetv1.ReplicatedJob) int { return len(r.of(group.Name).suspended) }

// status returns what the status of a JobSet says of a group.
func (g *group) status(name string) jobsetv1.ReplicatedJobStatus {
	return jobsetv1.ReplicatedJobStatus{
		Name: name, Ready: g.ready, Succeeded: int32(len(g.success)), Failed: int32(len(g.failed)),
		Active: g.busy, Suspended: g.held,
	}
}

// first returns up to n Jobs, in the order in which they were named, and whether there are more.
func (s set) first(n int) (out []Job, more bool) {
	for _, j := range s {
		out = append(out, *j)
	}
	slices.SortFunc(out, func(a, b Job) int { return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name)) })
	if n = max(0, n); len(out) > n {
		return out[:n], true
	}
	return out, false
}
