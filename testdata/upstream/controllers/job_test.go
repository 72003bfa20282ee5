package controllers

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/objects"
)

var (
	lives = flag.Int("lives", 200, "how many Jobs to live through")
	seed  = flag.Uint64("seed", 1, "of the first of them")
)

const (
	namespace, jobName = "default", "j"
	// grace is what pods have to end.
	grace = 30 * time.Second
)

// side is somebody who acts for a Job, and the objects that he acts on. What else happens to them is told to both sides alike.
type side interface {
	create(*batchv1.Job)
	edit(func(*batchv1.Job))
	job() *batchv1.Job
	pods() []*corev1.Pod
	// events are those of the Job, each with its reason and message.
	events() []string
	// exit ends the container of a pod, deleted deletes a pod, disrupt does so with a condition.
	exit(p *corev1.Pod, code int32)
	deleted(*corev1.Pod)
	disrupt(*corev1.Pod, corev1.PodCondition)
	end()
}

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	time.Local = time.UTC
	// Another one waits after an error until a while after the last one, which may have been at any time of another bubble.
	utilruntime.ErrorHandlers = nil
	m.Run()
}

// TestJobs lives through Jobs beside Kubernetes' own controller: after each thing that happens the Jobs say the same of themselves, and have
// the same pods.
func TestJobs(t *testing.T) {
	for n := range *lives {
		at := *seed + uint64(n)
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { live(t, rand.New(rand.NewPCG(at, 7))) })
		})
	}
}

func live(t *testing.T, r *rand.Rand) {
	ours, theirs := newOurs(t), newTheirs()
	defer ours.end()
	defer theirs.end()
	time.Sleep(50 * time.Millisecond) // nothing happens at a full second, when deadlines pass
	j := drawJob(t, r)
	var story []string
	each := func(what string, do func(side)) {
		story = append(story, fmt.Sprintf("%s %s", time.Now().Format("15:04:05.0"), what))
		do(ours)
		do(theirs)
	}
	each("create", func(s side) { s.create(j) })
	within := 3 * time.Second
	// Events are kept for an hour here.
	for begin := time.Now(); time.Since(begin) < 45*time.Minute && len(story) < 40; {
		time.Sleep(1300 * time.Millisecond) // Kubernetes' controller gathers what happens within a second
		diff := differ(ours, theirs, within)
		for tries := range 20 {
			if diff == "" {
				break
			}
			if tries == 3 {
				within = time.Minute // it goes more slowly when its cache was behind what it had written
			}
			time.Sleep(1700 * time.Millisecond)
			diff = differ(ours, theirs, within)
		}
		if err := theirs.err(); err != nil {
			t.Fatal(err)
		}
		if diff != "" {
			t.Fatalf("%s\n%s\n-theirs +ours\n%s", text(j), strings.Join(story, "\n"), diff)
		}
		if j := ours.job(); objects.Finished(j) && !slices.ContainsFunc(ours.pods(), func(p *corev1.Pod) bool { return !ended(p) }) {
			return
		}
		awaitDeadline(ours.job())
		happen(r, ours, each)
	}
}

// awaitDeadline lets a deadline pass that would come before both sides have seen what happens next.
func awaitDeadline(j *batchv1.Job) {
	if j.Spec.ActiveDeadlineSeconds == nil || j.Status.StartTime == nil {
		return
	}
	left := time.Until(j.Status.StartTime.Add(time.Duration(*j.Spec.ActiveDeadlineSeconds) * time.Second))
	if left > -time.Second && left < 3*time.Second {
		time.Sleep(left + 3*time.Second)
	}
}

