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
	"strconv"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/forecast"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/runtime"
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

// played is one of the Jobs.
type played struct {
	*simulation
	job      *batchv1.Job
	set      *playedSet // nil for none
	record   *job.Record
	begin    time.Time // of it
	begun    bool
	priority int32         // of its pods
	pods     []*simulated  // in the order of their creation; those that are gone are nil
	there    int           // pods that are not gone
	attempts map[int]int   // of an index
	took     forecast.Runs // of its pods that have succeeded
	wake     time.Time
	dirty    bool      // it is to be decided on
	awaits   []*need   // Jobs after which it begins
	waits    int       // which entry of the timeline says so
	startAt  time.Time // before which it does not; zero: at any time
	group    *group    // nil for none
	gang     string    // the key of the PodGroup, empty for none
	backoff  time.Time // the last one that the timeline tells, and those of indexes
	held     map[int32]time.Time
	attempt  int // of the JobSet, in which it was made
	// toldHold and toldPlace say that it was told when it is expected to start that waits for others, and for a place in its group.
	toldHold, toldPlace bool
}

// simulated is a pod.
type simulated struct {
	*corev1.Pod
	of        *played
	nominated bool
	number    int
	index     int
	issued    pod.Issued
	request   *node.Pod
	observed  []duty.Observation
	running   map[string]*run
	wake      time.Time
	dirty     bool
	live      bool
	told      bool // that it waits
}

