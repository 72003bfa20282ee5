package controltest

import (
	"encoding/json"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/daemon/objects"
)

// Worker makes a world a worker of MultiKueue.
func (w *World) Worker() *World {
	w.Stop()
	w.MultiKueue = true
	w.Start()
	return w
}

// HandOut does what a manager does first: it makes a Workload for pods of that much CPU.
func (w *World) HandOut(name string, count int32, cpu string) {
	w.T.Helper()
	spec, err := json.Marshal(map[string]any{"queueName": "q", "podSets": []kueue.PodSet{{
		Name: "main", Count: count, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: Asking(cpu)}},
	}}})
	if err != nil {
		w.T.Fatal(err)
	}
	wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(), Generation: 1,
	}, Spec: spec}
	w.Put(objects.Key(objects.KueueWorkloads, wl), wl)
	synctest.Wait()
}

// Dispatch does what a manager does next: it makes the Job, of so many pods at a time.
func (w *World) Dispatch(workload, name, duration, codes string, pods int32, cpu string) {
	w.T.Helper()
	j := Simulate(name, duration, codes)
	j.Annotations = map[string]string{batch.PrebuiltKey: workload}
	j.Labels = map[string]string{batch.KueueLabel: "q"}
	j.Spec.Suspend, j.Spec.Parallelism, j.Spec.Completions, j.Spec.BackoffLimit = ptr.To(true), ptr.To(pods), ptr.To(pods), ptr.To[int32](0)
	j.Spec.Template.Spec.Containers = Asking(cpu)
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.Create(j)
	synctest.Wait()
}

// Workload returns a Workload as it is stored once everything that is due has happened; nil if it is gone.
func (w *World) Workload(name string) *kueue.Workload {
	return stored[kueue.Workload](w, objects.KueueWorkloads, name)
}

// EditWorkload changes a Workload as a manager would.
func (w *World) EditWorkload(name string, edit func(*kueue.Workload)) {
	w.T.Helper()
	wl := w.Workload(name)
	edit(wl)
	w.Put(objects.Key(objects.KueueWorkloads, wl), wl)
	synctest.Wait()
}

// Suspended reports whether a Job is suspended; false if there is none.
func Suspended(j *batchv1.Job) bool { return j != nil && ptr.Deref(j.Spec.Suspend, false) }
