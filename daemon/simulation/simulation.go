// Package simulation plays Jobs and JobSets to their end in virtual time: which pods are created when, what each of them counts as,
// and how the Jobs end.
//
// In come Jobs and JobSets and how their containers behave. Out goes a timeline with the final status. All decisions are the
// daemon's own (daemon/job, daemon/jobset, daemon/pod, daemon/node, daemon/hold), and so are forecasts (daemon/forecast); only what
// happens to containers is made up. Nothing here does I/O, and the same input always gives the same output.
package simulation

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/requests"
)

// nodeName is that of the machine that is made up.
const nodeName = "simulated"

// Start is one start of a container.
type Start struct {
	// Job is the name of the Job.
	Job string
	// Group is that of a Job of a JobSet, and Attempt the JobSet's, from 1; of others they are empty and 1.
	Group   string
	Attempt int
	// Pod counts the pods of the Job from 1, in the order of their creation.
	Pod int
	// Index is the completion index, -1 for none.
	Index int
	// Number counts the starts from 1: those of the index, or without an index those of the container in its pod.
	Number    int
	Container string
	// Restart counts the starts of the container in its pod from 0.
	Restart int
}

// End is how a container ends by itself.
type End struct {
	After time.Duration
	Exit  int
	// OOM says that it is killed for want of memory, and Needs the bytes that it needs: it is killed if it may use less.
	OOM   bool
	Needs int64
}

// Config is what is simulated.
type Config struct {
	// Job is as the API stores it: with defaults, validated, with a UID. It is nil if there are only JobSets.
	Job *batchv1.Job
	// More are Jobs that are played with it on the same machine, and JobSets too. Each begins when it was created, but not before Begin.
	// All have different names and UIDs.
	More    []*batchv1.Job
	JobSets []*jobsetv1.JobSet
	// Namespaces, with what their annotations say of Jobs, and PriorityClasses are those that the Jobs name. A namespace may be missing.
	Namespaces      []*corev1.Namespace
	PriorityClasses []*schedulingv1.PriorityClass
	// Behave returns how a start ends. It is asked once for each start of a main container; init containers and sidecars
	// end at once with 0, or run until they are stopped.
	Behave func(Start) End
	// Settings are those of the daemon.
	Settings job.Settings
	// MaxPods and Allocatable are those of the machine. 0 pods stand for no limit, as nil does for resources.
	MaxPods     int
	Allocatable requests.Resources
	// StarvationAfter is the daemon's setting.
	StarvationAfter time.Duration
	// HalfLife orders pods of the same priority by what their namespaces have used, which counts for half after that time; 0: by age.
	HalfLife time.Duration
	// Begin is when the Job is created.
	Begin time.Time
	// MaxCreated ends a simulation that creates more pods than this; 0 is 100000.
	MaxCreated int
}

// Entry is something that happens.
type Entry struct {
	// At is the time since the Job was created.
	At time.Duration `json:"-"`
	// Seconds is the same, for programs.
	Seconds float64 `json:"seconds"`
	// What is Created, Started, Ended, Counted, BackOff, Waits, Begins, Restarts, Deleted, Preempted, Paused, Continued, Signaled or
	// Condition.
	What string `json:"what"`
	// Job is empty where only one is played, and where it is about the JobSet.
	Job    string `json:"job,omitempty"`
	JobSet string `json:"jobSet,omitempty"`
	// Pod and Index are empty where it is not about a pod.
	Pod     string `json:"pod,omitempty"`
	Index   *int   `json:"index,omitempty"`
	Message string `json:"message"`
	// Expected is when what waits is expected to start, a pod for room, or a Job for others or for a place in its group, as the daemon would say
	// it then; nil if nobody knows.
	Expected *wire.Expected `json:"expected,omitempty"`
}

// Result is what has happened.
type Result struct {
	Timeline []Entry `json:"timeline"`
	// What has become of Config.Job; nil if there was none.
	*JobResult
	// Jobs is what has become of each Job, if several were played. Of a JobSet, they are those that are there at the end.
	Jobs    []JobResult    `json:"jobs,omitempty"`
	JobSets []JobSetResult `json:"jobSets,omitempty"`
}

