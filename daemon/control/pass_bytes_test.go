package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// A Job of many pods of the largest template must not make a pass hold them all: not when they are created, when they say why
// they wait, when they fail, when a new daemon reads them, nor when they are deleted.
func TestPassesOfLargePods(t *testing.T) {
	const pods, size = 70, 1 << 20
	for name, change := range map[string]func(*batchv1.Job){
		"that wait": func(j *batchv1.Job) { j.Spec.Template.Spec.Containers = controltest.Asking("1000") },
		"that fail": func(j *batchv1.Job) {
			j.Spec.Template.Spec.Containers = controltest.Asking("1000")
			j.Spec.ActiveDeadlineSeconds = new(int64)
			*j.Spec.ActiveDeadlineSeconds = 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controltest.Small(t)
				defer w.End()
				most := 0
				look := func() {
					t.Helper()
					is, err := w.Control.Inspect(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range is.Passes {
						most = max(most, p.Bytes)
					}
				}
				j := controltest.Simulate("j", "1h", "0")
				n := int32(pods)
				j.Spec.Completions, j.Spec.Parallelism = &n, &n
				change(j)
				j.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: strings.Repeat("x", size)}}
				look()
				w.Create(j)
				synctest.Wait()
				if got := w.Job("j").Status.Active; got != pods {
					t.Fatalf("%d pods, want %d", got, pods)
				}
				look()
				time.Sleep(20 * time.Second) // they say that they do not fit
				look()
				w.Stop()
				w.Start()
				look()
				synctest.Wait()
				time.Sleep(20 * time.Second)
				look()
				j = w.Job("j")
				storage.SetPropagation(j, metav1.DeletePropagationForeground)
				w.Delete(objects.Key(objects.Jobs, j), j)
				look()
				if w.Job("j") != nil || len(w.Pods()) > 0 {
					t.Errorf("the Job and its pods are not gone")
				}
				// What a pass takes on last, with the Job itself, it carries out as a whole.
				if most > loop.ByteBudget+8*size || most < loop.ByteBudget/2 {
					t.Errorf("a pass has held %d MB of objects, %d are allowed", most>>20, loop.ByteBudget>>20)
				}
			})
		})
	}
}
