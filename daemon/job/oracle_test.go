package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/testdata/oracle"
)

// What a real cluster did (testdata/oracle) is replayed to Decide in virtual time: the manifest is posted, users act
// and pods change when they did there, and everything the controller has a say in is left to Decide. These are
// compared:
//
//   - the sequence of Job statuses: conditions with type, status, reason and message, all counters, index lists,
//     presence and value of the times;
//   - pods created: which index and failure counts, in which order, when; the first one whole (TestFirstPodAsCreated);
//   - pods deleted by the controller, and when;
//   - events of the Job: type, reason, message, count.
//
// The only things tolerated are those that follow from how a cluster works:
const (
	// A cluster's controller sees a change of a pod up to this much later. So ours may act earlier by this, never
	// later, and a cluster need not have written a status of ours that did not last longer. What is due by time alone
	// (back-off, deadline) must come in the same second.
	syncLag = oracle.SyncLag
	// What the recording client saw was a little older: the watch, and a controller that is busy.
	watchLag = 150 * time.Millisecond
	// A cluster counts in two steps (oracle.Counted).
	// Pods that one decision creates are created side by side by a cluster, so their order among themselves is chance.
	// Back-off is capped at 10 minutes there, at 6 by default here: the setting of the replay is 10.
	clusterBackoffCap = 10 * time.Minute
)

type scenario struct {
	*oracle.Scenario
	zero time.Time // when the manifest was posted
}

func scenarios(t *testing.T) []scenario {
	t.Helper()
	read, err := oracle.Scenarios("../../testdata/oracle/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	var all []scenario
	for _, r := range read {
		s := scenario{Scenario: r}
		s.zero = s.posted()
		all = append(all, s)
	}
	return all
}

// posted finds the time of day at which the scenario began, to a fraction of a second, from all the times in whole
// seconds that the cluster wrote and when they were first seen.
func (s *scenario) posted() time.Time {
	low, high := 0.0, 1e12
	note := func(written metav1.Time, seen float64) {
		low = max(low, float64(written.Unix())-seen)
		high = min(high, float64(written.Unix())+1-seen+watchLag.Seconds())
	}
	note(s.AtEnd.CreationTimestamp, 0.005)
	for _, p := range s.Pods.Summary {
		note(p.Created, p.CreatedAt)
	}
	known := map[string]bool{}
	for _, r := range s.Timeline {
		for _, c := range r.Status.Conditions {
			if key := fmt.Sprint(c.Type, c.Status, c.LastTransitionTime); !known[key] {
				known[key] = true
				note(c.LastTransitionTime, r.T)
			}
		}
	}
	at := (low + high) / 2
	return time.Unix(0, int64(at*1e9)).UTC()
}

func (s *scenario) at(t float64) time.Time {
	return s.zero.Add(time.Duration(t * float64(time.Second)))
}

// posted returns the Job as the API stores it.
func (s *scenario) job() *batchv1.Job {
	job := s.Manifest.DeepCopy()
	job.Namespace, job.UID, job.CreationTimestamp = s.AtEnd.Namespace, s.AtEnd.UID, s.AtEnd.CreationTimestamp
	batch.SetJobDefaults(job)
	batch.PrepareJob(job)
	return job
}

// happening is something that is not the controller's doing.
type happening struct {
	at time.Time
	do func()
}

type replay struct {
	*testing.T
	s     *scenario
	w     *world
	queue []happening
	used  map[string]bool // recorded pods that are
	over  bool
}

func TestOracle(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.Name, func(t *testing.T) {
			r := &replay{T: t, s: &s, used: map[string]bool{}}
			r.w = newWorld(s.zero, s.job())
			r.w.settings = Settings{BackoffCap: clusterBackoffCap}
			r.w.name = r.name
			r.w.onCreated = r.play
			r.script()
			r.run()
			if t.Failed() {
				return
			}
			r.compareStatuses()
			r.comparePods()
			r.compareEvents()
			if t.Failed() {
				for _, rev := range r.w.revisions {
					t.Logf("ours   %7.3f %s", rev.at.Sub(s.zero).Seconds(), describe(&rev.JobStatus))
				}
				for _, rev := range s.Timeline {
					t.Logf("theirs %7.3f %s", rev.T, describe(&rev.Status))
				}
			}
		})
	}
}

func (r *replay) at(t float64, do func()) {
	r.queue = append(r.queue, happening{r.s.at(t), do})
	slices.SortStableFunc(r.queue, func(a, b happening) int { return a.at.Compare(b.at) })
}