// JobResult is what has become of a Job.
type JobResult struct {
	// Name is empty where only one is played.
	Name string `json:"name,omitempty"`
	// JobSet is the one to which it belongs.
	JobSet string            `json:"jobSet,omitempty"`
	Status batchv1.JobStatus `json:"status"`
	// Pods is how many pods were created.
	Pods int `json:"pods"`
	// Finished says that the Job has ended. If it has not, Stuck says why nothing more happens.
	Finished bool   `json:"finished"`
	Stuck    string `json:"stuck,omitempty"`
	// Took is the time from the creation of the Job to its end, or to the last thing that happened.
	Took        time.Duration `json:"-"`
	TookSeconds float64       `json:"tookSeconds"`
	// Left are the pods whose objects are left at the end.
	Left []*corev1.Pod `json:"-"`
}

// Run plays Jobs to their end, or until nothing more happens.
func Run(c Config) (*Result, error) {
	s, err := newSimulation(c)
	if err != nil {
		return nil, err
	}
	for {
		if err := s.settle(); err != nil {
			return nil, err
		}
		if s.over() {
			break
		}
		next, others := s.next()
		if next.IsZero() || !others && s.repeats(next) {
			if n := len(s.result.Timeline); n > 0 { // what was due since then has changed nothing
				s.now = s.Begin.Add(s.result.Timeline[n-1].At)
			}
			break
		}
		s.now = next
	}
	return s.finish(), nil
}

// simulation are Jobs that are being played.
type simulation struct {
	Config
	now        time.Time
	moved      time.Time // when something has happened last that was not a window
	node       *node.Node
	jobs       []*played    // in the order in which they begin
	sets       []*playedSet // in the same order
	live       []*simulated // the pods for which something is left to be done
	byUID      map[types.UID]*simulated
	created    int // pods
	foretold   int // how many pods and Jobs that wait were told when they start
	groups     []*group
	undecided  []*group                     // of these, in which something has changed
	namespaces map[string]map[string]string // their annotations
	result     Result
}

