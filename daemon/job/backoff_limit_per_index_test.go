package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/internal/heap"
)

func perIndex(completions, parallelism, limit int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) {
		indexed(completions, parallelism)(s)
		s.BackoffLimit, s.BackoffLimitPerIndex = ptr.To[int32](1<<31-1), &limit
	}
}

// indexes returns those of the pods that have not ended.
func (w *world) indexes() (all []int32) {
	for _, name := range w.names() {
		all = append(all, Summarize(w.pods[name]).Index)
	}
	slices.Sort(all)
	return all
}

func (w *world) endIndex(i, code int32) {
	for _, name := range w.names() {
		if Summarize(w.pods[name]).Index == i {
			w.end(name, code)
		}
	}
	w.settle()
}

func TestBackoffLimitPerIndex(t *testing.T) {
	t.Run("nor is it counted, or forgotten, while its replacement is refused", func(t *testing.T) {
		w := begin(perIndex(2, 2, 1))
		w.endIndex(1, 1)
		failed := w.created[1].v.Name
		w.refuse = 3
		if w.pass(12 * time.Second); w.job.Status.Failed != 0 || !tracked(w.pods[failed]) || w.job.Status.Active != 1 {
			t.Error(describe(&w.job.Status))
		}
		w.pass(time.Minute)
		if p := w.created[2].v; w.job.Status.Failed != 1 || tracked(w.pods[failed]) || p.Annotations[batchv1.JobIndexFailureCountAnnotation] != "1" {
			t.Errorf("%s, annotations %v", describe(&w.job.Status), p.Annotations)
		}
	})
	t.Run("an index that is allowed no failure keeps no other one waiting", func(t *testing.T) {
		w := begin(perIndex(2, 1, 0))
		if w.endIndex(0, 1); !slices.Equal(w.indexes(), []int32{1}) {
			t.Errorf("running %v", w.indexes())
		}
	})
	t.Run("a template may say that an index has failed as often as can be said", func(t *testing.T) {
		for _, ignored := range []string{"2147483646", "2147483647"} {
			w := begin(func(s *batchv1.JobSpec) {
				perIndex(1, 1, 1)(s)
				s.Template.Annotations = map[string]string{batchv1.JobIndexIgnoredFailureCountAnnotation: ignored}
			})
			w.endIndex(0, 1)
			if w.pass(6 * time.Minute); len(w.created) != 2 || w.created[1].v.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] != ignored {
				t.Fatalf("created %v, %s", w.created, describe(&w.job.Status))
			}
			if w.endIndex(0, 1); w.conditions() != "FailureTarget=True FailedIndexes, Failed=True FailedIndexes" {
				t.Error(w.conditions())
			}
		}
	})
	t.Run("and is counted no further", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) {
			perIndex(1, 1, 1)(s)
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				onExit(batchv1.PodFailurePolicyActionIgnore, nil, batchv1.PodFailurePolicyOnExitCodesOpIn, 1),
			}}
			s.Template.Annotations = map[string]string{batchv1.JobIndexIgnoredFailureCountAnnotation: "2147483647"}
		})
		w.endIndex(0, 1)
		if w.pass(6 * time.Minute); len(w.created) != 2 || w.created[1].v.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] != "2147483647" {
			t.Fatalf("created %v, %s", w.created, describe(&w.job.Status))
		}
	})
	t.Run("each index waits for itself", func(t *testing.T) {
		w := begin(perIndex(2, 2, 3))
		w.endIndex(0, 1)
		w.pass(4 * time.Second)
		w.endIndex(1, 1)
		if w.pass(6 * time.Second); !slices.Equal(w.indexes(), []int32{0}) {
			t.Errorf("running %v", w.indexes())
		}
		if w.pass(4 * time.Second); !slices.Equal(w.indexes(), []int32{0, 1}) {
			t.Errorf("running %v", w.indexes())
		}
	})
	t.Run("the earliest of them says when to look again", func(t *testing.T) {
		w := begin(perIndex(2, 2, 3))
		w.endIndex(1, 1)
		w.pass(10 * time.Second)
		w.startAll()
		w.endIndex(1, 1) // it waits for 20 s now
		w.endIndex(0, 1) // and this one for 10 s
		if want := w.now.Truncate(time.Second).Add(10 * time.Second); !w.wake.Equal(want) {
			t.Errorf("looks again at %s, want %s", w.wake, want)
		}
	})
	t.Run("an index waits for its pod that terminates, where only failed ones are replaced", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) {
			perIndex(1, 1, 3)(s)
			s.PodReplacementPolicy = ptr.To(batchv1.Failed)
		})
		w.deletePod(w.names()[0])
		w.orphan("other", corev1.PodFailed, func(p *corev1.Pod) {
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
		})
		w.settle()
		if w.pass(time.Hour); len(w.created) != 1 {
			t.Fatalf("created %d pods", len(w.created))
		}
		w.end(w.created[0].v.Name, 1)
		w.settle()
		if w.pass(time.Minute); len(w.created) != 2 {
			t.Errorf("created %d pods", len(w.created))
		}
	})
	t.Run("a place that is kept is not given to another one", func(t *testing.T) {
		w := begin(perIndex(3, 3, 5))
		w.endIndex(0, 1)
		w.pass(10 * time.Second)
		w.startAll()
		w.endIndex(0, 1) // it waits for 20 s now
		w.endIndex(1, 1) // and this one for 10 s
		w.edit(func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](2) })
		w.settle()
		if w.pass(15 * time.Second); !slices.Equal(w.indexes(), []int32{2}) {
			t.Errorf("running %v", w.indexes())
		}
		if w.pass(5 * time.Second); !slices.Equal(w.indexes(), []int32{0, 2}) {
			t.Errorf("running %v", w.indexes())
		}
	})
	t.Run("the next pod of an index continues from its latest failure", func(t *testing.T) {
		w := newWorld(someTime, newJob(perIndex(1, 1, 9)))
		for name, failures := range map[string][2]string{"a": {"2", "0"}, "b": {"3", "2"}, "c": {"4", "0"}} { // those that are ignored follow
			w.orphan(name, corev1.PodFailed, func(p *corev1.Pod) {
				p.Annotations = map[string]string{
					batchv1.JobCompletionIndexAnnotation: "0", batchv1.JobIndexFailureCountAnnotation: failures[0],
					batchv1.JobIndexIgnoredFailureCountAnnotation: failures[1],
				}
			})
		}
		w.settle()
		if w.job.Status.Failed != 2 || !tracked(w.pods["b"]) {
			t.Error(describe(&w.job.Status))
		}
		if w.pass(time.Hour); w.job.Status.Failed != 3 || w.created[0].v.Annotations[batchv1.JobIndexFailureCountAnnotation] != "4" {
			t.Errorf("%s, %v", describe(&w.job.Status), w.created[0].v.Annotations)
		}
	})
	t.Run("a pod that a user deletes is replaced after its back-off, and counts then", func(t *testing.T) {
		w := begin(perIndex(1, 1, 3))
		w.deletePod(w.names()[0])
		if w.settle(); w.job.Status.Failed != 0 || *w.job.Status.Terminating != 1 || len(w.created) != 1 {
			t.Error(describe(&w.job.Status))
		}
		if w.pass(10 * time.Second); w.job.Status.Failed != 1 || *w.job.Status.Terminating != 1 || len(w.created) != 2 {
			t.Error(describe(&w.job.Status))
		}
	})
}

