package job

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// orphan adds a pod that nobody controls.
func (w *world) orphan(name string, phase corev1.PodPhase, change func(*corev1.Pod)) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.job.Namespace, Name: name, UID: types.UID("uid-" + name),
			Labels: map[string]string{"job": "j"}, CreationTimestamp: metav1.NewTime(w.now.Truncate(time.Second)),
		},
		Status: corev1.PodStatus{Phase: phase},
	}
	p.Spec.NodeName = "node"
	if change != nil {
		change(p)
	}
	w.add(p)
}

func TestAdoption(t *testing.T) {
	two := func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](2) }
	t.Run("a new Job counts the pods of an old one", func(t *testing.T) {
		w := newWorld(someTime, newJob(two))
		w.orphan("old-1", corev1.PodSucceeded, nil)
		w.orphan("old-2", corev1.PodRunning, nil)
		w.settle()
		if s := &w.job.Status; s.Succeeded != 1 || s.Active != 1 || len(w.created) > 0 {
			t.Error(describe(s))
		}
		if p := w.pods["old-2"]; !controlled(p, w.job.UID) || !tracked(p) {
			t.Errorf("owners %v, finalizers %v", p.OwnerReferences, p.Finalizers)
		}
	})
	for name, change := range map[string]func(*corev1.Pod){
		"not of pods with other labels": func(p *corev1.Pod) { p.Labels = nil },
		"not of pods that are deleted":  func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: someTime} },
		"not of pods that have an owner": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{UID: "other", Controller: ptr.To(true)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(someTime, newJob(two))
			w.orphan("old-1", corev1.PodRunning, change)
			if w.settle(); len(w.created) != 2 || tracked(w.pods["old-1"]) {
				t.Errorf("%d pods created", len(w.created))
			}
		})
	}
	t.Run("an owner that does not control is no obstacle", func(t *testing.T) {
		w := newWorld(someTime, newJob(two))
		w.orphan("old-1", corev1.PodRunning, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "group"}} })
		if w.settle(); len(w.created) != 1 || len(w.pods["old-1"].OwnerReferences) != 2 {
			t.Errorf("%d pods created", len(w.created))
		}
	})
	t.Run("not by a Job that is being deleted", func(t *testing.T) {
		job := newJob(two)
		job.DeletionTimestamp = &metav1.Time{Time: someTime}
		w := newWorld(someTime, job)
		w.orphan("old-1", corev1.PodRunning, nil)
		if w.settle(); tracked(w.pods["old-1"]) || len(w.created) > 0 {
			t.Error("adopted")
		}
	})
	t.Run("nor by one that is deleted before it has decided that", func(t *testing.T) {
		w := newWorld(someTime, newJob(two))
		w.settle()
		w.orphan("old-1", corev1.PodRunning, nil)
		w.edit(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: someTime} })
		if w.settle(); tracked(w.pods["old-1"]) {
			t.Error("adopted")
		}
	})
	t.Run("not of too many at once", func(t *testing.T) {
		w := newWorld(someTime, newJob(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](5), ptr.To[int32](5) }))
		w.settings.Batch = 2
		var adopted, let []int
		w.after = func(d Decision) {
			if n := len(d.Adopt); n > 0 {
				adopted = append(adopted, n)
			}
			if n := len(d.Orphan); n > 0 {
				let = append(let, n)
			}
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.orphan(name, corev1.PodRunning, nil)
		}
		if w.settle(); !slices.Equal(adopted, []int{2, 2, 1}) || len(w.created) > 0 {
			t.Errorf("adopted %v", adopted)
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.set(name, func(p *corev1.Pod) { p.Labels = nil })
		}
		if w.settle(); !slices.Equal(let, []int{2, 2, 1}) || len(w.names()) != 5 {
			t.Errorf("let go %v, created %d", let, len(w.created))
		}
	})
	t.Run("not by a finished Job", func(t *testing.T) {
		w := begin(nil)
		w.end(w.names()[0], 0)
		w.settle()
		w.orphan("old-1", corev1.PodRunning, nil)
		if w.settle(); tracked(w.pods["old-1"]) {
			t.Error("adopted")
		}
	})
}

