package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
)

// run is a Job that is being played with, and what must hold for it.
type run struct {
	*world
	adopted bool // an orphan of an index may have ended before
	ended   *batchv1.JobStatus
}

func newRun(t *rapid.T) *run {
	r := &run{world: newWorld(someTime, drawJob(t))}
	r.settings.Batch = rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "batch")
	r.settings.StatusRate = 1 << 10
	return r
}

func (r *run) actions() map[string]func(*rapid.T) {
	// pick draws a pod; without one the action is skipped.
	pick := func(t *rapid.T, ok func(*corev1.Pod) bool) string {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(r.pods)) {
			if ok(r.pods[name]) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			t.Skip("no such pod")
		}
		return rapid.SampledFrom(names).Draw(t, "pod")
	}
	// then decides now, or leaves it to a later action, so that changes come in batches.
	then := func(t *rapid.T) {
		if rapid.IntRange(0, 2).Draw(t, "settle") > 0 {
			r.settle()
		}
	}
	running := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
	alive := func(p *corev1.Pod) bool { return !ended(p) }
	edit := func(t *rapid.T, f func(*batchv1.JobSpec)) {
		r.edit(func(j *batchv1.Job) { f(&j.Spec) })
		then(t)
	}
	return map[string]func(*rapid.T){
		"start a pod": func(t *rapid.T) {
			r.start(pick(t, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending }))
			then(t)
		},
		"end a pod": func(t *rapid.T) {
			r.end(pick(t, running), rapid.SampledFrom([]int32{0, 0, 0, 1, 1, 42, 43, 44, 45, 137}).Draw(t, "exit code"))
			then(t)
		},
		"end all pods": func(t *rapid.T) {
			code := rapid.SampledFrom([]int32{0, 0, 1}).Draw(t, "exit code")
			for _, name := range slices.Sorted(maps.Keys(r.pods)) {
				if running(r.pods[name]) {
					r.end(name, code)
				}
			}
			then(t)
		},
		"restart a container": func(t *rapid.T) {
			if r.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
				t.Skip("restartPolicy Never")
			}
			r.set(pick(t, running), func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: restarts(p) + 1}}
			})
			then(t)
		},
		"delete a pod": func(t *rapid.T) {
			r.deletePod(pick(t, func(*corev1.Pod) bool { return true }))
			then(t)
		},
		"evict a pod": func(t *rapid.T) {
			name := pick(t, alive)
			r.set(name, func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
			})
			r.deletePod(name)
			then(t)
		},
		"create an orphan": func(t *rapid.T) {
			p := NewPodFor(r.job, NewPod{Index: rapid.Int32Range(-1, 7).Draw(t, "index")}, r.name(NewPod{}))
			r.uids++
			p.UID = types.UID(fmt.Sprintf("22222222-0000-4000-8000-%012d", r.uids))
			p.CreationTimestamp = metav1.NewTime(r.now.Truncate(time.Second))
			p.OwnerReferences, p.Finalizers = nil, nil
			p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
			r.adopted = true
			r.add(p)
			then(t)
		},
		"relabel a pod": func(t *rapid.T) {
			// A pod that was counted and released would be counted again if it came back, in a cluster too.
			name := pick(t, func(p *corev1.Pod) bool { return p.Labels["job"] == "j" || r.outcomes[p.UID] == nil })
			r.set(name, func(p *corev1.Pod) {
				p.Labels = map[string]string{"job": rapid.SampledFrom([]string{"other", "j"}).Draw(t, "label")}
				r.adopted = r.adopted || len(p.OwnerReferences) == 0 // it was released, and may come back after another took its index
			})
			then(t)
		},
		"take a pod's owner away": func(t *rapid.T) {
			name := pick(t, func(p *corev1.Pod) bool { return r.outcomes[p.UID] == nil })
			r.adopted = true
			r.set(name, func(p *corev1.Pod) {
				p.OwnerReferences = nil
				if rapid.Bool().Draw(t, "with labels") {
					p.Labels = nil
				}
			})
			then(t)
		},
		"give a pod another index": func(t *rapid.T) {
			name := pick(t, func(p *corev1.Pod) bool { return r.outcomes[p.UID] == nil && p.Annotations != nil })
			r.adopted = true
			r.set(name, func(p *corev1.Pod) {
				p.Annotations[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(rapid.Int32Range(0, 7).Draw(t, "index"))
			})
			then(t)
		},
		"suspend or resume": func(t *rapid.T) {
			edit(t, func(s *batchv1.JobSpec) { s.Suspend = ptr.To(!*s.Suspend) })
		},
		"pause or continue": func(t *rapid.T) {
			r.edit(func(j *batchv1.Job) {
				if batch.Paused(j.Annotations) {
					delete(j.Annotations, batch.PausedAnnotation)
				} else {
					metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.PausedAnnotation, r.now.Format(time.RFC3339))
				}
			})
			then(t)
		},
		"change parallelism": func(t *rapid.T) {
			edit(t, func(s *batchv1.JobSpec) { s.Parallelism = ptr.To(rapid.Int32Range(0, 6).Draw(t, "parallelism")) })
		},
		"change completions": func(t *rapid.T) {
			if *r.job.Spec.CompletionMode != batchv1.IndexedCompletion || r.job.Spec.SuccessPolicy != nil || r.job.Spec.MaxFailedIndexes != nil {
				t.Skip("not elastic")
			}
			edit(t, func(s *batchv1.JobSpec) {
				s.Completions = ptr.To(rapid.OneOf(rapid.Int32Range(0, 7), rapid.Just[int32](901)).Draw(t, "completions"))
				s.Parallelism = s.Completions
			})
		},
		"change backoffLimit": func(t *rapid.T) {
			edit(t, func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To(rapid.Int32Range(0, 6).Draw(t, "backoffLimit")) })
		},
		"change podReplacementPolicy": func(t *rapid.T) {
			if r.job.Spec.PodFailurePolicy != nil {
				t.Skip("podFailurePolicy implies Failed")
			}
			edit(t, func(s *batchv1.JobSpec) {
				s.PodReplacementPolicy = ptr.To(rapid.SampledFrom([]batchv1.PodReplacementPolicy{batchv1.Failed,
					batchv1.TerminatingOrFailed}).Draw(t, "policy"))
			})
		},
		"pass time": func(t *rapid.T) {
			r.now = r.now.Add(time.Duration(rapid.IntRange(1, 60_000).Draw(t, "ms")) * time.Millisecond)
			then(t)
		},
		"wait for the next wake": func(t *rapid.T) {
			if r.wake.Before(r.now) {
				t.Skip("none")
			}
			r.now = r.wake
			r.settle()
		},
		"refuse pods": func(t *rapid.T) {
			r.refuse = rapid.IntRange(1, 3).Draw(t, "refusals")
			then(t)
		},
		"crash": func(t *rapid.T) {
			again := r.rebuilt()
			again.written, again.refusal = r.record.written, r.record.refusal
			r.record = again
			then(t)
		},
		"": r.check,
	}
}

