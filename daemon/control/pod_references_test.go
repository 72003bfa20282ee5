package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestPodsOfAClassThatIsNotThereWaitForIt(t *testing.T) {
	for _, tc := range []struct {
		name    string
		names   func(*corev1.PodSpec)
		refusal string
		key     string
		class   objects.Object
		has     func(*corev1.PodSpec) bool
	}{
		{
			"PriorityClass", func(s *corev1.PodSpec) { s.PriorityClassName = "high" },
			"no PriorityClass with name high was found", "priorityclasses.scheduling.k8s.io/high",
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7},
			func(s *corev1.PodSpec) bool { return *s.Priority == 7 },
		},
		{
			"RuntimeClass", func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("sandboxed") },
			`pod rejected: RuntimeClass "sandboxed" not found`, "runtimeclasses.node.k8s.io/sandboxed",
			&nodev1.RuntimeClass{
				ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "runsc",
				Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
			},
			func(s *corev1.PodSpec) bool { return s.Overhead.Cpu().MilliValue() == 1 },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				j := controltest.Simulate("a", "0s", "0")
				tc.names(&j.Spec.Template.Spec)
				w.Create(j)
				time.Sleep(time.Second)
				var said []string
				if err := w.Store.View(func(s *store.Snapshot) error {
					return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
						said = append(said, e.Reason+": "+e.Message)
						return nil
					})
				}); err != nil {
					t.Fatal(err)
				}
				want := `FailedCreate: Error creating: pods "a-" is forbidden: ` + tc.refusal
				if got := strings.Join(said, "\n"); len(w.Pods()) != 0 || !strings.Contains(got, want) {
					t.Errorf("%d pods, %s", len(w.Pods()), got)
				}
				w.Put(tc.key, tc.class)
				time.Sleep(time.Hour)
				if pods := w.Pods(); len(pods) != 1 || !tc.has(&pods[0].Spec) || !objects.Finished(w.Job("a")) {
					t.Errorf("once it is there: %v", pods)
				}
			})
		})
	}
}

func TestAFailureCountsOnceItsIndexHasAnotherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7}
		const key = "priorityclasses.scheduling.k8s.io/high"
		w.Put(key, class)
		j := controltest.Simulate("a", "1s", "1")
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		j.Spec.Completions, j.Spec.Parallelism, j.Spec.BackoffLimitPerIndex = ptr.To[int32](1), ptr.To[int32](1), ptr.To[int32](1)
		j.Spec.Template.Spec.PriorityClassName = "high"
		w.Create(j)
		if len(w.Pods()) != 1 {
			t.Fatal("no pod was made")
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(key); return nil })
		time.Sleep(5 * time.Minute) // its pod has failed, and another one is refused
		if got := w.Job("a"); got.Status.Failed != 0 || len(w.Pods()) != 1 {
			t.Errorf("while it is refused: %+v, %d pods", got.Status, len(w.Pods()))
		}
		w.Put(key, class)
		time.Sleep(5 * time.Minute)
		pods := w.Pods()
		if got := w.Job("a"); len(pods) != 2 || got.Status.Failed != 2 || ptr.Deref(got.Status.FailedIndexes, "") != "0" {
			t.Errorf("%+v, %d pods", got.Status, len(pods))
		}
		if count := pods[1].Annotations[batchv1.JobIndexFailureCountAnnotation]; count != "1" {
			t.Errorf("the second pod has seen %q failures", count)
		}
	})
}