func TestRelease(t *testing.T) {
	t.Run("a pod that is no longer selected is let go and replaced", func(t *testing.T) {
		w := begin(nil)
		name := w.names()[0]
		w.set(name, func(p *corev1.Pod) { p.Labels = map[string]string{"job": "debug"} })
		w.settle()
		if p := w.pods[name]; len(p.OwnerReferences) > 0 || tracked(p) || len(w.created) != 2 || w.job.Status.Failed != 0 {
			t.Errorf("owners %v, finalizers %v, %s", p.OwnerReferences, p.Finalizers, describe(&w.job.Status))
		}
	})
	t.Run("what is still tracked when the Job has finished is let go of, in batches", func(t *testing.T) {
		w := newWorld(someTime, newJob(nil))
		w.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		w.settings.Batch = 2
		w.record = w.rebuilt()
		for i, name := range []string{"a", "b", "c"} {
			w.orphan(name, []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded}[i], func(p *corev1.Pod) {
				p.OwnerReferences, p.Finalizers = []metav1.OwnerReference{controllerReference(w.job)}, []string{batchv1.JobTrackingFinalizer}
			})
		}
		w.orphan("untracked", corev1.PodRunning, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{controllerReference(w.job)}
		})
		var batches []int
		w.after = func(d Decision) { batches = append(batches, len(d.Release)) }
		w.settle()
		for name, p := range w.pods {
			if tracked(p) {
				t.Errorf("%s is tracked", name)
			}
		}
		if s := &w.job.Status; !slices.Equal(batches, []int{2, 1}) || s.Failed+s.Succeeded != 0 || len(w.pods) != 4 {
			t.Errorf("batches %v, %s", batches, describe(s))
		}
	})
	t.Run("a pod that somebody takes away before it is counted is not counted", func(t *testing.T) {
		for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
			w := newWorld(someTime, newJob(indexed(2, 2)))
			w.settle()
			w.startAll()
			w.set(w.names()[0], func(p *corev1.Pod) { p.Status.Phase = phase })
			w.set(w.created[0].v.Name, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" })
			w.settle()
			if s := &w.job.Status; s.Succeeded+s.Failed != 0 || s.CompletedIndexes != "" || len(w.created) != 3 || !slices.Equal(w.indexes(), []int32{0, 1}) {
				t.Errorf("%s: %s, indexes %v", phase, describe(s), w.indexes())
			}
		}
	})
	t.Run("other finalizers stay", func(t *testing.T) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"a", batchv1.JobTrackingFinalizer, "b"}}}
		if !Untrack(p) || Untrack(p) || len(p.Finalizers) != 2 {
			t.Error(p.Finalizers)
		}
	})
}

// TestSelectorIsNotKept has Jobs with the selector that is made for them select as their selectors say, which most Jobs have.
func TestSelectorIsNotKept(t *testing.T) {
	selector := func(labels map[string]string, more ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: labels, MatchExpressions: more}
	}
	own := map[string]string{batchv1.ControllerUidLabel: "u"}
	exists := metav1.LabelSelectorRequirement{Key: "a", Operator: metav1.LabelSelectorOpExists}
	for name, c := range map[string]struct {
		uid      types.UID
		selector *metav1.LabelSelector
		kept     bool
	}{
		"made for it":               {"u", selector(own), false},
		"that of another":           {"v", selector(own), true},
		"that of no UID":            {"", selector(map[string]string{batchv1.ControllerUidLabel: ""}), true},
		"and something else":        {"u", selector(own, exists), true},
		"and another label":         {"u", selector(map[string]string{batchv1.ControllerUidLabel: "u", "a": "b"}), true},
		"of its own":                {"u", selector(map[string]string{"a": "b"}), true},
		"everything":                {"u", selector(nil), true},
		"nothing":                   {"u", nil, true},
		"what cannot be a selector": {"u", selector(nil, metav1.LabelSelectorRequirement{Key: "a", Operator: "Like"}), true},
	} {
		j := newJob(nil)
		j.UID, j.Spec.Selector = c.uid, c.selector
		r := NewRecord(j, nil)
		if kept := r.selector != nil; kept != c.kept {
			t.Errorf("%s: kept: %t", name, kept)
		}
		for _, set := range []map[string]string{
			nil, {"a": "b"}, {batchv1.ControllerUidLabel: "u"}, {batchv1.ControllerUidLabel: "v"}, {batchv1.ControllerUidLabel: ""},
			{batchv1.ControllerUidLabel: "u", "a": "b"},
		} {
			want := false
			if s, err := metav1.LabelSelectorAsSelector(c.selector); err == nil {
				want = s.Matches(labels.Set(set))
			}
			if got := r.Matches(set); got != want {
				t.Errorf("%s: %v: %t, want %t", name, set, got, want)
			}
		}
	}
}