// run is a container that runs.
type run struct {
	attempt  int
	started  time.Time
	due      time.Time // zero: until it is stopped
	exitCode int
	oom      bool
	left     time.Duration // of one that is frozen, until it is due; 0: nothing
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

// newPlayed returns a Job that begins with the simulation.
func (s *simulation) newPlayed(j *batchv1.Job) (*played, error) {
	of := &played{simulation: s, job: j, begin: s.Begin, attempts: map[int]int{}, held: map[int32]time.Time{}}
	spec := j.Spec.Template.Spec.DeepCopy()
	if err := s.prioritize(spec); err != nil {
		return nil, fmt.Errorf("jobs/%s: %w", j.Name, err)
	}
	of.priority = *spec.Priority
	return of, nil
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

// arrive lets a Job begin.
func (s *played) arrive(words string) {
	s.begun, s.dirty = true, true
	s.record = job.NewRecord(s.job, nil)
	s.record.Inherit(core.WindowOf(s.namespaces[s.job.Namespace]))
	if s.several() {
		s.tell("Begins", nil, "%s", words)
	}
	s.enter()
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

// stuck says why nothing more happens to a Job that has not ended.
func (s *played) stuck() string {
	switch {
	case len(s.awaits) > 0:
		return s.stillAwaits()
	case s.needsPlace():
		return "it has no place in the concurrency group " + s.group.name
	case ptr.Deref(s.job.Spec.Suspend, false):
		return "it is suspended (spec.suspend), so nothing happens until somebody resumes it"
	case s.record.Paused():
		return "it is paused (" + batch.PausedAnnotation + "), so nothing happens until somebody continues it"
	case !job.Managed(s.job):
		return "another controller manages it (spec.managedBy)"
	case ptr.Deref(s.job.Spec.Parallelism, 1) == 0:
		return "its parallelism is 0, so it has no pods"
	case s.node.Waiting() > 0:
		for _, p := range s.live {
			if why := s.node.Why(p.UID); why != "" && p.of == s {
				return "pods wait for room for ever: " + why
			}
		}
	}
	return "nothing more happens to it"
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

func (s *played) finish() (r JobResult) {
	r.Status, r.Finished, r.Pods = s.job.Status, s.record.Finished(), len(s.pods)
	r.Took = s.now.Sub(s.begin)
	if end := batch.End(&s.job.Status); end != nil {
		r.Took = max(0, end.LastTransitionTime.Sub(s.begin.Truncate(time.Second)))
	} else {
		r.Stuck = s.stuck()
	}
	r.TookSeconds = r.Took.Seconds()
	for _, p := range s.pods {
		if p != nil {
			r.Left = append(r.Left, p.Pod)
		}
	}
	return r
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

// join makes a pod a member of the Job's gang, if it has one.
func (s *played) join(p *corev1.Pod) error {
	if !job.IsGang(s.job, s.Settings) {
		return nil
	}
	w, err := job.NewWorkload(s.job)
	if err != nil {
		return err
	}
	g, err := job.NewPodGroup(s.job, w)
	if err != nil {
		return err
	}
	job.Join(p, g)
	if s.gang == "" {
		s.gang = node.GroupKey(s.job.Namespace, g.Name)
		group := node.Group{}
		if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
			group.Gang, group.MinCount = true, int(gang.MinCount)
		}
		s.node.SetGroup(s.gang, group)
	}
	return nil
}

// start is what happens when a container is launched.
func (s *played) start(p *simulated, container string, attempt int) {
	r := &run{attempt: attempt, started: s.now}
	p.observe(s.now, duty.Observation{What: duty.SetUp})
	p.observe(s.now, duty.Observation{
		What: duty.Started, Container: container, Attempt: attempt,
		Status: runtime.Status{State: runtime.Running, Name: container, Attempt: attempt, StartedAt: s.now},
	})
	switch {
	case isMain(p.Pod, container):
		count := attempt + 1
		if p.index >= 0 {
			if container == p.Spec.Containers[0].Name {
				s.attempts[p.index]++
			}
			count = s.attempts[p.index]
		}
		start := Start{Job: s.job.Name, Attempt: 1, Pod: p.number, Index: p.index, Number: count, Container: container, Restart: attempt}
		if s.set != nil {
			start.Group, start.Attempt = s.job.Labels[jobsetv1.ReplicatedJobNameKey], s.attempt
		}
		end := s.Behave(start)
		r.due, r.exitCode = s.now.Add(max(0, end.After)), end.Exit
		if limit := memoryLimit(p.Pod, container); end.OOM || limit > 0 && limit < end.Needs {
			r.exitCode, r.oom = 128+int(syscall.SIGKILL), true
		}
	case !isSidecar(p.Pod, container):
		r.due = s.now
	}
	p.running[container] = r
	what := "started"
	if attempt > 0 {
		what = "started again"
	}
	s.tell("Started", p, "%s%s", what, of(p.Pod, container))
}

// of names a container where that says something.
func of(p *corev1.Pod, container string) string {
	if len(p.Spec.Containers)+len(p.Spec.InitContainers) == 1 {
		return ""
	}
	return ", container " + container
}

func isMain(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
}

func isSidecar(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container && podspec.IsSidecar(&c) })
}

// exit ends a container.
func (s *played) exit(p *simulated, container string, r *run, code, signal int) {
	delete(p.running, container)
	p.observe(s.now, duty.Observation{What: duty.Exited, Container: container, Attempt: r.attempt, Status: runtime.Status{
		State: runtime.Exited, Name: container, Attempt: r.attempt, StartedAt: r.started, FinishedAt: s.now, ExitCode: code, Signal: signal,
		OOMKilled: r.oom,
	}})
	if r.oom {
		s.tell("Ended", p, "was killed for want of memory (OOMKilled, exit code %d)%s", code, of(p.Pod, container))
		return
	}
	s.tell("Ended", p, "ended with exit code %d%s", code, of(p.Pod, container))
}

// memoryLimit returns how much memory a container may use, 0 for any amount.
func memoryLimit(p *corev1.Pod, container string) int64 {
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == container {
			return c.Resources.Limits.Memory().Value()
		}
	}
	return 0
}

func (p *simulated) observe(now time.Time, o duty.Observation) {
	o.UID, o.Namespace, o.Name, o.At = p.UID, p.Namespace, p.Name, now
	p.observed = append(p.observed, o)
	p.dirty = true
}

func number(n int) string { return fmt.Sprintf("%05d", n) }

func indexOf(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// create makes the next pod.
func (s *played) create(n job.NewPod) (*simulated, error) {
	made := len(s.pods) + 1
	p := job.NewPodFor(s.job, n, number(made))
	if err := s.join(p); err != nil {
		return nil, err
	}
	core.SetPodDefaults(p)
	if err := s.prioritize(&p.Spec); err != nil {
		return nil, err
	}
	p.UID = types.UID(fmt.Sprintf("%s-pod-%09d", s.job.UID, made))
	core.PreparePod(p, s.now)
	sim := &simulated{Pod: p, of: s, number: made, index: indexOf(p), request: node.PodOf(p), running: map[string]*run{}, dirty: true}
	sim.request.Within(s.job.Spec.ActiveDeadlineSeconds)
	sim.request.Ahead, sim.request.Pausable = node.Ahead(batch.Prioritized(s.job.Annotations)), s.pausable()
	if s.HalfLife > 0 {
		sim.request.SetAccount(account(s.job.Namespace))
	}
	s.created++
	s.pods = append(s.pods, sim)
	s.there++
	s.byUID[p.UID] = sim
	s.enliven(sim)
	if sim.index >= 0 {
		s.tell("Created", sim, "created for index %d%s", sim.index, moreMemory(p))
	} else {
		s.tell("Created", sim, "created%s", moreMemory(p))
	}
	return sim, nil
}