// happen lets one thing happen.
func happen(r *rand.Rand, ours *ours, each func(string, func(side))) {
	pods := shown(ours.pods())
	alive := slices.DeleteFunc(slices.Clone(pods), func(p pod) bool { return ended(p.Pod) })
	one := func() (int, bool) {
		if len(alive) == 0 {
			return 0, false
		}
		p := alive[r.IntN(len(alive))]
		return slices.Index(pods, p), true
	}
	switch n := r.IntN(20); {
	case n < 7:
		d := []time.Duration{900, 2700, 4300, 9100, 21300, 45700, 130900, 700300}[r.IntN(8)] * time.Millisecond
		each("wait "+d.String(), func(s side) {
			if s == side(ours) {
				time.Sleep(d)
			}
		})
	case n < 14:
		if i, ok := one(); ok {
			code := []int32{0, 0, 0, 1, 1, 42, 43, 44}[r.IntN(8)]
			each(fmt.Sprintf("exit %d: %s", code, pods[i].line), func(s side) { s.exit(shown(s.pods())[i].Pod, code) })
		}
	case n < 15:
		if i, ok := one(); ok && pods[i].DeletionTimestamp == nil {
			each("delete "+pods[i].line, func(s side) { s.deleted(shown(s.pods())[i].Pod) })
		}
	case n < 16:
		if i, ok := one(); ok && pods[i].DeletionTimestamp == nil {
			c := corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
				Message: "Eviction API: evicting", LastTransitionTime: now(),
			}
			each("evict "+pods[i].line, func(s side) { s.disrupt(shown(s.pods())[i].Pod, c) })
		}
	case n < 17:
		j := ours.job()
		if objects.Finished(j) {
			return
		}
		suspend := !ptr.Deref(j.Spec.Suspend, false)
		each(fmt.Sprint("suspend ", suspend), func(s side) { s.edit(func(j *batchv1.Job) { j.Spec.Suspend = &suspend }) })
	case n < 18:
		parallelism := r.Int32N(5)
		indexes := r.IntN(3) == 0
		each(fmt.Sprint("parallelism ", parallelism, " and completions ", indexes), func(s side) {
			s.edit(func(j *batchv1.Job) {
				indexed := *j.Spec.CompletionMode == batchv1.IndexedCompletion
				if indexes && indexed && !objects.Finished(j) && parallelism > 0 && *j.Spec.Completions == *j.Spec.Parallelism {
					j.Spec.Completions = &parallelism
				} else if indexes {
					return
				}
				j.Spec.Parallelism = &parallelism
			})
		})
	case n < 19 && r.IntN(2) == 0:
		limit, deadline := r.Int32N(4), 1+r.Int64N(200)
		each(fmt.Sprint("backoffLimit ", limit, " or deadline ", deadline), func(s side) {
			s.edit(func(j *batchv1.Job) {
				if limit > 1 {
					j.Spec.BackoffLimit = &limit
				} else if j.Status.StartTime == nil || time.Since(j.Status.StartTime.Time) < time.Duration(deadline-3)*time.Second {
					j.Spec.ActiveDeadlineSeconds = &deadline
				}
			})
		})
	default:
		each("restart", func(side) {})
		ours.restart()
	}
}

// drawJob makes a Job that an API server takes.
func drawJob(t *testing.T, r *rand.Rand) *batchv1.Job {
	for {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName, Namespace: namespace, UID: "u", CreationTimestamp: now()}}
		s := &j.Spec
		maybe := func(of int) bool { return r.IntN(of) == 0 }
		s.Parallelism = ptr.To(1 + r.Int32N(4))
		if !maybe(4) {
			s.Completions = ptr.To(1 + r.Int32N(6))
		}
		if maybe(2) {
			s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
			s.Completions = ptr.To(1 + r.Int32N(6))
			if maybe(3) {
				s.Completions = ptr.To(*s.Parallelism)
			}
			if maybe(2) {
				s.BackoffLimitPerIndex = ptr.To(r.Int32N(3))
				if maybe(2) {
					s.MaxFailedIndexes = ptr.To(r.Int32N(*s.Completions + 1))
				}
			}
			if maybe(3) {
				s.SuccessPolicy = &batchv1.SuccessPolicy{}
				for range 1 + r.IntN(2) {
					rule := batchv1.SuccessPolicyRule{}
					if maybe(2) {
						rule.SucceededCount = ptr.To(r.Int32N(*s.Completions + 1))
					}
					if rule.SucceededCount == nil || maybe(2) {
						rule.SucceededIndexes = ptr.To([]string{"0", "0-1", "1", "2-3", "0,2"}[r.IntN(5)])
					}
					s.SuccessPolicy.Rules = append(s.SuccessPolicy.Rules, rule)
				}
			}
		}
		if maybe(20) {
			s.Completions = ptr.To[int32](0)
		}
		if !maybe(3) {
			s.BackoffLimit = ptr.To(r.Int32N(5))
		}
		s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		if maybe(2) {
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{}
			for range 1 + r.IntN(3) {
				rule := batchv1.PodFailurePolicyRule{Action: []batchv1.PodFailurePolicyAction{
					batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionIgnore,
					batchv1.PodFailurePolicyActionCount,
				}[r.IntN(4)]}
				if maybe(3) {
					rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{
						Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					}}
				} else {
					rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{
						Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{[]int32{1, 42, 43, 44, 137}[r.IntN(5)]},
					}
					if maybe(4) {
						rule.OnExitCodes.Operator = batchv1.PodFailurePolicyOnExitCodesOpNotIn
					}
				}
				s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, rule)
			}
		}
		if maybe(3) {
			s.PodReplacementPolicy = ptr.To([]batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}[r.IntN(2)])
		}
		if maybe(3) {
			s.ActiveDeadlineSeconds = ptr.To(1 + r.Int64N(200))
		}
		if maybe(6) {
			s.Suspend = ptr.To(true)
		}
		k := batch.JobKind()
		k.Default(j)
		k.Strategy.PrepareForCreate(t.Context(), j)
		if len(k.Strategy.Validate(t.Context(), j)) == 0 {
			return j
		}
	}
}

