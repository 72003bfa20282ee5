package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

// world is a store with one Job and its pods, and the loop around Decide, in virtual time. It carries decisions out as
// the daemon does, one transaction each.
type world struct {
	now      time.Time
	settings Settings

	job    *batchv1.Job // nil once it is gone
	pods   map[string]*corev1.Pod
	stored []byte // the Memory

	record *Record
	wake   time.Time

	revisions []revision
	events    []timed[Event]
	created   []timed[*corev1.Pod]
	removed   []timed[string] // deletions that the Job decided on
	outcomes  map[types.UID][]Release

	uids      int
	name      func(NewPod) string // the suffix of a new pod
	onCreated func(*corev1.Pod)
	refuse    int // how many creations

	vanished, refused bool           // while the last decision was carried out: a pod did, a creation was
	after             func(Decision) // looks at each decision that was carried out
}

type revision struct {
	at time.Time
	batchv1.JobStatus
}

type timed[T any] struct {
	at time.Time
	v  T
	// onTime: it happened because of the time alone, not because of a change.
	onTime bool
}

func newWorld(now time.Time, job *batchv1.Job) *world {
	w := &world{now: now, job: job, pods: map[string]*corev1.Pod{}, outcomes: map[types.UID][]Release{}}
	w.name = func(NewPod) string { w.uids++; return fmt.Sprintf("%05d", w.uids) }
	w.record = w.rebuilt()
	return w
}

// rebuilt returns the Record as a restarted daemon builds it from what is stored.
func (w *world) rebuilt() *Record {
	m := &Memory{}
	if w.stored != nil {
		if err := json.Unmarshal(w.stored, m); err != nil {
			panic(err)
		}
	}
	r := NewRecord(w.job.DeepCopy(), m)
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if p := w.pods[name]; controlled(p, w.job.UID) || metav1.GetControllerOfNoCopy(p) == nil && r.Matches(p.Labels) {
			r.SetPod(Summarize(p))
		}
	}
	return r
}

func controlled(p *corev1.Pod, by types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.UID == by
}

// edit changes the Job as a user does.
func (w *world) edit(f func(*batchv1.Job)) {
	w.job = w.job.DeepCopy()
	f(w.job)
	w.record.SetJob(w.job, w.now)
}

// set changes a pod, and removes it if nothing keeps it any more.
func (w *world) set(name string, f func(*corev1.Pod)) {
	p := w.pods[name].DeepCopy()
	f(p)
	if p.DeletionTimestamp != nil && len(p.Finalizers) == 0 && (ended(p) || p.Spec.NodeName == "") {
		w.drop(name)
		return
	}
	w.pods[name] = p
	w.record.SetPod(Summarize(p))
}

func (w *world) drop(name string) {
	w.vanished = true
	w.record.DropPod(w.pods[name].UID)
	delete(w.pods, name)
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func (w *world) add(p *corev1.Pod) {
	w.pods[p.Name] = p
	w.record.SetPod(Summarize(p))
}

// settle decides and carries decisions out until nothing is left to do at this time.
func (w *world) settle() {
	onTime := !w.wake.IsZero() && !w.now.Before(w.wake)
	due := true // whether there may be something to do
	for range 10000 {
		d := Decide(w.record, w.now, w.settings)
		if !due && !idle(d) {
			panic(fmt.Sprintf("more was due, and not said to be: %+v", d))
		}
		if d.More && len(d.Adopt)+len(d.Orphan)+len(d.Release)+len(d.Delete)+len(d.Create)+len(d.Status) == 0 {
			panic("more is said to be due, but nothing was")
		}
		w.wake = d.Wake
		if idle(d) {
			if !d.Wake.IsZero() && !d.Wake.After(w.now) {
				panic("wakes without anything to do")
			}
			return
		}
		w.vanished, w.refused = false, false
		w.apply(d, onTime)
		due = d.More || w.vanished || w.refused
	}
	panic("does not settle")
}

func idle(d Decision) bool {
	return !d.More && len(d.Adopt)+len(d.Orphan)+len(d.Release)+len(d.Delete)+len(d.Create)+len(d.Status) == 0
}

func (w *world) apply(d Decision, onTime bool) {
	if w.after != nil {
		defer w.after(d)
	}
	for _, ref := range d.Adopt {
		w.set(ref.Name, func(p *corev1.Pod) { Adopt(w.job, p) })
	}
	for _, ref := range d.Orphan {
		w.set(ref.Name, func(p *corev1.Pod) { Orphan(w.job.UID, p) })
	}
	for _, n := range d.Create {
		if w.refuse > 0 {
			w.refuse--
			w.refused = true
			w.record.CreationRefused(w.now)
			w.events = append(w.events, timed[Event]{w.now, CreationFailed(errors.New("no")), onTime})
			return
		}
		p := NewPodFor(w.job, n, w.name(n))
		w.uids++
		p.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uids))
		p.CreationTimestamp = metav1.NewTime(w.now.Truncate(time.Second))
		p.Status.Phase = corev1.PodPending
		w.events = append(w.events, timed[Event]{w.now, Created(p.Name), onTime})
		w.created = append(w.created, timed[*corev1.Pod]{w.now, p, onTime})
		w.add(p)
		if w.onCreated != nil {
			w.onCreated(p)
		}
	}
	for _, rel := range d.Release {
		w.outcomes[rel.UID] = append(w.outcomes[rel.UID], rel)
		w.set(rel.Name, func(p *corev1.Pod) { Untrack(p) })
	}
	for _, ref := range d.Delete {
		w.removed = append(w.removed, timed[string]{w.now, ref.Name, onTime})
		if w.pods[ref.Name] != nil {
			w.deletePod(ref.Name)
		}
	}
	if n := len(d.Status); n > 0 && batch.End(&d.Status[n-1]) != nil {
		w.stored = nil
	}
	if d.Memory != nil {
		data, err := json.Marshal(d.Memory)
		if err != nil {
			panic(err)
		}
		w.stored = data
	}
	for _, s := range d.Status {
		w.revisions = append(w.revisions, revision{w.now, s})
		w.edit(func(j *batchv1.Job) {
			j.Status = s
			if d.PausedFor != nil {
				metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedForAnnotation, d.PausedFor.String())
			}
		})
	}
	for _, e := range d.Events {
		w.events = append(w.events, timed[Event]{w.now, e, onTime})
	}
}

