package control_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// TestAllThatHoldsJobsBackGoesTogether has Jobs that are held back by all that can do so at once, while they are paused, suspended, retried and
// deleted, CronJobs make more of them, the clock is set, and the daemon is restarted: no group has more than it may, nobody gets CPU that
// another one has, and once nobody interferes any more, all come to their end.
func TestAllThatHoldsJobsBackGoesTogether(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { holdEverythingBack(t, rand.New(rand.NewPCG(seed, 35))) })
		})
	}
}

// crowd is what a test of all that holds Jobs back makes, and how it may go.
type crowd struct {
	*world
	r      *rand.Rand
	jobs   []*batchv1.Job // as they were created
	needed map[string]bool
	groups map[string]core.Concurrency // by Job, and that of the CronJob
	// shared says that Jobs go on though others have got their CPU meanwhile, as after a pause of somebody's, or in a window.
	shared bool
}

func holdEverythingBack(t *testing.T, r *rand.Rand) {
	w := small(t)
	w.Stop()
	w.StarvationAfter = time.Duration(r.IntN(3)) * time.Minute
	if r.IntN(2) == 0 {
		w.Fair = &fairness.Policy{HalfLife: time.Hour}
	}
	w.Start()
	defer w.End()
	c := &crowd{world: w, r: r, needed: map[string]bool{}, groups: map[string]core.Concurrency{}, shared: r.IntN(2) == 0}
	ns := &corev1.Namespace{}
	ns.Name, ns.Annotations = "default", map[string]string{}
	if r.IntN(3) == 0 {
		ns.Annotations[core.PreemptByAnnotation] = core.PreemptByPause
	}
	if r.IntN(4) == 0 {
		ns.Annotations[core.ConcurrencyLimitAnnotation] = "3"
	}
	w.Put(objects.Key(objects.Namespaces, ns), ns)
	if r.IntN(3) == 0 {
		w.Limit("q", corev1.ResourceList{"requests.cpu": resource.MustParse("4")})
	}
	for value := range int32(3) {
		class := &schedulingv1.PriorityClass{}
		class.Name, class.Value = fmt.Sprint("class", value), value
		w.Put(store.Key("priorityclasses."+schedulingv1.GroupName, "", class.Name), class)
	}
	if r.IntN(2) == 0 {
		w.CreateCronJob("cron", "*/3 * * * *", "20s", func(cj *batchv1.CronJob) {
			cj.Annotations = map[string]string{batch.JitterAnnotation: "1m", batch.MissedAnnotation: string(batch.MissedAll)}
			cj.Spec.ConcurrencyPolicy = []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent}[r.IntN(2)]
			if r.IntN(3) == 0 {
				cj.Annotations, cj.Spec.ConcurrencyPolicy = nil, batchv1.ReplaceConcurrent
			}
			cj.Spec.JobTemplate.Annotations = map[string]string{core.ConcurrencyGroupAnnotation: "db"}
			c.groups[cj.Name], _ = core.ConcurrencyOf(cj.Spec.JobTemplate.Annotations)
			cj.Spec.JobTemplate.Spec.Template.Spec.Containers = controltest.Asking("1")
		})
	}
	var set time.Duration
	for range 60 {
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			c.create()
		case 4:
			w.Stop()
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			w.Start()
		case 5:
			if c.shared {
				c.edit(func(j *batchv1.Job) {
					if batch.Paused(j.Annotations) {
						delete(j.Annotations, batch.PausedAnnotation)
					} else if batch.Ending(&j.Status) == nil && (batch.Awaits(j) || !ptr.Deref(j.Spec.Suspend, false)) {
						j.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339Nano)
					}
				})
			}
		case 6:
			c.edit(func(j *batchv1.Job) {
				if !batch.Awaits(j) && !batch.Paused(j.Annotations) {
					j.Spec.Suspend = ptr.To(!ptr.Deref(j.Spec.Suspend, false))
				}
			})
		case 7:
			if j := c.any(); j != nil && objects.Finished(j) {
				if err := retry.Begin(j, retry.Request{}, "me", time.Now()); err == nil {
					w.Put(objects.Key(objects.Jobs, j), j)
				}
			}
		case 8:
			if j := c.any(); j != nil && !c.needed[j.Name] && r.IntN(3) == 0 {
				w.Delete(objects.Key(objects.Jobs, j), j)
			}
		case 9:
			c.edit(func(j *batchv1.Job) { j.Annotations[batch.PrioritizedAnnotation] = time.Now().Format(time.RFC3339Nano) })
		case 10:
			if r.IntN(3) == 0 {
				set = time.Duration(r.IntN(41)-20) * time.Minute
				w.SetClock(set)
			}
		}
		for range 1 + r.IntN(8) {
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			c.check(t)
		}
	}
	if cj := w.CronJob("cron"); cj != nil {
		cj.Spec.Suspend = ptr.To(true)
		w.Put(objects.Key(objects.CronJobs, cj), cj)
	}
	for _, created := range c.jobs {
		if j := w.Job(created.Name); j != nil {
			delete(j.Annotations, batch.PausedAnnotation)
			if !batch.Awaits(j) && !objects.Finished(j) {
				j.Spec.Suspend = ptr.To(false)
			}
			w.Put(objects.Key(objects.Jobs, j), j)
		}
	}
	for range 100 {
		time.Sleep(13 * time.Second)
		c.check(t)
	}
	time.Sleep(100 * time.Hour) // windows come again each day
	synctest.Wait()
	for _, created := range c.jobs {
		j := w.Job(created.Name)
		if j == nil || objects.Finished(j) {
			continue
		}
		t.Errorf("%s has not ended: %v %v %+v", j.Name, j.Annotations, ptr.Deref(j.Spec.Suspend, false), j.Status)
		for _, p := range w.Pods() {
			if p.Labels[batchv1.JobNameLabel] == j.Name && !podspec.Ended(p) {
				t.Logf("%s on %q: %v %s", p.Name, p.Spec.NodeName, p.Status.Phase, controltest.Condition(p, corev1.PodScheduled))
			}
		}
	}
	if waiting, running := w.Control.Waiting(), w.Control.Running(); waiting+running > 0 {
		t.Errorf("%d pods wait and %d run at the end of all", waiting, running)
	}
}