func newSimulation(c Config) (*simulation, error) {
	if c.MaxPods == 0 {
		c.MaxPods = 1 << 30
	}
	if c.MaxCreated == 0 {
		c.MaxCreated = 100_000
	}
	s := &simulation{
		Config: c, now: c.Begin, moved: c.Begin, node: node.New(c.MaxPods, c.Allocatable),
		byUID: map[types.UID]*simulated{}, namespaces: map[string]map[string]string{},
	}
	s.node.StarvationAfter = c.StarvationAfter
	if c.HalfLife > 0 {
		s.node.ShareFairly(c.HalfLife)
	}
	for _, ns := range c.Namespaces {
		s.namespaces[ns.Name] = ns.Annotations
		if share, err := core.Share(ns.Annotations); err == nil {
			s.node.SetShare(account(ns.Name), share)
		}
	}
	// The machine that is made up is one that the pods run on: it has the labels that they select.
	described := &corev1.Node{}
	described.Labels = map[string]string{}
	jobs := slices.Clone(c.More)
	if c.Job != nil {
		jobs = append([]*batchv1.Job{c.Job}, jobs...)
	}
	for _, j := range jobs {
		label(described, &j.Spec.Template)
		if name := j.Spec.Template.Spec.PriorityClassName; len(jobs) == 1 && len(c.JobSets) == 0 && name != "" { // a priority means nothing to a single Job
			s.PriorityClasses = append(slices.Clone(s.PriorityClasses), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		of, err := s.newPlayed(j.DeepCopy())
		if err != nil {
			return nil, err
		}
		if j != c.Job && j.CreationTimestamp.After(c.Begin) {
			of.begin = j.CreationTimestamp.Time
		}
		s.jobs = append(s.jobs, of)
	}
	for _, js := range c.JobSets {
		for i := range js.Spec.ReplicatedJobs {
			label(described, &js.Spec.ReplicatedJobs[i].Template.Spec.Template)
		}
		s.sets = append(s.sets, newPlayedSet(s, js))
	}
	slices.SortStableFunc(s.jobs, func(a, b *played) int { return a.begin.Compare(b.begin) })
	slices.SortStableFunc(s.sets, func(a, b *playedSet) int { return a.begin.Compare(b.begin) })
	s.node.Describe(described)
	return s, nil
}

// label gives the machine the labels that pods select, unless it has others of these names.
func label(described *corev1.Node, template *corev1.PodTemplateSpec) {
	for name, value := range template.Spec.NodeSelector {
		if _, known := described.Labels[name]; !known {
			described.Labels[name] = value
		}
	}
}

// account is whose use of the machine pods of a namespace are.
func account(namespace string) string { return "namespace " + namespace }

// several reports whether there is more than one Job, so that the timeline has to say which is meant.
func (s *simulation) several() bool { return len(s.jobs) > 1 || len(s.sets) > 0 }

// arrive lets the Jobs and JobSets begin whose time has come.
func (s *simulation) arrive() {
	for _, j := range s.jobs {
		if !j.begun && !j.begin.After(s.now) {
			j.arrive("is created")
		}
	}
	for _, set := range s.sets {
		if !set.begun && !set.begin.After(s.now) {
			set.arrive()
		}
	}
}

// settle takes all decisions that are due now, in the order of the daemon: pods, Jobs, what holds those back, admission.
func (s *simulation) settle() error {
	s.arrive()
	for {
		of, set := s.jobDue(), s.setDue()
		switch {
		case s.settlePod():
		case of != nil:
			if err := of.decide(); err != nil {
				return err
			}
		case s.settleHolds():
		case set != nil:
			if err := set.decide(); err != nil {
				return err
			}
		case s.admit():
		default:
			s.tellWaits()
			return nil
		}
	}
}

func (s *simulation) due(t time.Time) bool { return !t.IsZero() && !t.After(s.now) }

// next returns when something is due, zero for never, and whether anything is that is not the next decision about a Job.
func (s *simulation) next() (next time.Time, others bool) {
	note := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, j := range s.jobs {
		note(j.wake)
	}
	ofJobs := next
	next = time.Time{}
	for _, set := range s.sets {
		if !set.begun {
			note(set.begin)
		}
		note(set.wake)
	}
	for _, j := range s.jobs {
		if !j.begun {
			note(j.begin)
		}
		if j.startAt.After(s.now) {
			note(j.startAt)
		}
	}
	note(s.node.Wake())
	for _, p := range s.live {
		note(p.wake)
		for _, r := range p.running {
			note(r.due)
		}
	}
	others = !next.IsZero()
	note(ofJobs)
	return next, others
}

// repeats reports whether nothing but windows that open and close has happened for so long that nothing else will: they are the same in
// each week, and any deadline has come by then.
func (s *simulation) repeats(next time.Time) bool {
	longest := 15 * 24 * time.Hour
	for _, j := range s.jobs {
		longest = max(longest, 15*24*time.Hour+podspec.Seconds(ptr.Deref(j.job.Spec.ActiveDeadlineSeconds, 0)))
	}
	return next.Sub(s.moved) > longest
}

// over reports whether the Jobs have ended and nothing is left to be done for their pods.
func (s *simulation) over() bool {
	return len(s.live) == 0 && !slices.ContainsFunc(s.jobs, func(j *played) bool { return !j.begun || !j.record.Finished() }) &&
		!slices.ContainsFunc(s.sets, func(set *playedSet) bool { return !set.finished() })
}

func (s *simulation) finish() *Result {
	for _, j := range s.jobs {
		r := j.finish()
		if s.several() {
			r.Name = j.job.Name
			if j.set != nil {
				r.JobSet = j.set.set.Name
			}
			s.result.Jobs = append(s.result.Jobs, r)
		}
		if s.Job != nil && j.job.UID == s.Job.UID {
			s.result.JobResult = &r
		}
	}
	for _, set := range s.sets {
		s.result.JobSets = append(s.result.JobSets, set.result())
	}
	return &s.result
}

func (s *played) tell(what string, p *simulated, format string, args ...any) {
	e := Entry{At: s.now.Sub(s.Begin), What: what, Message: fmt.Sprintf(format, args...)}
	e.Seconds = e.At.Seconds()
	if s.several() {
		e.Job = s.job.Name
	}
	if p != nil {
		e.Pod = p.Name
		if p.index >= 0 {
			e.Index = &p.index
		}
	}
	s.result.Timeline = append(s.result.Timeline, e)
	if what != "Condition" { // those of a window come again and again, and the last ones of the Job once
		s.moved = s.now
	}
}