// script queues what users and other controllers did to the Job.
func (r *replay) script() {
	for _, a := range r.s.Pods.Actions {
		if len(a.Action) > 0 && a.Action[0] == "patch" {
			patch, err := json.Marshal(a.Action[1])
			if err != nil {
				r.Fatal(err)
			}
			r.at(a.T, func() {
				r.w.edit(func(j *batchv1.Job) {
					if err := json.Unmarshal(patch, j); err != nil {
						r.Fatal(err)
					}
					j.Generation++
				})
			})
		}
	}
	marked := false
	for _, rev := range r.s.Timeline {
		switch {
		case rev.Event == "DELETED":
			r.at(rev.T, func() { r.over = true })
		case rev.DeletionTimestamp != nil && !marked:
			marked = true
			r.at(rev.T, func() {
				r.w.edit(func(j *batchv1.Job) { j.DeletionTimestamp = rev.DeletionTimestamp })
			})
		}
	}
}

// name returns, for a new pod, the suffix of the recorded one that it stands for.
func (r *replay) name(n NewPod) string {
	for _, p := range r.s.Pods.Summary {
		if !r.used[p.Name] && (n.Index < 0 || p.Index != nil && *p.Index == strconv.Itoa(int(n.Index))) {
			r.used[p.Name] = true
			return p.Name[len(p.Name)-suffixLength:]
		}
	}
	r.Errorf("at %v: created a pod for index %d that the cluster did not", r.w.now.Sub(r.s.zero), n.Index)
	return fmt.Sprintf("%05d", len(r.w.created))
}

// byUser reports whether a pod was deleted by somebody other than the controller.
func (r *replay) byUser(pod string) bool {
	for _, a := range r.s.Pods.Actions {
		if len(a.Action) == 2 && a.Action[1] == pod {
			return true
		}
	}
	return false
}

// play queues what became of the recorded pod that a new one stands for.
func (r *replay) play(p *corev1.Pod) {
	for n, change := range r.s.Pods.Timelines[p.Name] {
		if n == 0 {
			continue
		}
		r.at(change.T, func() { r.change(p.Name, change) })
	}
}

func (r *replay) change(name string, change oracle.Change) {
	p := r.w.pods[name]
	if p == nil {
		return
	}
	if change.Event == "DELETED" {
		if len(p.Finalizers) > 0 {
			r.Errorf("%s is gone in the cluster, here it is still tracked", name)
		}
		r.w.drop(name)
		return
	}
	next := p.DeepCopy()
	next.Spec.NodeName = "kp-node"
	next.Status.Phase = corev1.PodPhase(change.Phase)
	if change.Deletion != nil && next.DeletionTimestamp == nil && r.byUser(name) {
		next.DeletionTimestamp, next.DeletionGracePeriodSeconds = change.Deletion, ptr.To[int64](30)
	}
	if len(change.Owner) == 0 {
		next.OwnerReferences = nil // the garbage collector, orphaning
	}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if change.Phase == "Running" && change.Exit == nil {
		ready.Status = corev1.ConditionTrue
		ready.LastTransitionTime = metav1.NewTime(r.w.now.Truncate(time.Second))
	}
	next.Status.Conditions = []corev1.PodCondition{ready}
	for _, c := range change.Conditions {
		kind, rest, _ := strings.Cut(c, "=")
		status, reason, _ := strings.Cut(rest, ":")
		next.Status.Conditions = append(next.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(kind), Status: corev1.ConditionStatus(status), Reason: reason,
		})
	}
	c := corev1.ContainerStatus{Name: next.Spec.Containers[0].Name, RestartCount: ptr.Deref(change.Restarts, 0)}
	if change.Exit != nil {
		c.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: *change.Exit, FinishedAt: r.finished(name, *change.Exit)}
	}
	next.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	if ended(next) {
		for i := range r.s.Pods.PodsAtEnd {
			if end := &r.s.Pods.PodsAtEnd[i]; end.Name == name {
				next.Status.ContainerStatuses = end.Status.ContainerStatuses
			}
		}
	}
	if equalPods(p, next) {
		return
	}
	r.w.pods[name] = next
	r.w.record.SetPod(Summarize(next))
}

func equalPods(p, q *corev1.Pod) bool {
	a, _ := json.Marshal(p)
	b, _ := json.Marshal(q)
	return bytes.Equal(a, b)
}