// sums is what a Record has added up, in a form that does not depend on the order of things.
type sums struct {
	Active, Ready, Terminating, Succeeded, Failed int32
	Restarts                                      int64
	Completed, FailedIndexes, Occupied, Blocked   string
	Changed                                       bool
	Hasty                                         int
	Stages                                        map[string]stage
	Duplicates                                    []int32
	Strays, FailJobs                              []string
	Have                                          []int
	Backoff                                       Memory
}

func sumsOf(r *Record) sums {
	var strays, failJobs []string
	for p := range r.strays {
		strays = append(strays, p.name)
	}
	for p, message := range r.failJobs {
		failJobs = append(failJobs, p.name+": "+message)
	}
	slices.Sort(strays)
	slices.Sort(failJobs)
	s := sums{
		Active: r.active, Ready: r.ready, Terminating: r.terminating, Succeeded: r.succeeded, Failed: r.failed,
		Restarts:  r.restarts,
		Completed: r.completed.String(), FailedIndexes: r.failedSet.String(),
		Occupied: r.occupied.String(), Blocked: r.blocked.String(),
		Changed: r.changedIndexes, Hasty: r.hasty,
		Stages:     map[string]stage{},
		Duplicates: slices.Sorted(maps.Keys(r.duplicates)),
		Strays:     strays, FailJobs: failJobs,
		Backoff: r.backoff.clone(),
	}
	for p := range r.pods.all() {
		s.Stages[p.name] = p.stage
	}
	for _, rule := range r.successRules {
		s.Have = append(s.Have, rule.have)
	}
	return s
}