// deletePod asks for a pod's deletion as the API does.
func (w *world) deletePod(name string) {
	w.set(name, func(p *corev1.Pod) {
		if p.DeletionTimestamp != nil {
			return
		}
		grace := ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30)
		if p.Spec.NodeName == "" || ended(p) {
			grace = 0
		}
		at := metav1.NewTime(w.now.Truncate(time.Second).Add(time.Duration(grace) * time.Second))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	})
}

func describe(s *batchv1.JobStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "active %d, ready %d, terminating %d, succeeded %d, failed %d",
		s.Active, ptr.Deref(s.Ready, -1), ptr.Deref(s.Terminating, -1), s.Succeeded, s.Failed)
	if s.CompletedIndexes != "" {
		fmt.Fprintf(&b, ", completed [%s]", s.CompletedIndexes)
	}
	if s.FailedIndexes != nil {
		fmt.Fprintf(&b, ", failed indexes [%s]", *s.FailedIndexes)
	}
	if s.StartTime != nil {
		fmt.Fprintf(&b, ", start %s", s.StartTime.UTC().Format("04:05"))
	}
	if s.CompletionTime != nil {
		fmt.Fprintf(&b, ", completion %s", s.CompletionTime.UTC().Format("04:05"))
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, ", %s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func restarts(p *corev1.Pod) int32 {
	if len(p.Status.ContainerStatuses) == 0 {
		return 0
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

func (w *world) start(name string) {
	w.set(name, func(p *corev1.Pod) {
		p.Spec.NodeName = "node"
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now.Truncate(time.Second)),
		})
	})
}

func (w *world) end(name string, code int32) {
	w.set(name, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.Conditions = slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", RestartCount: restarts(p),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Reason: map[int32]string{137: "OOMKilled"}[code], FinishedAt: metav1.NewTime(w.now.Truncate(time.Second)),
			}},
		}}
	})
}

// newJob is a Job of one pod, changed by f.
func newJob(f func(*batchv1.JobSpec)) *batchv1.Job {
	labels := map[string]string{"job": "j"}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "11111111-0000-4000-8000-000000000000"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](6),
			CompletionMode: ptr.To(batchv1.NonIndexedCompletion), Suspend: ptr.To(false),
			PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c"}}},
			},
		},
	}
	if f != nil {
		f(&job.Spec)
	}
	return job
}

func indexed(completions, parallelism int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) {
		s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		s.Completions, s.Parallelism = &completions, &parallelism
	}
}

// begin posts a Job and starts its first pods.
func begin(f func(*batchv1.JobSpec)) *world {
	w := newWorld(someTime, newJob(f))
	w.settle()
	w.startAll()
	return w
}

func (w *world) startAll() {
	for _, name := range w.names() {
		if w.pods[name].Status.Phase == corev1.PodPending {
			w.start(name)
		}
	}
	w.settle()
}

// names returns those of the pods that have not ended and are not being deleted, in the order of their creation.
func (w *world) names() (names []string) {
	for _, c := range w.created {
		if p := w.pods[c.v.Name]; p != nil && !ended(p) && p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// pass lets time go by, and decides whenever a decision has asked for that.
func (w *world) pass(d time.Duration) {
	for until := w.now.Add(d); w.now.Before(until); {
		w.now = until
		if !w.wake.IsZero() && w.wake.Before(until) {
			w.now = w.wake
		}
		w.settle()
	}
}

// conditions returns the types, statuses and reasons of all conditions.
func (w *world) conditions() string {
	var s []string
	for _, c := range w.job.Status.Conditions {
		s = append(s, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(s, ", ")
}

func (w *world) reasons() (reasons []string) {
	for _, e := range w.events {
		reasons = append(reasons, e.v.Reason)
	}
	return reasons
}

func suspend(w *world, to bool) {
	w.edit(func(j *batchv1.Job) { j.Spec.Suspend = &to })
	w.settle()
}
