package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// gangOf is a Job of three pods that run for 10 s and need all of the small node.
func gangOf(name string) *batchv1.Job {
	j := controltest.Simulate(name, "10s", "0")
	j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](3), ptr.To[int32](3)
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
		Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{},
	}}
	return j
}

func (w *world) group(t *testing.T) *schedulingv1beta1.PodGroup {
	t.Helper()
	synctest.Wait()
	var all []*schedulingv1beta1.PodGroup
	_ = w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.PodGroups, func(_ string, g *schedulingv1beta1.PodGroup) error {
			all = append(all, g)
			return nil
		})
	})
	if len(all) != 1 {
		t.Fatalf("%d PodGroups, want one", len(all))
	}
	return all[0]
}

// ask sets a request for the containers of a Job.
func ask(j *batchv1.Job, cpu string) *batchv1.Job {
	j.Spec.Template.Spec.Containers = controltest.Asking(cpu)
	return j
}

func TestAGangStartsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Bare("blocker", "2", "30s", nil)
		w.Create(ask(gangOf("g"), "1"))
		time.Sleep(5 * time.Second)
		if got := w.Running(); !slices.Equal(got, []string{"blocker"}) {
			t.Fatalf("%v run, want the one that blocks alone", got)
		}
		const why = "pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
		for _, p := range w.Pods() {
			if p.Name == "blocker" {
				continue
			}
			if got := controltest.Condition(p, corev1.PodScheduled); got != "False Unschedulable "+why {
				t.Errorf("%s: %s", p.Name, got)
			}
			if got := w.Events(p.Name); !slices.Equal(got, []string{"FailedScheduling: " + why}) {
				t.Errorf("%s: %v", p.Name, got)
			}
		}
		g := w.group(t)
		if c := g.Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != "Unschedulable" || c[0].Message != why {
			t.Errorf("%+v", c)
		}
		w.Stop() // a restart changes nothing
		w.Start()
		time.Sleep(26 * time.Second)
		if got := w.Running(); len(got) != 3 {
			t.Fatalf("%v run, want the gang", got)
		}
		if c := w.group(t).Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionTrue || c[0].Reason != "Scheduled" {
			t.Errorf("%+v", c)
		}
		time.Sleep(20 * time.Second)
		if got := w.Job("g"); !objects.Finished(got) || got.Status.Succeeded != 3 {
			t.Errorf("%+v", got.Status)
		}
		said := strings.Join(w.Events("g"), "\n")
		for _, want := range []string{"WorkloadCreated: Created Workload " + g.Spec.WorkloadRef.WorkloadName, "PodGroupCreated: Created PodGroup " + g.Name} {
			if !strings.Contains(said, want) {
				t.Errorf("no event %q in\n%s", want, said)
			}
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(objects.Jobs, "default", "g")); return nil })
		time.Sleep(time.Second)
		_ = w.Store.View(func(s *store.Snapshot) error {
			if n := s.Count(objects.Workloads+"/") + s.Count(objects.PodGroups+"/"); n > 0 {
				t.Errorf("%d Workloads and PodGroups are left of a Job that is gone", n)
			}
			return nil
		})
	})
}

func TestAPodOfAGangIsReplacedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		j := ask(gangOf("g"), "1")
		j.Spec.Template.Annotations[simulated.ExitCode] = "1:1"
		j.Spec.BackoffLimitPerIndex = ptr.To[int32](1)
		w.Create(j)
		time.Sleep(25 * time.Second)
		if got := w.Running(); len(got) != 1 {
			t.Fatalf("%v run, want the one that takes the place of another, while the others have succeeded", got)
		}
		time.Sleep(30 * time.Second)
		if got := w.Job("g"); !objects.Finished(got) || got.Status.Succeeded != 2 || *got.Status.FailedIndexes != "1" {
			t.Errorf("%+v", got.Status)
		}
	})
}

func TestAGangFollowsItsJobInSizeAndSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Create(ask(gangOf("g"), "1"))
		time.Sleep(time.Second)
		before := w.group(t)
		change := func(fn func(*batchv1.Job)) {
			j := w.Job("g")
			fn(j)
			w.Put(objects.Key(objects.Jobs, j), j)
			time.Sleep(time.Second)
		}
		change(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
		if got := w.Running(); len(got) > 0 {
			t.Fatalf("%v run of a suspended Job", got)
		}
		change(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = ptr.To[int32](2), ptr.To[int32](2) })
		g := w.group(t)
		if g.UID != before.UID || g.Spec.SchedulingPolicy.Gang.MinCount != 2 || g.Generation != before.Generation+1 {
			t.Errorf("%+v", g)
		}
		change(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
		if got := w.Running(); len(got) != 2 {
			t.Errorf("%v run", got)
		}
		time.Sleep(time.Minute)
		if got := w.Job("g"); !objects.Finished(got) || got.Status.Succeeded != 2 {
			t.Errorf("%+v", got.Status)
		}
	})
}

func TestJobsAreGangsByThemselvesWhereThatIsSet(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				w.Gangs = on
				w.Stop()
				w.Start()
				j := ask(gangOf("g"), "1")
				j.Spec.Scheduling = nil
				w.Bare("blocker", "2", "30s", nil)
				w.Create(j)
				time.Sleep(5 * time.Second)
				if got := w.Running(); len(got) != map[bool]int{false: 2, true: 1}[on] {
					t.Errorf("%v run", got)
				}
			})
		})
	}
}

func TestAHigherPriorityTakesTheRoomOfALowerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		j := ask(controltest.Simulate("low", "1h", "0"), "3")
		j.Spec.Template.Finalizers = []string{"example.com/hold"} // so that it can be looked at
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}}
		w.Create(j)
		time.Sleep(2 * time.Second)
		victim := w.Pods()[0]
		high := func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](10) }
		w.Bare("high", "1", "20s", high)
		time.Sleep(time.Second)
		if got := w.Running(); !slices.Equal(got, []string{"high"}) {
			t.Fatalf("%v run, want the one of the higher priority", got)
		}
		p := w.Pod(victim.Name)
		if got := controltest.Condition(
			p, corev1.DisruptionTarget,
		); got != "True PreemptionByScheduler default-scheduler: preempting to accommodate a higher priority pod" {
			t.Error(got)
		}
		by := "Preempted: Preempted by pod " + string(w.Pod("high").UID) + " on node test"
		if got := w.Events(victim.Name); !slices.Contains(got, by) {
			t.Errorf("%v, want %s", got, by)
		}
		if got := w.Events("high"); len(got) < 2 || got[0] != "FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu." {
			t.Errorf("%v", got)
		}
		time.Sleep(time.Minute)
		if got := w.Job("low"); got.Status.Failed > 0 || got.Status.Active != 1 || len(w.Running()) != 1 {
			t.Errorf("%+v: %v run, want the Job's other pod, and no failure", got.Status, w.Running())
		}
	})
}

func TestAPodSaysWhyItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Bare("first", "3", "1h", nil)
		w.Bare("second", "1", "1s", nil)
		w.Bare("gated", "0", "1s", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}} })
		if got := w.Events("second"); len(got) > 0 {
			t.Errorf("it says at once %v", got)
		}
		time.Sleep(2 * time.Second)
		const why = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		if got := controltest.Condition(w.Pod("second"), corev1.PodScheduled); got != "False Unschedulable "+why {
			t.Error(got)
		}
		if got := w.Events("second"); !slices.Equal(got, []string{"FailedScheduling: " + why}) {
			t.Errorf("%v", got)
		}
		if got := controltest.Condition(w.Pod("gated"), corev1.PodScheduled); !strings.HasPrefix(got, "False SchedulingGated") {
			t.Error(got)
		}
		p := w.Pod("gated")
		p.Spec.SchedulingGates = nil
		w.Put(objects.Key(objects.Pods, p), p)
		time.Sleep(2 * time.Second)
		if p := w.Pod("gated"); p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%s without its gate", p.Status.Phase)
		}
	})
}

func TestTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: controltest.HostLabels}}
		w.Stop()
		w.Start()
		defer w.End()
		tolerates := func(seconds *int64) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{
					{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: seconds, Effect: corev1.TaintEffectNoExecute},
				}
			}
		}
		w.Bare("leaves", "0", "1h", nil)
		w.Bare("leaves-later", "0", "1h", tolerates(ptr.To[int64](30)))
		w.Bare("stays", "0", "1h", tolerates(nil))
		taint := func(taints ...corev1.Taint) {
			n := &corev1.Node{}
			key := store.Key(objects.Nodes, "", "test")
			_ = w.Store.View(func(s *store.Snapshot) error { o, _ := s.Get(key); return objects.Decode(o, n) })
			changed := n.DeepCopy()
			changed.Spec.Taints = taints
			core.NodeKind().Strategy.PrepareForUpdate(t.Context(), changed, n)
			w.Put(key, changed)
			time.Sleep(time.Second)
		}
		taint(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})
		if got := w.Running(); !slices.Equal(got, []string{"leaves-later", "stays"}) {
			t.Errorf("%v run", got)
		}
		if got := w.Events("leaves"); !slices.Contains(got, "TaintManagerEviction: Marking for deletion Pod default/leaves") {
			t.Errorf("%v", got)
		}
		w.Bare("late", "0", "1h", nil)
		w.Stop() // what was tolerated before counts
		w.Start()
		time.Sleep(31 * time.Second)
		if got := w.Running(); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("later %v run", got)
		}
		if got := controltest.Condition(w.Pod("late"), corev1.PodScheduled); !strings.Contains(
			got,
			"0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		) {
			t.Error(got)
		}
		taint()
		if got := w.Running(); !slices.Equal(got, []string{"late", "stays"}) {
			t.Errorf("without the taint %v run", got)
		}
	})
}

func TestAJobUsesTheWorkloadThatNamesIt(t *testing.T) {
	for rule, c := range map[string]struct {
		workloads []string // the numbers of their templates
		want      string
	}{
		"one that somebody else has made": {[]string{"1"}, "PodGroupCreated: Created PodGroup w0-t0-"},
		"not one of several groups":       {[]string{"2"}, `WorkloadUnused: Pods are scheduled one by one: workload "w0" has 2 podGroupTemplates, not one`},
		"not if there are several":        {[]string{"1", "1"}, "WorkloadUnused: Pods are scheduled one by one: 2 Workloads name the Job"},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				for i, templates := range c.workloads {
					made := &schedulingv1beta1.Workload{}
					made.Name, made.Namespace, made.UID = fmt.Sprintf("w%d", i), "default", uuid.NewUUID()
					made.Spec.ControllerRef = &schedulingv1beta1.TypedLocalObjectReference{APIGroup: "batch", Kind: "Job", Name: "g"}
					for n := range int(templates[0] - '0') {
						made.Spec.PodGroupTemplates = append(made.Spec.PodGroupTemplates, schedulingv1beta1.PodGroupTemplate{
							Name: fmt.Sprintf("t%d", n), SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
								Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2},
							},
						})
					}
					w.Put(objects.Key(objects.Workloads, made), made)
				}
				w.Create(ask(gangOf("g"), "1"))
				time.Sleep(time.Second)
				if said := strings.Join(w.Events("g"), "\n"); !strings.Contains(said, c.want) {
					t.Errorf("no event %q in\n%s", c.want, said)
				}
				if got := w.Running(); len(got) != 3 {
					t.Errorf("%v run", got)
				}
				time.Sleep(time.Minute)
				if !objects.Finished(w.Job("g")) {
					t.Error("the Job has not ended")
				}
			})
		})
	}
}