// finished returns when a pod's container ended: as recorded, or when it was first seen to have.
func (r *replay) finished(name string, exit int32) metav1.Time {
	for _, end := range r.s.Pods.PodsAtEnd {
		if end.Name == name && len(end.Status.ContainerStatuses) == 1 {
			if t := end.Status.ContainerStatuses[0].State.Terminated; t != nil {
				return t.FinishedAt
			}
		}
	}
	for _, change := range r.s.Pods.Timelines[name] {
		if change.Exit != nil && *change.Exit == exit {
			return metav1.NewTime(r.s.at(change.T - 0.02).Truncate(time.Second))
		}
	}
	return metav1.Time{}
}

func (r *replay) run() {
	r.w.settle()
	for !r.over && !r.Failed() {
		wake := r.w.wake
		if len(r.queue) == 0 && wake.IsZero() {
			return
		}
		if len(r.queue) > 0 && (wake.IsZero() || r.queue[0].at.Before(wake)) {
			for first := r.queue[0].at; len(r.queue) > 0 && r.queue[0].at.Sub(first) <= r.s.Together(); {
				h := r.queue[0]
				r.queue = r.queue[1:]
				r.w.now = maxTime(r.w.now, h.at)
				h.do()
			}
			if r.over {
				return
			}
		} else {
			r.w.now = wake
		}
		r.w.settle()
	}
}

// alike compares statuses; times may differ by as much as the statuses themselves may be apart.
func alike(a, b *batchv1.JobStatus) bool {
	near := func(a, b *metav1.Time) bool {
		if a == nil || b == nil {
			return a == b
		}
		d := a.Sub(b.Time)
		return -2*time.Second <= d && d <= 2*time.Second
	}
	return a.Active == b.Active && ptr.Equal(a.Ready, b.Ready) && ptr.Equal(a.Terminating, b.Terminating) &&
		a.Succeeded == b.Succeeded && a.Failed == b.Failed &&
		a.CompletedIndexes == b.CompletedIndexes && ptr.Equal(a.FailedIndexes, b.FailedIndexes) &&
		(a.UncountedTerminatedPods == nil) == (b.UncountedTerminatedPods == nil) &&
		near(a.StartTime, b.StartTime) && near(a.CompletionTime, b.CompletionTime) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(c, d batchv1.JobCondition) bool {
			return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message &&
				near(&c.LastProbeTime, &d.LastProbeTime) && near(&c.LastTransitionTime, &d.LastTransitionTime)
		})
}

// theirs returns the distinct statuses that the cluster wrote, in a form that ours can be compared to.
func (r *replay) theirs() []revision {
	var all []revision
	for _, rev := range r.s.Counted(func(a, b *oracle.Revision) bool { return alike(&a.Status, &b.Status) }) {
		all = append(all, revision{r.s.at(rev.T), rev.Status})
	}
	return all
}

// anyOf removes from conditions the name of the pod concerned, where that is chance.
func (r *replay) anyOf(list []batchv1.JobCondition) []batchv1.JobCondition {
	list = slices.Clone(list)
	for i := range list {
		list[i].Message = r.s.AnyPod(list[i].Message)
	}
	return list
}

func (r *replay) compareStatuses() {
	var ours []revision
	for _, rev := range r.w.revisions {
		rev.Conditions = r.anyOf(rev.Conditions)
		ours = append(ours, rev)
	}
	var last *batchv1.JobStatus // that both have
	next := 0                   // the first of ours that has no counterpart yet
	// skip goes over ours up to the one with the next counterpart: the cluster did not write them because they did not
	// last, or because they are what it had written last.
	skip := func(to int) {
		for ; next < to; next++ {
			until := r.s.at(r.s.Timeline[len(r.s.Timeline)-1].T)
			if next+1 < len(ours) {
				until = ours[next+1].at
			}
			if lasted := until.Sub(ours[next].at); (lasted > syncLag || next+1 == len(ours) && !r.over) &&
				(last == nil || !alike(last, &ours[next].JobStatus)) {
				r.Errorf("lasted %v, and the cluster did not write it: %s", lasted, describe(&ours[next].JobStatus))
			}
		}
	}
	for _, want := range r.theirs() {
		i := slices.IndexFunc(ours[next:], func(rev revision) bool {
			return alike(&rev.JobStatus, &want.JobStatus) && rev.at.Before(want.at.Add(watchLag)) && want.at.Sub(rev.at) <= syncLag
		})
		if i < 0 {
			r.Errorf("no counterpart of status at %.3f: %s", want.at.Sub(r.s.zero).Seconds(), describe(&want.JobStatus))
			return
		}
		skip(next + i)
		last = &ours[next].JobStatus
		next++
	}
	skip(len(ours))
}

