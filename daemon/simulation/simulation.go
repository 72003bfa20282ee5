// Package simulation plays a Job to its end in virtual time: which pods are created when, what each of them counts as,
// and how the Job ends.
//
// In come a Job and how its containers behave. Out goes a timeline with the final status. All decisions are the daemon's
// own (daemon/job, daemon/pod, daemon/node); only what happens to containers is made up. Nothing here does I/O, and the
// same input always gives the same output.
package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// nodeName is that of the machine that is made up.
const nodeName = "simulated"

// Start is one start of a container.
type Start struct {
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
	// Job is as the API stores it: with defaults, validated, with a UID.
	Job *batchv1.Job
	// Behave returns how a start ends. It is asked once for each start of a main container; init containers and sidecars
	// end at once with 0, or run until they are stopped.
	Behave func(Start) End
	// Settings are those of the daemon.
	Settings job.Settings
	// MaxPods and Allocatable are those of the machine. 0 pods stand for no limit, as nil does for resources.
	MaxPods     int
	Allocatable node.Resources
	// StarvationAfter is the daemon's setting.
	StarvationAfter time.Duration
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
	// What is Created, Started, Ended, Counted, BackOff, Waits, Deleted or Condition.
	What string `json:"what"`
	// Pod and Index are empty where it is not about a pod.
	Pod     string `json:"pod,omitempty"`
	Index   *int   `json:"index,omitempty"`
	Message string `json:"message"`
}

