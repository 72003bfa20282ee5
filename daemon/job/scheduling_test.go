package job

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func gang(minCount *int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) {
		indexed(5, 3)(s)
		s.Template.Spec.PriorityClassName = "high"
		s.Scheduling = &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{MinCount: minCount},
		}}
	}
}

func TestWorkloadOfAJob(t *testing.T) {
	for rule, c := range map[string]struct {
		spec func(*batchv1.JobSpec)
		want int32 // 0: no gang
	}{
		"a gang needs as many as run at a time":  {gang(nil), 3},
		"unless it says how many":                {gang(ptr.To[int32](2)), 2},
		"other pods are scheduled one by one":    {func(s *batchv1.JobSpec) { s.Scheduling = &batchv1.JobSchedulingConfiguration{} }, 0},
		"one that says nothing is one by itself": {indexed(4, 4), 4},
	} {
		t.Run(rule, func(t *testing.T) {
			j := newJob(c.spec)
			if got := MinCount(j); got != c.want {
				t.Errorf("it needs %d, want %d", got, c.want)
			}
			w, err := NewWorkload(j)
			if err != nil {
				t.Fatal(err)
			}
			w.UID = "22222222-0000-4000-8000-000000000000"
			if ref := w.Spec.ControllerRef; !metav1.IsControlledBy(w, j) || ref.APIGroup != "batch" || ref.Kind != "Job" || ref.Name != "j" {
				t.Errorf("whose it is: %+v %+v", w.OwnerReferences, ref)
			}
			g, err := NewPodGroup(j, w)
			if err != nil {
				t.Fatal(err)
			}
			if !metav1.IsControlledBy(g, j) || len(g.OwnerReferences) != 2 || g.OwnerReferences[1].UID != w.UID ||
				g.OwnerReferences[1].BlockOwnerDeletion != nil {
				t.Errorf("owners of the group: %+v", g.OwnerReferences)
			}
			if ref := g.Spec.WorkloadRef; ref.WorkloadName != w.Name || ref.TemplateName != w.Spec.PodGroupTemplates[0].Name ||
				g.Spec.PriorityClassName != j.Spec.Template.Spec.PriorityClassName {
				t.Errorf("%+v", g.Spec)
			}
			p := NewPodFor(j, NewPod{Index: 1}, "abcde")
			Join(p, g)
			if *p.Spec.SchedulingGroup.PodGroupName != g.Name || !metav1.IsControlledBy(p, j) || len(p.OwnerReferences) != 2 ||
				p.OwnerReferences[1].Kind != "PodGroup" {
				t.Errorf("%+v %+v", p.Spec.SchedulingGroup, p.OwnerReferences)
			}
		})
	}
}

func TestNamesOfWorkloads(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"j", "a.b", strings.Repeat("a", 63), strings.Repeat("a", 57) + "-b", strings.Repeat("a", 56) + ".b"} {
		for _, uid := range []types.UID{"1", "2"} {
			j := newJob(gang(nil))
			j.Name, j.UID = name, uid
			w, err := NewWorkload(j)
			if err != nil {
				t.Fatal(err)
			}
			g, err := NewPodGroup(j, w)
			if err != nil {
				t.Fatal(err)
			}
			bad := utilvalidation.IsDNS1123Subdomain(w.Name)
			bad = append(bad, utilvalidation.IsDNS1123Subdomain(g.Name)...)
			bad = append(bad, utilvalidation.IsDNS1123Label(w.Spec.PodGroupTemplates[0].Name)...)
			if len(bad) > 0 {
				t.Errorf("%s: %s, %s, %s: %v", name, w.Name, g.Name, w.Spec.PodGroupTemplates[0].Name, bad)
			}
			if seen[w.Name] || seen[g.Name] {
				t.Errorf("%s or %s is taken by another Job", w.Name, g.Name)
			}
			seen[w.Name], seen[g.Name] = true, true
		}
	}
}

