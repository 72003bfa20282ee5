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
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/forecast"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

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
