package vm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// TestPowerCuts takes the power from the machine again and again while pods run, end and are counted, and its disk loses
// each time what it had not flushed. A client outside of the machine has seen what jobd had confirmed.
func TestPowerCuts(t *testing.T) {
	m := bootAtLength(t)
	m.serve()
	m.powerCuts(6).clean()
}

// powerCuts returns the machine that runs after the last cut.
func (m *machine) powerCuts(cuts int) *machine {
	t := m.t
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("JOBD_VM_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("JOBD_VM_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	saw := &witness{jobs: map[string]*batchv1.Job{}, pods: map[types.UID]*corev1.Pod{}}
	for round := range cuts {
		// Each has pods that end in every way: index 1 of the second one fails for good.
		counting, failing := job(fmt.Sprintf("counting-%d", round), 6, 2, "sleep 0.$JOB_COMPLETION_INDEX"),
			job(fmt.Sprintf("failing-%d", round), 4, 2, "exit $((JOB_COMPLETION_INDEX == 1 ? 7 : 0))")
		failing.Spec.BackoffLimit, failing.Spec.BackoffLimitPerIndex = nil, ptr.To[int32](0)
		m.create(counting, ignoring(failing))
		stop := saw.watch(m)
		had := saw.ended()
		m.eventually("pods end", func() error {
			if n := saw.ended() - had; n < 2 {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
		// In the middle of what is written for the others.
		<-m.disk.FailAfter(1 + random.IntN(60))
		m.cut(random)
		stop()
		t.Logf("%d pods were seen to have ended", saw.ended())

		m = boot(t, m.disk)
		m.ready()
		m.sound()
		saw.check(m)
	}
	for name := range saw.jobs {
		m.until(name, "ended", func(j *batchv1.Job) bool { return end(j) != nil })
	}
	saw.check(m)
	for name := range saw.jobs {
		m.right(name)
	}
	// Each pod runs its one container once: what a cut has ended is not started again.
	starts := map[string]int{}
	for uid := range strings.FieldsSeq(m.sh("cat /data/notes/starts")) {
		if starts[uid]++; len(uid) == 36 && starts[uid] > 1 {
			t.Errorf("pod %s was started %d times", uid, starts[uid])
		}
	}
	m.sound()
	return m
}

// right checks how a Job has ended.
func (m *machine) right(name string) {
	m.t.Helper()
	j := m.until(name, "is there", func(*batchv1.Job) bool { return true })
	pods := m.pods(name)
	var failed, disruptions int32
	for _, p := range pods[corev1.PodFailed] {
		if disrupted(&p) {
			disruptions++
		} else if code, err := exitCode(&p); err != nil || code != 7 || j.Spec.BackoffLimitPerIndex == nil {
			m.t.Errorf("pod %s has failed and was not disrupted: exit code %d, %v", p.Name, code, err)
		} else {
			failed++
		}
	}
	m.t.Logf("%s: %s; %d succeeded, %d failed; %d pods were lost", name, end(j).Type, j.Status.Succeeded, j.Status.Failed, disruptions)
	type result struct {
		End               batchv1.JobConditionType
		Completed, Failed string
		Succeeded, Counts int32
		Pods              int
	}
	got := result{
		end(j).Type, j.Status.CompletedIndexes, ptr.Deref(j.Status.FailedIndexes, ""), j.Status.Succeeded, j.Status.Failed,
		len(pods[corev1.PodSucceeded]),
	}
	want := result{batchv1.JobComplete, "0-5", "", 6, disruptions, 6}
	if j.Spec.BackoffLimitPerIndex != nil {
		want = result{batchv1.JobFailed, "0,2,3", "1", 3, 1, 3}
	}
	if got != want || failed != int32(len(want.Failed)) {
		m.t.Errorf("job %s: %+v with %d pods failed by themselves, want %+v", name, got, failed, want)
	}
}

// witness is a client that remembers what it was told.
type witness struct {
	mu      sync.Mutex
	jobs    map[string]*batchv1.Job
	pods    map[types.UID]*corev1.Pod
	version uint64 // the highest
}

func (w *witness) see(o metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil {
		w.version = max(w.version, v)
	}
	switch o := o.(type) {
	case *batchv1.Job:
		w.jobs[o.Name] = o
	case *corev1.Pod:
		w.pods[o.UID] = o
	}
}

// watch looks at Jobs and pods until the connection ends; what it returns waits for that.
func (w *witness) watch(m *machine) (stop func()) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(m.t.Context())
	var watches sync.WaitGroup
	follow := func(begin func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
		seen, err := begin(ctx, metav1.ListOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		watches.Go(func() {
			defer seen.Stop()
			for event := range seen.ResultChan() {
				if o, ok := event.Object.(metav1.Object); ok && event.Type != watch.Bookmark {
					w.see(o)
				}
			}
		})
	}
	follow(m.BatchV1().Jobs("default").Watch)
	follow(m.CoreV1().Pods("default").Watch)
	return func() {
		cancel()
		watches.Wait()
	}
}

// ended counts the pods that were seen to have ended.
func (w *witness) ended() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			n++
		}
	}
	return n
}

// check compares what was seen with what exists: there may be more, but nothing may be missing or different.
func (w *witness) check(m *machine) {
	m.t.Helper()
	pods, err := m.CoreV1().Pods("default").List(m.t.Context(), metav1.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	jobs, err := m.BatchV1().Jobs("default").List(m.t.Context(), metav1.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	if v, err := strconv.ParseUint(pods.ResourceVersion, 10, 64); err != nil || v < w.version {
		m.t.Errorf("resourceVersion %s, and %d was seen before", pods.ResourceVersion, w.version)
	}
	there := map[types.UID]*corev1.Pod{}
	for i := range pods.Items {
		there[pods.Items[i].UID] = &pods.Items[i]
	}
	for uid, was := range w.pods {
		is := there[uid]
		if is == nil {
			m.t.Errorf("pod %s was seen and is not there", was.Name)
			continue
		}
		if was.Status.Phase != corev1.PodSucceeded && was.Status.Phase != corev1.PodFailed {
			continue
		}
		had, _ := exitCode(was)
		has, _ := exitCode(is)
		if is.Status.Phase != was.Status.Phase || has != had {
			m.t.Errorf("pod %s was %s with exit code %d and is %s with %d", was.Name, was.Status.Phase, had, is.Status.Phase, has)
		}
	}
	for i := range jobs.Items {
		is := &jobs.Items[i]
		was := w.jobs[is.Name]
		if was == nil {
			continue
		}
		if is.UID != was.UID || is.Status.Succeeded < was.Status.Succeeded || is.Status.Failed < was.Status.Failed || end(was) != nil && end(is) == nil {
			m.t.Errorf("job %s was\n%+v and is\n%+v", is.Name, was.Status, is.Status)
		}
		delete(w.jobs, is.Name)
	}
	for name := range w.jobs {
		m.t.Errorf("job %s was seen and is not there", name)
	}
	for i := range jobs.Items {
		w.see(&jobs.Items[i])
	}
	for i := range pods.Items {
		w.see(&pods.Items[i])
	}
	m.t.Logf("%d Jobs and %d pods are as they were seen, or further", len(jobs.Items), len(pods.Items))
}