// Where only failed pods are replaced, the index of one that terminates is nobody else's.
func TestTheIndexOfAPodThatTerminates(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) {
		indexed(3, 2)(s)
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
	})
	w.deletePod(w.names()[0])
	w.settle()
	w.endIndex(1, 0)
	if !slices.Equal(w.indexes(), []int32{2}) {
		t.Errorf("running %v", w.indexes())
	}
}

// TestDue: of failed pods in any order, those are visited whose end is past, and the earliest of the others says when to look again.
func TestDue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var h heap.Heap[*pod]
		ends := make([]int64, r.IntN(12))
		for i := range ends {
			ends[i] = 1 + r.Int64N(20)
			h.Push(&pod{finished: uint32(ends[i])})
		}
		slices.Sort(ends)
		limit := r.Int64N(22)
		past := slices.IndexFunc(ends, func(end int64) bool { return end > limit })
		want := int64(0)
		if past >= 0 {
			want = ends[past]
		} else {
			past = len(ends)
		}
		var visited []int64
		next := due(h, 0, limit, func(p *pod) { visited = append(visited, int64(p.finished)) })
		if slices.Sort(visited); !slices.Equal(visited, ends[:past]) || next != want {
			t.Fatalf("of %v at %d: %v, next %d", ends, limit, visited, next)
		}
	}
}

// TestReplacementsInBatches: where not all that is due can be created at once, the lowest indexes come first, and the others keep their counts.
func TestReplacementsInBatches(t *testing.T) {
	w := begin(perIndex(5, 5, 3))
	w.settings.Batch = 2
	for _, i := range []int32{4, 1, 3, 0} {
		w.endIndex(i, 1)
	}
	var batches [][]int32
	w.after = func(d Decision) {
		var indexes []int32
		for _, n := range d.Create {
			if n.Failures != 1 {
				t.Errorf("index %d carries on from %d failures", n.Index, n.Failures)
			}
			indexes = append(indexes, n.Index)
		}
		if len(indexes) > 0 {
			batches = append(batches, indexes)
		}
		if len(d.Release) != len(d.Create) { // a failure is counted as its index gets the next pod
			t.Errorf("creates %d pods and counts %d", len(d.Create), len(d.Release))
		}
	}
	if w.pass(time.Minute); fmt.Sprint(batches) != "[[0 1] [3 4]]" || w.job.Status.Failed != 4 || !slices.Equal(w.indexes(), []int32{0, 1, 2, 3, 4}) {
		t.Errorf("created %v, running %v, %s", batches, w.indexes(), describe(&w.job.Status))
	}
}

