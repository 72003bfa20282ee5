package job

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func largeJob(completions, parallelism int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "large", UID: "11111111-0000-4000-8000-000000000000"},
		Spec: batchv1.JobSpec{
			Completions: &completions, Parallelism: &parallelism,
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"job": "large"}},
		},
	}
}

// crowd is a minimal world: its pods are only what a Record is told of them.
type crowd struct {
	now     time.Time
	job     *batchv1.Job
	record  *Record
	labels  map[string]string
	pods    map[types.UID]Pod
	active  []types.UID
	n       int
	written int // bytes of index lists
	writes  int
}

func newCrowd(job *batchv1.Job) *crowd {
	c := &crowd{now: someTime, job: job, record: NewRecord(job, nil), pods: map[types.UID]Pod{}}
	c.labels = job.Spec.Selector.MatchLabels
	return c
}

func (c *crowd) settle() {
	for more := true; more; {
		d := Decide(c.record, c.now, Settings{})
		for _, rel := range d.Release {
			p := c.pods[rel.UID]
			p.Tracked = false
			c.record.SetPod(p)
			delete(c.pods, rel.UID)
		}
		for _, n := range d.Create {
			c.n++
			p := Pod{
				UID:  types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.n)),
				Name: fmt.Sprintf("large-%d-abcde", n.Index), Labels: c.labels, Controller: c.job.UID,
				Phase: corev1.PodPending, Tracked: true, Index: n.Index, Created: c.now.Unix(), Finished: c.now.Unix(),
			}
			c.pods[p.UID] = p
			c.active = append(c.active, p.UID)
			c.record.SetPod(p)
		}
		for _, s := range d.Status {
			c.job.Status = s
			c.record.SetJob(c.job, c.now)
			c.written += len(s.CompletedIndexes)
			c.writes++
		}
		more = d.More
	}
}

// run brings all pods to their end, one by one, picked by pick from those that are active.
func (c *crowd) run(pick func(n int) int) {
	c.settle()
	for len(c.active) > 0 {
		i := pick(len(c.active))
		uid := c.active[i]
		c.active[i] = c.active[0]
		c.active = c.active[1:]
		p := c.pods[uid]
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
			c.now = c.now.Add(200 * time.Microsecond)
			p.Phase, p.Ready, p.Finished = phase, phase == corev1.PodRunning, c.now.Unix()
			c.pods[uid] = p
			c.record.SetPod(p)
			c.settle()
		}
		if len(c.active) == 0 { // what a late status still holds back
			c.now = c.now.Add(time.Minute)
			c.settle()
		}
	}
}

// The cost of a pod, from its creation through Running to being counted, must not grow with the Job.
func BenchmarkPod(b *testing.B) {
	for _, size := range []struct{ completions, parallelism int32 }{{1000, 1000}, {10_000, 1000}, {100_000, 1000}, {100_000, 100_000}} {
		for name, pick := range map[string]func() func(int) int{
			"in any order": func() func(int) int { r := rand.New(rand.NewPCG(1, 2)); return r.IntN },
			"oldest first": func() func(int) int { return func(int) int { return 0 } },
		} {
			b.Run(fmt.Sprintf("%d of %d/%s", size.parallelism, size.completions, name), func(b *testing.B) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := cpuTime()
				var c *crowd
				for b.Loop() {
					c = newCrowd(largeJob(size.completions, size.parallelism))
					c.run(pick())
					if !c.record.Finished() || c.job.Status.CompletedIndexes != fmt.Sprintf("0-%d", size.completions-1) {
						b.Fatalf("not finished: %s", describe(&c.job.Status))
					}
				}
				runtime.ReadMemStats(&after)
				pods := float64(b.N) * float64(size.completions)
				b.ReportMetric(float64(cpuTime()-began)/pods, "cpu-ns/pod")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/pods, "B/pod")
				b.ReportMetric(float64(c.written)/float64(size.completions), "list-B/pod")
				b.ReportMetric(float64(c.writes)/float64(size.completions), "writes/pod")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// cpuTime returns what this process has used, whatever else the machine does meanwhile.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestAPodCostsLittleMemory(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := NewRecord(largeJob(n, n), nil)
	for i := range n {
		r.SetPod(Pod{
			UID:  types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			Name: fmt.Sprintf("large-%d-abcde", i), Labels: map[string]string{"job": "large"},
			Controller: "11111111-0000-4000-8000-000000000000", Phase: corev1.PodRunning, Tracked: true, Index: int32(i),
		})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(r)
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.0f bytes for each active pod", bytes)
	if bytes > 250 {
		t.Errorf("%.0f bytes for each active pod", bytes)
	}
	if r.active != n {
		t.Error(r.active)
	}
}

func TestAJobCostsLittleMemory(t *testing.T) {
	const n = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	records := make([]*Record, n)
	for i := range records {
		w := newWorld(someTime, newJob(nil)) // decoded anew, as from the store
		w.settle()
		records[i] = w.record
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(records)
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.0f bytes for each Job of one pod", bytes)
	if bytes > 3000 {
		t.Errorf("%.0f bytes for each Job of one pod", bytes)
	}
}

// TestAJobOfVeryManyIndexesCostsLittle: its author names them in a few characters, and each decision looks at them.
func TestAJobOfVeryManyIndexesCostsLittle(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	job := newJob(func(s *batchv1.JobSpec) {
		indexed(largest+1, 2)(s)
		s.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range 20 {
			s.SuccessPolicy.Rules = append(s.SuccessPolicy.Rules, batchv1.SuccessPolicyRule{SucceededIndexes: ptr.To(fmt.Sprintf("2-%d", largest))})
		}
	})
	job.Status.CompletedIndexes = fmt.Sprintf("0-%d", largest-3)
	w := newWorld(someTime, job)
	w.settle()
	for _, i := range []int32{largest - 2, largest, largest - 1} {
		w.startAll()
		w.endIndex(i, 0)
	}
	if w.conditions() != "SuccessCriteriaMet=True SuccessPolicy, Complete=True SuccessPolicy" {
		t.Error(describe(&w.job.Status))
	}
	if w.job.Status.CompletedIndexes != fmt.Sprintf("0-%d", largest) || w.job.Status.Succeeded != largest+1 {
		t.Error(describe(&w.job.Status))
	}
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 20 {
		t.Errorf("%d MB were allocated", mb)
	}
}