func (r *replay) comparePods() {
	if len(r.w.created) != len(r.s.Pods.Summary) {
		r.Errorf("%d pods created, the cluster created %d", len(r.w.created), len(r.s.Pods.Summary))
	}
	recorded := r.s.Pods.Summary
	for n, c := range r.w.created {
		i := slices.IndexFunc(recorded, func(p oracle.Pod) bool { return p.Name == c.v.Name })
		if i < 0 {
			r.Errorf("created %s", c.v.Name)
			continue
		}
		want := recorded[i]
		if got := annotation(c.v, batchv1.JobCompletionIndexAnnotation); !ptr.Equal(got, want.Index) {
			r.Errorf("%s has index %v", c.v.Name, got)
		}
		if got := annotation(c.v, batchv1.JobIndexFailureCountAnnotation); !ptr.Equal(got, want.FailureCount) {
			r.Errorf("%s has failure count %v, want %v", c.v.Name, got, want.FailureCount)
		}
		theirs := r.s.at(want.CreatedAt)
		if c.onTime && !c.v.CreationTimestamp.Equal(&want.Created) {
			r.Errorf("%s created at %v, in the cluster at %v", c.v.Name, c.v.CreationTimestamp.UTC(), want.Created.UTC())
		}
		if early := theirs.Sub(c.at); early < -watchLag || early > syncLag {
			r.Errorf("%s created %v before the cluster's", c.v.Name, early)
		}
		if i != n { // created side by side?
			if !r.w.created[i].at.Equal(c.at) {
				r.Errorf("%s created as number %d, in the cluster as number %d", c.v.Name, n, i)
			}
		}
	}
	for _, d := range r.w.removed {
		i := slices.IndexFunc(r.s.Pods.Timelines[d.v], func(c oracle.Change) bool { return c.Deletion != nil })
		if i < 0 {
			r.Errorf("deleted %s", d.v)
			continue
		}
		if early := r.s.at(r.s.Pods.Timelines[d.v][i].T).Sub(d.at); early < -watchLag || early > syncLag {
			r.Errorf("%s deleted %v before the cluster's", d.v, early)
		}
	}
}

func annotation(p *corev1.Pod, key string) *string {
	if v, ok := p.Annotations[key]; ok {
		return &v
	}
	return nil
}

func (r *replay) compareEvents() {
	ours, theirs := map[Event]int{}, map[Event]int{}
	for _, e := range r.w.events {
		e.v.Message = r.s.AnyPod(e.v.Message)
		ours[e.v]++
	}
	for _, e := range r.s.Events {
		if strings.HasPrefix(e.Object, "Job/") {
			theirs[Event{e.Type, e.Reason, r.s.AnyPod(e.Message)}] += ptr.Deref(e.Count, 1)
		}
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		r.Errorf("events (- the cluster's, + ours):\n%s", diff)
	}
}

var accountVolume = regexp.MustCompile("kube-api-access-[a-z0-9]{5}")

func TestFirstPodAsCreated(t *testing.T) {
	for _, s := range scenarios(t) {
		want := s.Pods.FirstPodAsCreated
		if want == nil {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			job := s.job()
			w := newWorld(s.zero, job)
			var made []NewPod
			for _, n := range Decide(w.record, s.zero, Settings{}).Create {
				if n.Index < 0 || strconv.Itoa(int(n.Index)) == want.Annotations[batchv1.JobCompletionIndexAnnotation] {
					made = append(made, n)
				}
			}
			if len(made) == 0 {
				if s.Name != "parallelism0" && s.Name != "suspend-start" {
					t.Fatal("none is created")
				}
				made = []NewPod{{Index: -1}}
			}
			got := NewPodFor(job, made[0], want.Name[len(want.Name)-suffixLength:])
			got.UID, got.CreationTimestamp, got.ResourceVersion = want.UID, want.CreationTimestamp, want.ResourceVersion
			core.SetPodDefaults(got)
			core.PreparePod(got, s.zero)
			core.UseServiceAccount(&got.Spec, &corev1.ServiceAccount{})
			// The volume with the token has a name of its own in each pod.
			same := func(p *corev1.Pod) string { return accountVolume.ReplaceAllString(asYAML(t, p), "kube-api-access-x") }
			if diff := cmp.Diff(same(want), same(got)); diff != "" {
				t.Errorf("- the cluster's, + ours:\n%s", diff)
			}
		})
	}
}

func asYAML(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	p.TypeMeta = metav1.TypeMeta{}
	data, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
