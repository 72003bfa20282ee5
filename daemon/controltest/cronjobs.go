package controltest

import (
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// CreateCronJob does what the API does with a new CronJob, whose pods take that long.
func (w *World) CreateCronJob(name, schedule, duration string, edit func(*batchv1.CronJob)) *batchv1.CronJob {
	w.T.Helper()
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(),
	}}
	cj.Spec.Schedule, cj.Spec.TimeZone = schedule, ptr.To("UTC")
	template := Simulate("", duration, "0").Spec
	template.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	template.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	cj.Spec.JobTemplate.Spec = template
	if edit != nil {
		edit(cj)
	}
	kind := batch.CronJobKind()
	kind.Default(cj)
	kind.Strategy.PrepareForCreate(w.T.Context(), cj)
	if errs := kind.Strategy.Validate(w.T.Context(), cj); len(errs) > 0 {
		w.T.Fatal(errs)
	}
	w.Put(objects.Key(objects.CronJobs, cj), cj)
	return cj
}

// CronJob returns a CronJob as it is stored once everything that is due has happened; nil if it is gone.
func (w *World) CronJob(name string) *batchv1.CronJob {
	return stored[batchv1.CronJob](w, objects.CronJobs, name)
}

// JobNames returns the names of all Jobs once everything that is due has happened.
func (w *World) JobNames() (names []string) {
	w.T.Helper()
	synctest.Wait()
	if err := w.Store.View(func(s *store.Snapshot) error {
		return objects.Each(s, objects.Jobs, func(_ string, j *batchv1.Job) error {
			names = append(names, j.Name)
			return nil
		})
	}); err != nil {
		w.T.Fatal(err)
	}
	return names
}