// pod is one with what is to be equal of it but the time of its creation.
type pod struct {
	*corev1.Pod
	line string
}

// shown returns pods in an order that is the same on both sides.
func shown(all []*corev1.Pod) (out []pod) {
	for _, p := range all {
		a := p.Annotations
		out = append(out, pod{p, fmt.Sprintf("pod of %s: %s, failures %s and %s, deleted %t, finalizers %d",
			cmp.Or(a[batchv1.JobCompletionIndexAnnotation], "-"), p.Status.Phase, cmp.Or(a[batchv1.JobIndexFailureCountAnnotation], "-"),
			cmp.Or(a[batchv1.JobIndexIgnoredFailureCountAnnotation], "-"), p.DeletionTimestamp != nil, len(p.Finalizers))})
	}
	slices.SortFunc(out, func(a, b pod) int {
		return cmp.Or(cmp.Compare(a.line, b.line), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

var podName = regexp.MustCompile(`\b` + jobName + `-(\d+-)?[a-z0-9]{5}\b`)

// differ says what is not the same on both sides, or was not at about the same time.
func differ(ours, theirs side, within time.Duration) string {
	synctest.Wait()
	return gocmp.Diff(saidOf(theirs), saidOf(ours), gocmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() <= within }))
}

type line struct {
	Text string
	At   time.Time
}

func saidOf(s side) (lines []line) {
	j := s.job()
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, line{fmt.Sprintf(format, args...), at})
	}
	st := &j.Status
	failed := fmt.Sprint(st.Failed)
	if end := batch.End(st); end != nil && end.Reason == batchv1.JobReasonDeadlineExceeded {
		failed = "some" // a pod may have been due in the same second
	}
	add(time.Time{}, "active %d ready %d terminating %d succeeded %d failed %s", st.Active, ptr.Deref(st.Ready, -1), ptr.Deref(st.Terminating, -1),
		st.Succeeded, failed)
	add(time.Time{}, "completed %q failed %q", st.CompletedIndexes, ptr.Deref(st.FailedIndexes, "none"))
	// Kubernetes' controller does not write at once that a Job that is to fail has started, when it was suspended before, nor at all
	// while it is suspended: a cluster's API server refuses such an end (RejectFinishedJobWithoutStartTime), so that it is tried for ever.
	ends := slices.ContainsFunc(st.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailureTarget })
	if st.StartTime != nil && !ends && !(ptr.Deref(j.Spec.Suspend, false) && objects.Finished(j)) {
		add(st.StartTime.Time, "started")
	}
	if st.CompletionTime != nil {
		add(st.CompletionTime.Time, "completed")
	}
	for _, c := range st.Conditions {
		add(c.LastTransitionTime.Time, "%s=%s %s %s", c.Type, c.Status, c.Reason, podName.ReplaceAllString(c.Message, jobName+"-${1}x"))
	}
	for _, p := range shown(s.pods()) {
		add(p.CreationTimestamp.Time, "%s", p.line)
	}
	var said []string
	for _, e := range s.events() {
		if !strings.HasPrefix(e, "Successful") { // of a pod, which is seen itself: of many at once some are combined
			said = append(said, podName.ReplaceAllString(e, jobName+"-${1}x"))
		}
	}
	slices.Sort(said)
	for _, e := range slices.Compact(said) {
		add(time.Time{}, "event %s", e)
	}
	return lines
}

// text is the Job as people write it.
func text(j *batchv1.Job) string {
	s := j.Spec
	s.Template, s.Selector = corev1.PodTemplateSpec{}, nil
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}