// sorted returns a Decision whose lists without an order are sorted.
func sorted(d Decision) Decision {
	refs := func(a, b Ref) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(d.Adopt, refs)
	slices.SortFunc(d.Orphan, refs)
	slices.SortFunc(d.Release, func(a, b Release) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// check checks what must hold at any time, whether or not what is due has been done.
func (r *run) check(t *rapid.T) {
	again := r.rebuilt()
	again.written, again.refusal = r.record.written, r.record.refusal
	stored, kept := sumsOf(again), sumsOf(r.record)
	if r.record.Finished() { // no back-off is needed any more, so none is stored
		stored.Backoff.LastSuccess, stored.Backoff.Failures = 0, nil
		kept.Backoff.LastSuccess, kept.Backoff.Failures = 0, nil
	}
	if !reflect.ValueOf(notIndexed).Elem().IsZero() {
		t.Fatalf("what Jobs without indexes share was written: %+v", notIndexed)
	}
	if diff := cmp.Diff(stored, kept); diff != "" {
		t.Fatalf("the sums are not those of a recount (- recount, + kept):\n%s", diff)
	}
	if len(r.settings.wholeBatch(r.pods)) == 0 {
		now, then := sorted(Decide(r.record, r.now, r.settings)), sorted(Decide(again, r.now, r.settings))
		if diff := cmp.Diff(then, now); diff != "" {
			t.Fatalf("after a crash the decision is another one (- after, + before):\n%s", diff)
		}
	}

	s := &r.job.Status
	if r.ended != nil {
		if diff := cmp.Diff(r.ended, s); diff != "" {
			t.Fatalf("a finished Job changed:\n%s", diff)
		}
	} else if r.record.Finished() {
		r.ended = s.DeepCopy()
	}

	succeeded, failed := int32(0), int32(0)
	for uid, releases := range r.outcomes {
		n := 0
		for _, rel := range releases {
			switch rel.Outcome {
			case Succeeded:
				succeeded++
				n++
			case Failed:
				failed++
				n++
			}
		}
		if n > 1 {
			t.Fatalf("pod %s was counted %d times", uid, n)
		}
	}
	if s.Failed != failed {
		t.Fatalf("%d pods were counted as failed, the status says %d", failed, s.Failed)
	}
	if *r.job.Spec.CompletionMode == batchv1.NonIndexedCompletion && s.Succeeded != succeeded {
		t.Fatalf("%d pods were counted as succeeded, the status says %d", succeeded, s.Succeeded)
	}
	completed, failedIndexes := ParseIndexes(s.CompletedIndexes, 1<<30), ParseIndexes(ptr.Deref(s.FailedIndexes, ""), 1<<30)
	if completed.common(failedIndexes) > 0 {
		t.Fatalf("indexes completed and failed: [%s] and [%s]", completed, failedIndexes)
	}
	if *r.job.Spec.CompletionMode == batchv1.IndexedCompletion && int(s.Succeeded) != completed.Len() {
		t.Fatalf("succeeded is %d, completed [%s]", s.Succeeded, completed)
	}
}

// wholeBatch returns the pods if a batch may not hold all of them: which ones it holds is then a matter of chance.
func (s Settings) wholeBatch(pods map[string]*corev1.Pod) map[string]*corev1.Pod {
	if len(pods) > s.Batch {
		return pods
	}
	return nil
}

// checkSettled checks what must hold after all that is due has been done.
func (r *run) checkSettled(t *rapid.T, wake time.Time) {
	if r.record.Finished() {
		for name, p := range r.pods {
			if tracked(p) && controlled(p, r.job.UID) {
				t.Fatalf("%s is still tracked, its Job has finished", name)
			}
		}
		return
	}
	due := r.record.statusDue(r.settings.withDefaults())
	late := r.now.Before(due) && !wake.IsZero() && !wake.After(due) // a large status waits, and will be written
	spec := &r.job.Spec
	active := map[int32]int32{}
	var total, terminating int32
	for name, p := range r.pods {
		if !controlled(p, r.job.UID) {
			continue
		}
		sum := Summarize(p)
		q := r.record.pods.get(p.UID)
		switch {
		case p.DeletionTimestamp == nil && !ended(p):
			active[sum.Index]++
			total++
		case !ended(p):
			terminating++
		}
		over := ended(p) || p.DeletionTimestamp != nil && *spec.PodReplacementPolicy != batchv1.Failed
		if over && tracked(p) && q.stage != held && !late {
			t.Fatalf("%s is over and has not been counted", name)
		}
	}
	if r.record.Paused() { // none is created, and none that is too many has to go
		return
	}
	limit := *spec.Parallelism
	if *spec.Suspend {
		limit = 0
	}
	if *spec.CompletionMode == batchv1.IndexedCompletion {
		limit = min(limit, max(0, *spec.Completions-int32(r.record.completed.Len())))
	} else if spec.Completions != nil {
		limit = min(limit, max(0, *spec.Completions-r.job.Status.Succeeded))
	} else if r.job.Status.Succeeded > 0 {
		limit = max(limit, total) // those that run may go on
	}
	if total > limit {
		t.Fatalf("%d pods are active, %d are allowed", total, limit)
	}
	if *spec.CompletionMode != batchv1.IndexedCompletion {
		return
	}
	completed, failed := ParseIndexes(r.job.Status.CompletedIndexes, 1<<30), ParseIndexes(ptr.Deref(r.job.Status.FailedIndexes, ""), 1<<30)
	for i, n := range active {
		if n > 1 || i < 0 || i >= *spec.Completions {
			t.Fatalf("%d pods of index %d are active", n, i)
		}
		if !r.adopted && (completed.Has(i) || failed.Has(i)) {
			t.Fatalf("index %d has ended and a pod is active", i)
		}
	}
}

func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t)
		actions := r.actions()
		check := actions[""]
		actions[""] = func(t *rapid.T) {
			check(t)
			if d := Decide(r.record, r.now, r.settings); idle(d) {
				r.checkSettled(t, d.Wake)
			}
		}
		r.settle()
		t.Repeat(actions)
	})
}

