package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestWhichPodGoesFirst(t *testing.T) {
	base := Pod{Phase: corev1.PodRunning, Assigned: true, Ready: true, ReadySince: 100, Created: 50}
	change := func(f func(*Pod)) Pod { p := base; f(&p); return p }
	for name, c := range map[string][2]Pod{ // the first of two goes
		"an unassigned one before an assigned one": {change(func(p *Pod) { p.Assigned = false }), change(func(p *Pod) { p.Phase = corev1.PodPending })},
		"a pending one before one of unknown phase": {
			change(func(p *Pod) { p.Phase = corev1.PodPending }), change(func(p *Pod) { p.Phase = corev1.PodUnknown }),
		},
		"a pending one before a running one":       {change(func(p *Pod) { p.Phase = corev1.PodPending }), change(func(p *Pod) { p.Ready = false })},
		"one that is not ready before one that is": {change(func(p *Pod) { p.Ready, p.ReadySince = false, 0 }), change(func(p *Pod) { p.ReadySince = 999 })},
		"one that became ready later":              {change(func(p *Pod) { p.ReadySince = 101 }), change(func(p *Pod) { p.Restarts = 9 })},
		"one with more restarts":                   {change(func(p *Pod) { p.Restarts = 2 }), change(func(p *Pod) { p.Restarts, p.Created = 1, 99 })},
		"a newer one before an older one":          {change(func(p *Pod) { p.Created = 51 }), base},
	} {
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			t.Run(name, func(t *testing.T) {
				job := newJob(nil)
				r := NewRecord(job, nil)
				for _, i := range order {
					p := c[i]
					p.UID, p.Name = types.UID(fmt.Sprintf("uid-%d", i)), fmt.Sprintf("pod-%d", i)
					p.Controller, p.Labels, p.Index, p.Tracked = job.UID, job.Spec.Selector.MatchLabels, -1, true
					r.SetPod(p)
				}
				d := Decide(r, someTime, Settings{})
				if len(d.Delete) != 1 || d.Delete[0].Name != "pod-0" {
					t.Errorf("%v", d.Delete)
				}
			})
		}
	}
}

func TestElasticJobs(t *testing.T) {
	scale := func(w *world, n int32) {
		w.edit(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &n, &n })
		w.settle()
	}
	t.Run("scaling down removes the highest indexes and what was done of them", func(t *testing.T) {
		w := begin(indexed(4, 4))
		w.endIndex(3, 0)
		w.endIndex(0, 0)
		scale(w, 2)
		if s := &w.job.Status; !slices.Equal(w.indexes(), []int32{1}) || s.CompletedIndexes != "0" || s.Succeeded != 1 || s.Failed != 0 {
			t.Errorf("running %v, %s", w.indexes(), describe(s))
		}
	})
	t.Run("scaling up adds indexes", func(t *testing.T) {
		w := begin(indexed(2, 2))
		if scale(w, 4); !slices.Equal(w.indexes(), []int32{0, 1, 2, 3}) {
			t.Errorf("running %v", w.indexes())
		}
	})
	t.Run("to zero completes the Job", func(t *testing.T) {
		w := begin(indexed(2, 2))
		scale(w, 0)
		for _, c := range w.created {
			if w.pods[c.v.Name] != nil {
				w.end(c.v.Name, 1)
			}
		}
		if w.settle(); w.conditions() != "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached" {
			t.Error(w.conditions())
		}
	})
	t.Run("of two pods of an index the one that would go last stays", func(t *testing.T) {
		w := begin(indexed(2, 2))
		w.set(w.created[1].v.Name, func(p *corev1.Pod) { // as if someone had made two of the same
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
			p.Status.Conditions = nil
		})
		w.settle()
		if len(w.removed) != 1 || w.removed[0].v != w.created[1].v.Name || !slices.Equal(w.indexes(), []int32{0, 1}) {
			t.Errorf("removed %v, running %v", w.removed, w.indexes())
		}
	})
}

func TestPodsAreMadeAndRemovedInBatches(t *testing.T) {
	w := newWorld(someTime, newJob(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](12), nil }))
	w.settings.Batch = 5
	var created, removed []int
	w.after = func(d Decision) {
		if len(d.Create) > 0 {
			created = append(created, len(d.Create))
		}
		if len(d.Delete) > 0 {
			removed = append(removed, len(d.Delete))
		}
	}
	w.settle()
	w.edit(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
	w.settle()
	if want := []int{5, 5, 2}; !slices.Equal(created, want) || !slices.Equal(removed, want) {
		t.Errorf("created %v, removed %v", created, removed)
	}
}

func TestRefusedCreations(t *testing.T) {
	w := newWorld(someTime, newJob(func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = ptr.To[int32](10), nil }))
	var tried []int
	w.after = func(d Decision) {
		if len(d.Create) > 0 {
			tried = append(tried, len(d.Create))
		}
	}
	w.refuse = 3
	w.settle()
	for n, want := range []time.Duration{1, 2, 4} {
		if delay := w.wake.Sub(w.now); delay != want*time.Second {
			t.Errorf("after refusal %d tries again in %v", n+1, delay)
		}
		w.now = w.wake
		w.settle()
	}
	if want := []int{10, 1, 1, 1, 2, 4, 3}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
	if len(w.names()) != 10 || w.job.Status.Active != 10 || slices.Index(w.reasons(), "FailedCreate") != 0 {
		t.Errorf("%d pods, %s, %v", len(w.names()), describe(&w.job.Status), w.reasons())
	}
}