func TestAnIndexThatSucceededIsComplete(t *testing.T) {
	// Orphans that have ended are adopted in the order of their names.
	for name, phases := range map[string][]corev1.PodPhase{
		"the success seen first":    {corev1.PodSucceeded, corev1.PodFailed},
		"the failure seen first":    {corev1.PodFailed, corev1.PodSucceeded},
		"failures seen around it":   {corev1.PodFailed, corev1.PodSucceeded, corev1.PodFailed},
		"successes seen around one": {corev1.PodSucceeded, corev1.PodFailed, corev1.PodSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(someTime, newJob(perIndex(2, 2, 0)))
			for i, phase := range phases {
				w.orphan(string(rune('a'+i)), phase, func(p *corev1.Pod) {
					p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
				})
			}
			w.settle()
			if s := w.job.Status; s.CompletedIndexes != "0" || *s.FailedIndexes != "" || s.Succeeded != 1 || !slices.Equal(w.indexes(), []int32{1}) {
				t.Errorf("%s, running %v", describe(&s), w.indexes())
			}
		})
	}
	t.Run("unless the status has it as failed", func(t *testing.T) {
		w := begin(perIndex(2, 2, 0))
		w.endIndex(0, 1)
		w.orphan("late", corev1.PodSucceeded, func(p *corev1.Pod) {
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
		})
		if w.settle(); w.job.Status.CompletedIndexes != "" || *w.job.Status.FailedIndexes != "0" {
			t.Error(describe(&w.job.Status))
		}
	})
}

func TestMaxFailedIndexes(t *testing.T) {
	w := begin(func(s *batchv1.JobSpec) { perIndex(5, 5, 0)(s); s.MaxFailedIndexes = ptr.To[int32](1) })
	if w.endIndex(0, 1); w.conditions() != "" {
		t.Error(w.conditions())
	}
	if w.endIndex(3, 1); w.conditions() != "FailureTarget=True MaxFailedIndexesExceeded" || *w.job.Status.FailedIndexes != "0,3" || w.job.Status.Failed != 5 {
		t.Error(describe(&w.job.Status))
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name, p := range w.pods {
			if !ended(p) && !yield(name) {
				return
			}
		}
	}) {
		w.set(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	}
	if w.settle(); w.job.Status.Failed != 5 || !w.record.Finished() {
		t.Error(describe(&w.job.Status))
	}
}

// A large status is not written for each change, but a pod that is replaced before it has ended is counted at once: how
// it ends does not matter any more.
func TestAPodThatIsReplacedBeforeItEndsIsCountedThen(t *testing.T) {
	var done Indexes
	for i := int32(0); i < 900; i += 2 {
		done.Add(i)
	}
	j := newJob(func(s *batchv1.JobSpec) {
		s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		s.Completions, s.Parallelism, s.BackoffLimitPerIndex = ptr.To[int32](900), ptr.To[int32](2), ptr.To[int32](1)
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
	})
	j.Status.CompletedIndexes, j.Status.Succeeded = done.String(), int32(done.Len())
	j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	w := newWorld(someTime, j)
	w.settings.StatusRate = 1 << 10
	w.settle()
	w.startAll()
	deleted, other := w.names()[0], w.names()[1]
	w.deletePod(deleted)
	w.settle()
	w.pass(20 * time.Second) // its back-off is over
	w.end(other, 0)
	w.settle() // which is written, and so nothing else for a while
	w.edit(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed) })
	w.settle() // fails if more is due after the first decision
	if w.job.Status.Failed != 1 || slices.Contains(w.pods[deleted].Finalizers, batchv1.JobTrackingFinalizer) {
		t.Errorf("failed %d, finalizers %v", w.job.Status.Failed, w.pods[deleted].Finalizers)
	}
}

// Failed pods that wait for those that replace them are all counted when no more come: no more at once than a decision takes on, and
// each once, also when the daemon is killed between two decisions.
func TestHeldPodsOfAJobThatEndsAreReleasedInBatches(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*world)
		want string
	}{
		"its deadline passes": {func(w *world) { w.pass(6 * time.Second) }, "FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded"},
		"it is deleted": {func(w *world) {
			w.edit(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: w.now} })
			w.settle()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(someTime, newJob(perIndex(12, 12, 1)))
			w.job.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
			w.record = w.rebuilt()
			w.settings.Batch = 5
			w.settle()
			for _, name := range w.names() {
				w.end(name, 1)
			}
			w.settle()
			var released []int
			w.after = func(d Decision) {
				if len(d.Release) > 0 {
					released = append(released, len(d.Release))
				}
				w.record = w.rebuilt()
			}
			c.end(w)
			if want := []int{5, 5, 2}; !slices.Equal(released, want) {
				t.Errorf("released %v, want %v", released, want)
			}
			if w.job.Status.Failed != 12 || w.conditions() != c.want {
				t.Errorf("%s, conditions %q", describe(&w.job.Status), w.conditions())
			}
			for name, p := range w.pods {
				if tracked(p) {
					t.Errorf("%s is still tracked", name)
				}
			}
		})
	}
}