func TestAWorkloadOfSeveralGroupsIsOfNoUse(t *testing.T) {
	w := &schedulingv1beta1.Workload{Spec: schedulingv1beta1.WorkloadSpec{PodGroupTemplates: make([]schedulingv1beta1.PodGroupTemplate, 2)}}
	if _, err := NewPodGroup(newJob(nil), w); err == nil || !strings.Contains(err.Error(), "2 podGroupTemplates") {
		t.Errorf("%v", err)
	}
}

// However a Job is treated, its gang does not wait for pods that will not come: where nothing is due any more, there are
// as many as AtOnce says.
func TestAGangDoesNotWaitForPodsThatWillNotCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t)
		actions := r.actions()
		for _, others := range []string{"create an orphan", "relabel a pod", "take a pod's owner away", "give a pod another index"} {
			delete(actions, others)
		}
		check := actions[""]
		actions[""] = func(t *rapid.T) {
			check(t)
			d := Decide(r.record, r.now, r.settings)
			if !idle(d) || !d.Wake.IsZero() || *r.job.Spec.Suspend || r.record.Paused() || r.record.Finished() || d.Status != nil {
				return
			}
			for _, c := range r.job.Status.Conditions {
				if c.Type == batchv1.JobFailureTarget || c.Type == batchv1.JobSuccessCriteriaMet {
					return
				}
			}
			if come, want := int(r.record.active+r.record.terminating), r.record.AtOnce(); come < want {
				t.Fatalf("%d pods are there, and nothing more is due, while a gang waits for %d: %s", come, want, describe(&r.job.Status))
			}
		}
		r.settle()
		t.Repeat(actions)
	})
}

// TestHowManyPodsThereWillBe: towards its end a gang has fewer than it began with, and a work queue starts none once one has succeeded.
func TestHowManyPodsThereWillBe(t *testing.T) {
	queue := func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = nil, ptr.To[int32](3) }
	fixed := func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = ptr.To[int32](5), ptr.To[int32](3) }
	for name, tc := range map[string]struct {
		spec    func(*batchv1.JobSpec)
		end     []int32 // the exit codes of the first pods that run, one after the other
		at      int
		running int
	}{
		"all of a fixed number":              {fixed, nil, 3, 3},
		"those that are left of it":          {fixed, []int32{0, 0, 0, 0}, 1, 1},
		"none":                               {fixed, []int32{0, 0, 0, 0, 0}, 0, 0},
		"all indexes":                        {indexed(5, 5), nil, 5, 5},
		"those that are left":                {indexed(5, 5), []int32{0, 0}, 3, 3},
		"and have not failed":                {perIndex(5, 5, 0), []int32{1, 0}, 3, 3},
		"a queue":                            {queue, nil, 3, 3},
		"a queue of which one has failed":    {queue, []int32{1}, 3, 2},
		"a queue of which one has succeeded": {queue, []int32{0}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(someTime, newJob(tc.spec))
			if w.record.Started() || w.record.Begun() || !w.record.Empty() {
				t.Error("it has started before it began")
			}
			w.settle()
			w.startAll()
			for _, code := range tc.end {
				w.end(w.names()[0], code)
				w.settle()
				w.startAll()
			}
			r := w.record
			if r.AtOnce() != tc.at || r.Lacks(4) != min(4, tc.at)-tc.running || r.Lacks(1) != min(1, tc.at)-tc.running {
				t.Errorf("%d at once, a gang of 4 lacks %d, and one of 1 %d", r.AtOnce(), r.Lacks(4), r.Lacks(1))
			}
			pods := 0
			for range r.Pods() {
				pods++
			}
			if !r.Started() || r.Begun() == r.Finished() || r.Empty() != (pods == 0) || pods < tc.running {
				t.Errorf("started %v, begun %v, %d pods", r.Started(), r.Begun(), pods)
			}
		})
	}
}
