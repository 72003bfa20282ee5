package control_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// TestGangsEndWhateverHappens lets gangs of several priorities compete for a small node, with pods that fail, restarts of
// the daemon, suspended Jobs and others in between: nobody gets more than there is, and every Job ends.
func TestGangsEndWhateverHappens(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				liveWithGangs(t, w, rand.New(rand.NewPCG(seed, 0)))
			})
		})
	}
}

func liveWithGangs(t *testing.T, w *world, r *rand.Rand) {
	var names []string
	newGang := func() {
		name := fmt.Sprintf("g%d", len(names))
		names = append(names, name)
		parallelism := 1 + r.Int32N(3)
		j := ask(gangOf(name), []string{"500m", "1"}[r.IntN(2)])
		j.Spec.Parallelism, j.Spec.Completions = &parallelism, ptr.To(parallelism+r.Int32N(3))
		if r.IntN(2) == 0 {
			j.Spec.Scheduling.SchedulingPolicy.Gang.MinCount = ptr.To(1 + r.Int32N(parallelism))
		}
		j.Spec.Template.Annotations[simulated.Duration] = fmt.Sprintf("%ds", r.IntN(30))
		j.Spec.Template.Annotations[simulated.ExitCode] = []string{"0", "0:1", "1:1,2:1", "1"}[r.IntN(4)]
		if r.IntN(2) == 0 {
			j.Spec.BackoffLimitPerIndex = ptr.To(r.Int32N(2))
		} else {
			j.Spec.BackoffLimit = ptr.To(r.Int32N(4))
		}
		j.Spec.Template.Spec.PriorityClassName = fmt.Sprintf("class-%d", r.IntN(3))
		w.Create(j)
	}
	edit := func(change func(*batchv1.Job)) {
		if len(names) == 0 {
			return
		}
		if j := w.Job(names[r.IntN(len(names))]); j != nil && !objects.Finished(j) {
			change(j)
			w.Put(objects.Key(objects.Jobs, j), j)
		}
	}
	for n := range int32(3) {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", n)}, Value: n}
		w.Put(store.Key("priorityclasses."+schedulingv1.GroupName, "", class.Name), class)
	}
	newGang()
	for n := range 25 {
		switch r.IntN(6) {
		case 0, 1:
			if len(names) < 6 {
				newGang()
			}
		case 2:
			w.Bare(fmt.Sprintf("bare-%d", n), "1500m", fmt.Sprintf("%ds", r.IntN(20)), func(p *corev1.Pod) { p.Spec.Priority = ptr.To(r.Int32N(4)) })
		case 3:
			w.Stop()
			w.Start()
		case 4:
			edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(!*j.Spec.Suspend) })
		case 5:
			if all := w.Pods(); len(all) > 0 {
				p := all[r.IntN(len(all))]
				if p.DeletionTimestamp == nil && p.Spec.NodeName != "" && !podspec.Ended(p) {
					at := p.DeepCopy()
					at.DeletionTimestamp, at.DeletionGracePeriodSeconds = ptr.To(p.CreationTimestamp), ptr.To[int64](1)
					at.DeletionTimestamp.Time = time.Now().Add(time.Second)
					w.Put(objects.Key(objects.Pods, p), at)
				}
			}
		}
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
		var cpu int64
		for _, p := range w.Pods() {
			if p.Spec.NodeName != "" && !podspec.Ended(p) {
				cpu += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			}
		}
		if cpu > 3000 {
			t.Fatalf("pods have %dm, of 3000m that there are", cpu)
		}
	}
	for _, name := range names {
		if j := w.Job(name); *j.Spec.Suspend {
			j.Spec.Suspend = ptr.To(false)
			w.Put(objects.Key(objects.Jobs, j), j)
		}
	}
	time.Sleep(3 * time.Hour)
	for _, name := range names {
		j := w.Job(name)
		if objects.Finished(j) {
			continue
		}
		t.Errorf("%s has not ended: %+v", name, j.Status)
		for _, p := range w.Pods() {
			if p.Labels[batchv1.JobNameLabel] == name && !podspec.Ended(p) {
				t.Logf("%s on %q: %s", p.Name, p.Spec.NodeName, controltest.Condition(p, corev1.PodScheduled))
			}
		}
	}
	if waiting, running := w.Control.Waiting(), w.Control.Running(); waiting+running > 0 {
		t.Errorf("%d pods wait and %d run at the end of all", waiting, running)
	}
}
