package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	api "github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/jobset"
	"github.com/jobd/jobd/daemon/node"
)

// JobSetResult is what has become of a JobSet.
type JobSetResult struct {
	Name   string                `json:"name"`
	Status jobsetv1.JobSetStatus `json:"status"`
	// Jobs and Pods are how many were created, in all attempts.
	Jobs int `json:"jobs"`
	Pods int `json:"pods"`
	// Finished, Stuck and Took are as of a Job.
	Finished    bool          `json:"finished"`
	Stuck       string        `json:"stuck,omitempty"`
	Took        time.Duration `json:"-"`
	TookSeconds float64       `json:"tookSeconds"`
}

// mostAtOnce is how many Jobs one decision is about, as in the daemon.
const mostAtOnce = 200

// playedSet is one of the JobSets.
type playedSet struct {
	*simulation
	set    *jobsetv1.JobSet
	record *jobset.Record
	begin  time.Time
	begun  bool
	dirty  bool
	wake   time.Time          // of the next attempt
	jobs   map[string]*played // that are there, by name
	made   int                // Jobs
	pods   int                // of Jobs that are gone
	awaits []*need            // after which it begins
	gang   string             // the name of the PodGroup of its attempt; empty for none
}

func newPlayedSet(s *simulation, js *jobsetv1.JobSet) *playedSet {
	set := &playedSet{simulation: s, set: js.DeepCopy(), begin: s.Begin, jobs: map[string]*played{}}
	set.record = jobset.NewRecord(set.set)
	if js.CreationTimestamp.After(s.Begin) {
		set.begin = js.CreationTimestamp.Time
	}
	return set
}

// arrive lets a JobSet begin.
func (s *playedSet) arrive() {
	s.begun, s.dirty = true, true
	s.tell("Begins", "is created")
	if !api.Awaits(s.set) {
		return
	}
	var others []string
	if s.awaits, others = s.needs(s.set.Namespace, s.set.Annotations); len(others) > 0 { // they are not played
		s.tell("Waits", fmt.Sprintf("waits for %s (%s); what follows is from then on", strings.Join(others, ", "), batch.AfterAnnotation))
	}
	if len(s.awaits) == 0 {
		s.resume()
		return
	}
	s.tell("Waits", fmt.Sprintf("waits for %s (%s)", words(s.awaits), batch.AfterAnnotation))
}

// resume lets a JobSet begin for which all others have ended.
func (s *playedSet) resume() {
	s.awaits, s.dirty = nil, true
	api.Resume(s.set, s.now)
}

func (s *playedSet) finished() bool { return s.begun && !s.dirty && api.End(&s.set.Status) != nil }

// setDue returns a JobSet to be decided on, nil if there is none.
func (s *simulation) setDue() *playedSet {
	if i := slices.IndexFunc(s.sets, func(set *playedSet) bool { return set.begun && (set.dirty || s.due(set.wake)) }); i >= 0 {
		return s.sets[i]
	}
	return nil
}

// follow folds in a Job of the JobSet as it now is.
func (s *playedSet) follow(j *played) {
	if s.record.SetJob(j.job) {
		s.dirty = true
	}
}

// decide takes one decision about the JobSet and carries it out, in the order of its fields. What it does when it expires is no more of
// interest.
func (s *playedSet) decide() error {
	s.dirty, s.wake = false, time.Time{}
	d := jobset.Decide(s.set, s.record, s.now, mostAtOnce)
	if !d.Finished {
		s.wake = d.Wake
	}
	for _, ref := range d.Delete {
		if j := s.find(ref); j != nil {
			s.delete(j)
		}
	}
	for _, n := range d.Create {
		if err := s.create(n); err != nil {
			return err
		}
	}
	for _, ref := range d.Suspend {
		if j := s.find(ref); j != nil && jobset.Suspend(j.job) {
			j.changed()
		}
	}
	for _, ref := range d.Resume {
		if j := s.find(ref); j != nil && jobset.Resume(j.job, api.Find(s.set, ref.Group)) {
			j.changed()
		}
	}
	for _, ref := range d.Pause {
		if j := s.find(ref); j != nil && jobset.Pause(j.job, s.set) {
			j.changed()
		}
	}
	if d.Changed {
		s.tellChange(&d)
		s.set.Status = d.Status
	}
	s.dirty = s.dirty || d.More
	return nil
}

func (s *playedSet) find(ref jobset.Job) *played {
	if j := s.jobs[ref.Name]; j != nil && j.job.UID == ref.UID {
		return j
	}
	return nil
}