// A Job may be treated in any way: once its pods succeed, and nothing holds it back, it completes, unless it has failed
// before.
func TestAJobWhosePodsSucceedCompletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t)
		r.settle()
		actions := r.actions()
		delete(actions, "create an orphan")
		delete(actions, "relabel a pod")
		t.Repeat(actions)
		r.edit(func(j *batchv1.Job) {
			j.Spec.Suspend = ptr.To(false)
			delete(j.Annotations, batch.PausedAnnotation)
			j.Spec.ActiveDeadlineSeconds = nil
			j.Spec.BackoffLimit = ptr.To[int32](1 << 30)
			j.Spec.Parallelism = ptr.To[int32](50)
		})
		r.refuse = 0
		for range 200 {
			r.settle()
			r.check(t)
			if r.record.Finished() {
				return
			}
			for _, name := range slices.Sorted(maps.Keys(r.pods)) {
				if p := r.pods[name]; !ended(p) {
					if p.Status.Phase == corev1.PodPending {
						r.start(name)
					}
					if r.pods[name] != nil {
						r.end(name, 0)
					}
				}
			}
			r.now = maxTime(r.now.Add(time.Second), r.wake)
		}
		t.Fatalf("not finished: %s", describe(&r.job.Status))
	})
}

// When pods are seen to end makes no difference for the back-off, only when they ended.
func TestBackoffDoesNotDependOnBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type end struct {
			at int64
			ok bool
		}
		ends := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) end {
			return end{rapid.Int64Range(1000, 1030).Draw(t, "at"), rapid.IntRange(0, 3).Draw(t, "ok") == 0}
		}), 0, 90).Draw(t, "ends")
		var want, got Memory
		note := func(m *Memory, e end) {
			if e.ok {
				m.succeeded(e.at)
			} else {
				m.failed(e.at)
			}
		}
		var last, failures int64
		for _, e := range ends {
			note(&want, e)
			if e.ok {
				last = max(last, e.at)
			}
		}
		for _, e := range ends {
			if !e.ok && e.at > last {
				failures++
			}
		}
		for _, e := range rapid.Permutation(ends).Draw(t, "as seen") {
			note(&got, e)
			data, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			got = Memory{}
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
		}
		if !got.equal(&want) || int64(len(got.Failures)) != min(failures, remembered) || got.LastSuccess != last {
			t.Fatalf("%v, in order %v; %d failures after %d", got, want, failures, last)
		}
	})
}
