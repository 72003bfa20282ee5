package e2e

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// outcome is what became of a pod.
type outcome struct {
	Index, FailureCount string
	Phase               corev1.PodPhase
	Exit, Restarts      int32
	Owners, Finalizers  int
	Gone                bool
}

func (l *life) comparePods(t *testing.T) {
	var theirs, ours []outcome
	for _, p := range l.Pods.Summary {
		o := outcome{Index: ptr.Deref(p.Index, ""), FailureCount: ptr.Deref(p.FailureCount, ""), Phase: p.FinalPhase, Gone: p.Gone}
		for _, c := range l.Pods.Timelines[p.Name] {
			if c.Event != "DELETED" {
				o.Exit, o.Restarts = ptr.Deref(c.Exit, 0), ptr.Deref(c.Restarts, 0)
				o.Owners, o.Finalizers = len(c.Owner), len(c.Finalizers)
			}
		}
		theirs = append(theirs, o)
	}
	for _, p := range l.pods {
		o := outcome{
			Index: p.Annotations[batchv1.JobCompletionIndexAnnotation], FailureCount: p.Annotations[batchv1.JobIndexFailureCountAnnotation],
			Phase: p.Status.Phase, Gone: l.gone[p.UID], Owners: len(p.OwnerReferences), Finalizers: len(p.Finalizers),
		}
		if s := p.Status.ContainerStatuses; len(s) > 0 {
			o.Restarts = s[0].RestartCount
			if e := s[0].State.Terminated; e != nil {
				o.Exit = e.ExitCode
			}
		}
		ours = append(ours, o)
	}
	// The order of pods that were created side by side is chance.
	for start := 0; start < len(theirs); {
		end := start + 1
		for end < len(theirs) && l.Pods.Summary[end].CreatedAt-l.Pods.Summary[start].CreatedAt < sideBySide {
			end++
		}
		for _, list := range [][]outcome{theirs, ours} {
			slices.SortFunc(list[min(start, len(list)):min(end, len(list))], func(a, b outcome) int {
				return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Phase, b.Phase))
			})
		}
		start = end
	}
	for _, list := range [][]outcome{theirs, ours} {
		for i := range list {
			if list[i].Gone {
				list[i].Finalizers = 0 // whether it was seen without its last finalizer is chance
			}
			if different[l.Name].terminating {
				list[i].Gone = false
			}
		}
	}
	if diff := gocmp.Diff(theirs, ours); diff != "" {
		t.Errorf("pods (- the cluster's, + ours):\n%s", diff)
	}
}