// create makes a Job that one or several things hold back.
func (c *crowd) create() {
	r := c.r
	name := fmt.Sprintf("j%02d", len(c.jobs))
	j := controltest.Simulate(name, fmt.Sprintf("%d.%ds", 1+r.IntN(40), r.IntN(10)), "0")
	j.Annotations = map[string]string{}
	cpu := []string{"500m", "1", "2", "3"}[r.IntN(4)]
	if r.IntN(4) == 0 {
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		j.Spec.Completions, cpu = ptr.To(2+r.Int32N(2)), []string{"500m", "1"}[r.IntN(2)]
		j.Spec.Parallelism = j.Spec.Completions
		if r.IntN(2) == 0 {
			j.Spec.Scheduling = gangOf(name).Spec.Scheduling
		}
	}
	j.Spec.Template.Annotations[simulated.ExitCode] = fmt.Sprint(r.IntN(5) / 4)
	j.Spec.BackoffLimit = ptr.To(r.Int32N(3))
	j.Spec.Template.Spec.Containers = controltest.Asking(cpu)
	j.Spec.Template.Spec.PriorityClassName = []string{"", "class0", "class1", "class2"}[r.IntN(4)]
	if r.IntN(4) == 0 {
		j.Spec.ActiveDeadlineSeconds = ptr.To(10 + r.Int64N(100))
	}
	if r.IntN(3) == 0 {
		j.Annotations[core.PreemptByAnnotation] = []string{core.PreemptByPause, core.PreemptByEviction}[r.IntN(2)]
	}
	if r.IntN(3) == 0 {
		j.Annotations[core.ConcurrencyGroupAnnotation] = []string{"db", "net"}[r.IntN(2)]
		j.Annotations[core.ConcurrencyLimitAnnotation] = fmt.Sprint(1 + r.IntN(2))
		j.Annotations[core.ConcurrencyPolicyAnnotation] = []string{
			core.QueueConcurrent, core.QueueConcurrent, core.ReplaceConcurrent, core.ForbidConcurrent,
		}[r.IntN(4)]
	}
	if r.IntN(4) == 0 && len(c.jobs) > 0 {
		var needs []string
		for range 1 + r.IntN(2) {
			need := c.jobs[r.IntN(len(c.jobs))].Name
			if c.Job(need) != nil {
				c.needed[need] = true
				needs = append(needs, need+":any")
			}
		}
		slices.Sort(needs)
		if needs = slices.Compact(needs); len(needs) > 0 {
			j.Annotations[batch.AfterAnnotation] = strings.Join(needs, ",")
			j.Spec.Suspend = ptr.To(true)
		}
	}
	if r.IntN(8) == 0 {
		j.Annotations[batch.StartAtAnnotation] = time.Now().Add(time.Duration(r.IntN(300)) * time.Second).Format(time.RFC3339)
		j.Spec.Suspend = ptr.To(true)
	}
	if r.IntN(5) == 0 {
		end := []string{core.WindowFinish, core.WindowStop, core.WindowPause}[r.IntN(2)]
		if c.shared {
			end = core.WindowPause
		}
		from := time.Now().UTC().Add(time.Duration(r.IntN(6)-3) * time.Minute)
		maps.Copy(j.Annotations, inWindow(from.Format("15:04")+"-"+from.Add(time.Duration(1+r.IntN(3))*time.Minute).Format("15:04")+", 23:00-23:45", end))
	}
	if g, ok := core.ConcurrencyOf(j.Annotations); ok {
		c.groups[name] = g
	}
	c.Create(j)
	c.jobs = append(c.jobs, j)
}

func (c *crowd) any() *batchv1.Job {
	if len(c.jobs) == 0 {
		return nil
	}
	j := c.Job(c.jobs[c.r.IntN(len(c.jobs))].Name)
	if j != nil && j.DeletionTimestamp != nil {
		return nil
	}
	if j != nil && j.Annotations == nil {
		j.Annotations = map[string]string{}
	}
	return j
}

// edit changes a Job that has not ended.
func (c *crowd) edit(change func(*batchv1.Job)) {
	if j := c.any(); j != nil && !objects.Finished(j) {
		change(j)
		c.Put(objects.Key(objects.Jobs, j), j)
	}
}

// check holds what runs against the limits.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	var cpu int64
	groups := map[string]map[string]int{} // limits by Jobs, by group
	for _, p := range c.Pods() {
		if p.Spec.NodeName == "" || podspec.Ended(p) {
			continue
		}
		if _, frozen := core.PausedSince(p); !frozen {
			cpu += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
		name := p.Labels[batchv1.JobNameLabel]
		if g, ok := c.groups[strings.Split(name, "-")[0]]; ok {
			if groups[g.Group] == nil {
				groups[g.Group] = map[string]int{}
			}
			groups[g.Group][name] = g.Limit
		}
	}
	if cpu > 3000 && !c.shared {
		t.Fatalf("pods have %dm, of 3000m that there are", cpu)
	}
	for group, jobs := range groups {
		if least := slices.Min(slices.Collect(maps.Values(jobs))); len(jobs) > least {
			t.Fatalf("group %s: %v run", group, jobs)
		}
	}
}