// Result is what has happened.
type Result struct {
	Timeline []Entry           `json:"timeline"`
	Status   batchv1.JobStatus `json:"status"`
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

// Run plays a Job to its end, or until nothing more happens.
func Run(c Config) (*Result, error) {
	s := newSimulation(c)
	for {
		if err := s.settle(); err != nil {
			return nil, err
		}
		if s.over() {
			break
		}
		next := s.next()
		if next.IsZero() {
			s.result.Stuck = s.stuck()
			if n := len(s.result.Timeline); n > 0 { // what was due since then has changed nothing
				s.now = s.Begin.Add(s.result.Timeline[n-1].At)
			}
			break
		}
		s.now = next
	}
	return s.finish(), nil
}

// simulation is a Job that is being played.
type simulation struct {
	Config
	now      time.Time
	job      *batchv1.Job
	record   *job.Record
	node     *node.Node
	pods     []*simulated // in the order of their creation; those that are gone are nil
	live     []*simulated // those for which something is left to be done
	byUID    map[types.UID]*simulated
	attempts map[int]int // of an index
	wake     time.Time   // of the Job
	dirty    bool        // the Job is to be decided on
	gang     string      // the key of the PodGroup, empty for none
	backoff  time.Time   // the last one that the timeline tells, and those of indexes
	held     map[int32]time.Time
	result   Result
}

// simulated is a pod.
type simulated struct {
	*corev1.Pod
	number   int
	index    int
	issued   pod.Issued
	request  *node.Pod
	observed []pod.Observation
	running  map[string]*run
	wake     time.Time
	frozen   time.Time // since when its containers are; zero if they are not
	dirty    bool
	live     bool
	told     bool // that it waits
}

// run is a container that runs.
type run struct {
	attempt  int
	started  time.Time
	due      time.Time // zero: until it is stopped
	exitCode int
	oom      bool
}

func newSimulation(c Config) *simulation {
	if c.MaxPods == 0 {
		c.MaxPods = 1 << 30
	}
	if c.MaxCreated == 0 {
		c.MaxCreated = 100_000
	}
	s := &simulation{
		Config: c, now: c.Begin, job: c.Job.DeepCopy(), node: node.New(c.MaxPods, c.Allocatable),
		byUID: map[types.UID]*simulated{}, attempts: map[int]int{}, held: map[int32]time.Time{}, dirty: true,
	}
	if batch.Awaits(s.job) {
		s.hold()
	}
	s.tellGroup()
	s.record = job.NewRecord(s.job, nil)
	described := &corev1.Node{}
	described.Labels = nodeLabels(s.job)
	s.node.Describe(described)
	s.node.StarvationAfter = c.StarvationAfter
	return s
}

// nodeLabels are those that the Job's pods select: the machine that is made up is one that they run on.
func nodeLabels(j *batchv1.Job) map[string]string { return j.Spec.Template.Spec.NodeSelector }

// settle takes all decisions that are due now, in the order of the daemon: pods, Jobs, admission.
func (s *simulation) settle() error {
	for {
		switch {
		case s.settlePod():
		case s.jobDue():
			if err := s.decide(); err != nil {
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

// next returns when something is due; zero for never.
func (s *simulation) next() (next time.Time) {
	note := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	note(s.wake)
	note(s.node.Wake())
	for _, p := range s.live {
		note(p.wake)
		for _, r := range p.running {
			if p.frozen.IsZero() {
				note(r.due)
			}
		}
	}
	return next
}

// over reports whether the Job has ended and nothing is left to be done for its pods.
func (s *simulation) over() bool {
	return s.record.Finished() && len(s.live) == 0
}

// stuck says why nothing more happens to a Job that has not ended.
func (s *simulation) stuck() string {
	switch {
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
			if why := s.node.Why(p.UID); why != "" {
				return "pods wait for room for ever: " + why
			}
		}
	}
	return "nothing more happens to it"
}

func (s *simulation) finish() *Result {
	r := &s.result
	r.Status, r.Finished, r.Pods = s.job.Status, s.record.Finished(), len(s.pods)
	r.Took = s.now.Sub(s.Begin)
	if end := batch.End(&s.job.Status); end != nil {
		r.Took = max(0, end.LastTransitionTime.Sub(s.Begin.Truncate(time.Second)))
	}
	r.TookSeconds = r.Took.Seconds()
	for _, p := range s.pods {
		if p != nil {
			r.Left = append(r.Left, p.Pod)
		}
	}
	return r
}

func (s *simulation) tell(what string, p *simulated, format string, args ...any) {
	e := Entry{At: s.now.Sub(s.Begin), What: what, Message: fmt.Sprintf(format, args...)}
	e.Seconds = e.At.Seconds()
	if p != nil {
		e.Pod = p.Name
		if p.index >= 0 {
			e.Index = &p.index
		}
	}
	s.result.Timeline = append(s.result.Timeline, e)
}

// tellWaits tells which pods have no room.
func (s *simulation) tellWaits() {
	for _, p := range s.live {
		if p.told || p.Spec.NodeName != "" {
			continue
		}
		if why := s.node.Why(p.UID); why != "" {
			p.told = true
			s.tell("Waits", p, "waits for room: %s", why)
		}
	}
}

// join makes a pod a member of the Job's gang, if it has one.
func (s *simulation) join(p *corev1.Pod) error {
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
func (s *simulation) start(p *simulated, container string, attempt int) {
	r := &run{attempt: attempt, started: s.now}
	p.observe(s.now, pod.Observation{What: pod.SetUp})
	p.observe(s.now, pod.Observation{
		What: pod.Started, Container: container, Attempt: attempt,
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
		end := s.Behave(Start{Pod: p.number, Index: p.index, Number: count, Container: container, Restart: attempt})
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
func (s *simulation) exit(p *simulated, container string, r *run, code, signal int) {
	delete(p.running, container)
	p.observe(s.now, pod.Observation{What: pod.Exited, Container: container, Attempt: r.attempt, Status: runtime.Status{
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

func (p *simulated) observe(now time.Time, o pod.Observation) {
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
func (s *simulation) create(n job.NewPod) (*simulated, error) {
	made := len(s.pods) + 1
	p := job.NewPodFor(s.job, n, number(made))
	if err := s.join(p); err != nil {
		return nil, err
	}
	core.SetPodDefaults(p)
	p.UID = types.UID(fmt.Sprintf("%s-pod-%09d", s.job.UID, made))
	core.PreparePod(p, s.now)
	sim := &simulated{Pod: p, number: made, index: indexOf(p), request: node.PodOf(p), running: map[string]*run{}, dirty: true}
	sim.request.Within(s.job.Spec.ActiveDeadlineSeconds)
	s.pods = append(s.pods, sim)
	s.byUID[p.UID] = sim
	s.enliven(sim)
	if sim.index >= 0 {
		s.tell("Created", sim, "created for index %d%s", sim.index, moreMemory(p))
	} else {
		s.tell("Created", sim, "created%s", moreMemory(p))
	}
	return sim, nil
}