// create creates a Job.
func (s *playedSet) create(n jobset.New) error {
	j := api.NewJob(s.set, &s.set.Spec.ReplicatedJobs[n.Group], n.Index)
	if name := api.GangName(s.set, s.set.Status.Restarts); api.Gang(s.set) && s.gang != name { // the same one for all of an attempt
		s.gang = name
		pg := api.NewGang(s.set)
		s.node.SetGroup(node.GroupKey(j.Namespace, name), node.Group{Gang: true, Once: true, MinCount: int(pg.Spec.SchedulingPolicy.Gang.MinCount)})
	}
	if slices.ContainsFunc(s.simulation.jobs, func(o *played) bool { return o.job.Name == j.Name && o.job.Namespace == j.Namespace }) {
		return fmt.Errorf("the JobSet %s cannot create its Job %s: there is another Job of that name", s.set.Name, j.Name)
	}
	s.made++
	j.UID, j.CreationTimestamp = types.UID(fmt.Sprintf("%s-job-%09d", s.set.UID, s.made)), metav1.NewTime(s.now)
	batch.SetJobDefaults(j)
	batch.PrepareJob(j)
	of, err := s.newPlayed(j)
	if err != nil {
		return err
	}
	of.set, of.begin, of.attempt = s, s.now, int(s.set.Status.Restarts)+1
	s.jobs[j.Name] = of
	s.simulation.jobs = append(s.simulation.jobs, of)
	words := "is created"
	if of.attempt > 1 {
		words += fmt.Sprintf(", attempt %d", of.attempt)
	}
	of.arrive(words)
	s.follow(of)
	return nil
}

// delete deletes a Job after its pods.
func (s *playedSet) delete(j *played) {
	if j.job.DeletionTimestamp != nil {
		return
	}
	j.job.DeletionTimestamp = &metav1.Time{Time: s.now}
	j.tell("Deleted", nil, "is deleted")
	j.changed()
	for _, p := range j.pods {
		if p != nil {
			s.simulation.delete(p, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 0))
		}
	}
}

// gone takes in that a Job is gone.
func (s *playedSet) gone(j *played) {
	s.pods += len(j.pods)
	s.record.DropJob(j.job.UID)
	s.dirty = true
	delete(s.jobs, j.job.Name)
	s.simulation.jobs = slices.DeleteFunc(s.simulation.jobs, func(o *played) bool { return o == j })
	if g := j.group; g != nil {
		g.jobs = slices.DeleteFunc(g.jobs, func(o *played) bool { return o == j })
		if g.play.Gone(j.job.UID) {
			s.decideOn(g)
		}
	}
}

func (s *playedSet) tell(what, message string) {
	e := Entry{At: s.now.Sub(s.Begin), What: what, JobSet: s.set.Name, Message: message}
	e.Seconds = e.At.Seconds()
	s.simulation.result.Timeline = append(s.simulation.result.Timeline, e)
	s.moved = s.now
}

// tellChange tells what of the status is new.
func (s *playedSet) tellChange(d *jobset.Decision) {
	if n := d.Status.Restarts; n > s.set.Status.Restarts {
		why := ""
		for _, c := range d.Status.Conditions {
			if c.Type == string(jobsetv1.JobSetRestarting) {
				why = ": " + c.Reason + ": " + c.Message
			}
		}
		s.tell("Restarts", fmt.Sprintf("begins its attempt %d%s", n+1, why))
	}
	for _, c := range d.Status.Conditions {
		known := slices.ContainsFunc(s.set.Status.Conditions, func(old metav1.Condition) bool { return old.Type == c.Type && old.Status == c.Status })
		if !known && c.Status == metav1.ConditionTrue && c.Type != string(jobsetv1.JobSetRestarting) {
			s.tell("Condition", fmt.Sprintf("is %s: %s: %s", c.Type, c.Reason, c.Message))
		}
	}
}

func (s *playedSet) result() (r JobSetResult) {
	r.Name, r.Status, r.Jobs, r.Pods = s.set.Name, s.set.Status, s.made, s.pods
	for _, j := range s.jobs {
		r.Pods += len(j.pods)
	}
	r.Took = s.now.Sub(s.begin)
	if end := api.End(&s.set.Status); end != nil {
		r.Finished = true
		r.Took = max(0, end.LastTransitionTime.Sub(s.begin.Truncate(time.Second)))
	} else {
		r.Stuck = s.stuck()
	}
	r.TookSeconds = r.Took.Seconds()
	return r
}

// stuck says why nothing more happens to a JobSet that has not ended.
func (s *playedSet) stuck() string {
	switch {
	case !api.Managed(s.set):
		return "another controller manages it (spec.managedBy)"
	case len(s.awaits) > 0:
		return fmt.Sprintf("it waits for %s (%s)", words(s.awaits), batch.AfterAnnotation)
	case api.Suspended(s.set):
		return "it is suspended (spec.suspend), so nothing happens until somebody resumes it"
	}
	var first *played
	for _, j := range s.jobs {
		if batch.End(&j.job.Status) == nil && (first == nil || j.job.Name < first.job.Name) {
			first = j
		}
	}
	if first == nil {
		return "nothing more happens to it"
	}
	return fmt.Sprintf("its Job %s has not: %s", first.job.Name, first.stuck())
}

func (r *JobSetResult) write(b *strings.Builder) {
	state := "has not ended: " + r.Stuck
	if end := api.End(&r.Status); end != nil {
		state = fmt.Sprintf("is %s after %s (%s)", end.Type, r.Took, end.Reason)
	}
	fmt.Fprintf(b, "The JobSet %s %s. Attempts: %d, Jobs created: %d, pods: %d.\n", r.Name, state, r.Status.Restarts+1, r.Jobs, r.Pods)
	groups := slices.Clone(r.Status.ReplicatedJobsStatus)
	slices.SortFunc(groups, func(a, b jobsetv1.ReplicatedJobStatus) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range groups {
		fmt.Fprintf(b, "Group %s: %d ready, %d succeeded, %d failed.\n", g.Name, g.Ready, g.Succeeded, g.Failed)
	}
}
