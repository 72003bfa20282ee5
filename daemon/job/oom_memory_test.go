package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func TestMoreMemoryAfterAnOOMKill(t *testing.T) {
	perIndex := func(s *batchv1.JobSpec) {
		indexed(2, 2)(s)
		s.BackoffLimitPerIndex = ptr.To[int32](10)
	}
	unlimited := func(f func(*batchv1.JobSpec)) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) {
			if f != nil {
				f(s)
			}
			s.BackoffLimit = ptr.To[int32](100)
		}
	}
	for name, tc := range map[string]struct {
		spec func(*batchv1.JobSpec)
		ends []string // of one generation of pods after the other, each an index (or "") and an exit code
		want string   // the memory of all pods in the order of their creation
	}{
		"each time more, up to the most":                  {unlimited(nil), []string{":137", ":137", ":137", ":137"}, "64Mi 96Mi 144Mi 200Mi 200Mi"},
		"another failure keeps it":                        {unlimited(nil), []string{":137", ":1", ":1", ":137"}, "64Mi 96Mi 96Mi 96Mi 144Mi"},
		"no kill, no more":                                {unlimited(nil), []string{":1", ":143"}, "64Mi 64Mi 64Mi"},
		"only the index":                                  {unlimited(indexed(2, 2)), []string{"1:137", "1:137"}, "0=64Mi 1=64Mi 1=96Mi 1=144Mi"},
		"only the index, each with a back-off of its own": {perIndex, []string{"1:137", "1:1", "0:1"}, "0=64Mi 1=64Mi 1=96Mi 1=96Mi 0=64Mi"},
		"pods that are killed together count once": {func(s *batchv1.JobSpec) {
			unlimited(nil)(s)
			s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](2)
		}, []string{":137 :137"}, "64Mi 64Mi 96Mi 96Mi"},
		"what a rule ignores grows too": {func(s *batchv1.JobSpec) {
			unlimited(nil)(s)
			s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:      batchv1.PodFailurePolicyActionIgnore,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{137}},
			}}}
		}, []string{":137"}, "64Mi 96Mi"},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				w := newWorld(someTime, growing(tc.spec))
				w.settle()
				w.startAll()
				for _, ends := range tc.ends {
					for end := range strings.FieldsSeq(ends) {
						index, code, _ := strings.Cut(end, ":")
						i := slices.IndexFunc(w.names(), func(name string) bool {
							return w.pods[name].Annotations[batchv1.JobCompletionIndexAnnotation] == index
						})
						w.end(w.names()[i], map[string]int32{"1": 1, "137": 137, "143": 143}[code])
					}
					w.settle()
					if restart {
						w.record = w.rebuilt()
					}
					w.pass(10 * time.Minute)
					w.startAll()
				}
				if got := w.memories(); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			})
		}
	}
}

func TestARetryKeepsTheMemoryAfterAnOOMKill(t *testing.T) {
	for name, spec := range map[string]func(*batchv1.JobSpec){
		"without indexes": func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) },
		"with":            func(s *batchv1.JobSpec) { indexed(1, 1)(s); s.BackoffLimitPerIndex = ptr.To[int32](0) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				w := newWorld(someTime, growing(spec))
				w.settle()
				w.startAll()
				w.end(w.names()[0], 137)
				w.settle()
				if restart {
					w.record = w.rebuilt()
				}
				w.retry()
				if got := strings.ReplaceAll(w.memories(), "0=", ""); got != "64Mi 96Mi" {
					t.Error(got)
				}
			})
		}
	}
}

// While a Job that fails waits for the last of its pods, it counts those that were held for a retry of their index.
func TestAFailingJobRemembersTheMemoryAfterAnOOMKill(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			w := newWorld(someTime, growing(func(s *batchv1.JobSpec) {
				indexed(2, 2)(s)
				s.BackoffLimitPerIndex, s.ActiveDeadlineSeconds = ptr.To[int32](3), ptr.To[int64](3)
			}))
			w.settle()
			w.startAll()
			killed, lasting := w.names()[0], w.names()[1]
			w.end(killed, 137)
			w.settle()
			w.pass(4 * time.Second)
			if held := w.pods[killed]; held != nil && tracked(held) || w.record.Finished() {
				t.Fatal("it does not wait, with one pod counted")
			}
			if restart {
				w.record = w.rebuilt()
			}
			w.end(lasting, 143)
			w.settle()
			w.retry()
			if got, want := w.memories(), "0=64Mi 1=64Mi 0=96Mi 1=64Mi"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// An index that has succeeded needs no memory any more, and a Job that no longer asks for more of it gets none.
func TestMemoryThatIsNotNeededAnyMore(t *testing.T) {
	w := newWorld(someTime, growing(func(s *batchv1.JobSpec) {
		indexed(2, 2)(s)
		s.BackoffLimit = ptr.To[int32](9)
	}))
	w.settle()
	for range 2 {
		w.startAll()
		for _, name := range w.names() {
			w.end(name, 137)
		}
		w.settle()
		w.pass(6 * time.Minute)
	}
	if got, want := w.memories(), "0=64Mi 1=64Mi 0=96Mi 1=96Mi 0=144Mi 1=144Mi"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	w.startAll()
	w.endIndex(0, 0)
	if _, ok := w.record.counted.Grown[0]; ok || len(w.record.counted.Grown) != 1 {
		t.Errorf("%v", w.record.counted)
	}
	w.edit(func(j *batchv1.Job) { j.Annotations = nil })
	w.endIndex(1, 1)
	w.pass(6 * time.Minute)
	if got := w.created[len(w.created)-1].v.Spec.Containers[0].Resources.Limits.Memory().String(); len(w.created) != 7 || got != "64Mi" {
		t.Errorf("%d pods, the last has %s", len(w.created), got)
	}
	w.startAll()
	if w.endIndex(1, 0); !w.record.Finished() {
		t.Error(w.conditions())
	}
}

// growing is a Job whose pods have 64Mi and may have up to 200Mi.
func growing(f func(*batchv1.JobSpec)) *batchv1.Job {
	j := newJob(f)
	j.Annotations = map[string]string{batch.OOMMemoryFactorAnnotation: "1.5", batch.OOMMemoryMaxAnnotation: "200Mi"}
	j.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")},
	}
	return j
}

// memories returns the memory of all pods in the order of their creation.
func (w *world) memories() string {
	var all []string
	for _, c := range w.created {
		r := c.v.Spec.Containers[0].Resources
		text := r.Limits.Memory().String()
		if 2*r.Requests.Memory().Value() != r.Limits.Memory().Value() {
			text += "/" + r.Requests.Memory().String()
		}
		if index, ok := c.v.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
			text = index + "=" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
