package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// The pods of a Job get what its namespace's LimitRange gives them, and a Job whose pods it refuses goes on when it is
// changed.
func TestLimitRangesOfAJobsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		key := store.Key("limitranges", "default", "small")
		most := func(memory string) {
			lr := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small"}}
			list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
			lr.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: list, Default: list, DefaultRequest: list}}
			w.Put(key, lr)
		}
		most("64Mi")
		plain, large := controltest.Simulate("plain", "0s", "0"), controltest.Simulate("large", "0s", "0")
		plain.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		large.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}}
		w.Create(plain)
		w.Create(large)
		time.Sleep(time.Minute)
		refusal := func() (last string) {
			var at time.Time
			if err := w.Store.View(func(s *store.Snapshot) error {
				return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
					if e.Reason == "FailedCreate" && !e.LastTimestamp.Time.Before(at) {
						last, at = e.Message, e.LastTimestamp.Time
					}
					return nil
				})
			}); err != nil {
				t.Fatal(err)
			}
			return last
		}
		said := refusal()
		if want := `Error creating: pods "large-" is forbidden: maximum memory usage per Container is 64Mi, but limit is 1Gi`; said != want {
			t.Errorf("said %q, want %q", said, want)
		}
		pods := w.Pods()
		if len(pods) != 1 || pods[0].Spec.Containers[0].Resources.Limits.Memory().String() != "64Mi" ||
			pods[0].Annotations["kubernetes.io/limit-ranger"] == "" || pods[0].Status.QOSClass != corev1.PodQOSBurstable {
			t.Errorf("%+v", pods)
		}
		// Each template is valid without the limit that its container gets.
		unlimited := controltest.Simulate("unlimited", "0s", "0")
		unlimited.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}}
		w.Create(unlimited)
		time.Sleep(time.Second)
		if said := refusal(); !strings.HasSuffix(
			said,
			`is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than or equal to memory limit of 64Mi`,
		) {
			t.Errorf("said %q", said)
		}
		most("2Gi")
		time.Sleep(time.Hour)
		if !objects.Finished(w.Job("large")) {
			t.Error("the Job does not go on")
		}
	})
}
