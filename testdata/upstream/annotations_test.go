package upstream

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/annotations"
)

// TestAClusterTakesEveryAnnotation creates a Job, a CronJob and a Namespace with every annotation that jobd knows for them and their
// templates, in a cluster: it takes them as they are, and leaves a Job suspended that is to wait.
func TestAClusterTakesEveryAnnotation(t *testing.T) {
	placed := map[string]bool{}
	of := func(place string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Annotations: map[string]string{}}
		for _, e := range annotations.All() {
			if e.Example == "" {
				t.Errorf("%s has no example", e.Name)
			}
			if slices.ContainsFunc(e.Places, func(where string) bool {
				return where == place || strings.HasPrefix(where, place+",") && place != "CronJob"
			}) {
				m.Annotations[e.Name] = e.Example
				placed[e.Name] = true
			}
		}
		if len(m.Annotations) == 0 {
			t.Errorf("no annotation is that of a %s", place)
		}
		return m
	}
	suspend := true
	spec := batchv1.JobSpec{Suspend: &suspend, Template: corev1.PodTemplateSpec{ObjectMeta: of("template of pods"), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "c", Image: "busybox:1.36"}},
	}}}
	job := &batchv1.Job{ObjectMeta: of("Job"), Spec: spec}
	job.Name, job.Namespace, job.UID = "j", namespaceName, "u" // which the server chooses before it validates
	cronJob := &batchv1.CronJob{ObjectMeta: of("CronJob")}
	cronJob.Name, cronJob.Namespace = "c", namespaceName
	cronJob.Spec = batchv1.CronJobSpec{
		Schedule: "30 6 * * 1-5", JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: of("CronJob, in spec.jobTemplate"), Spec: spec},
	}
	ns := &corev1.Namespace{ObjectMeta: of("Namespace")}
	ns.Name = "team"
	pod := &corev1.Pod{ObjectMeta: of("Pod"), Spec: spec.Template.Spec}
	pod.Name, pod.Namespace = "p", namespaceName
	account := &corev1.ServiceAccount{ObjectMeta: of("ServiceAccount")}
	account.Name, account.Namespace = "a", namespaceName
	for _, e := range annotations.All() {
		onlyOfSets := slices.Equal(e.Places, []string{"JobSet"}) // that kind is no built-in one (testdata/jobset)
		if !placed[e.Name] && !onlyOfSets {
			t.Errorf("%s stands nowhere: %q", e.Name, e.Places)
		}
	}
	for name, obj := range map[string]runtime.Object{
		"batch/v1 Job": job, "batch/v1 CronJob": cronJob, "v1 Namespace": ns, "v1 Pod": pod, "v1 ServiceAccount": account,
	} {
		t.Run(name, func(t *testing.T) {
			version, kind, _ := strings.Cut(name, " ")
			group, v, ok := strings.Cut(version, "/")
			if !ok {
				group, v = "", version
			}
			k := kindOf(schema.GroupVersionKind{Group: group, Version: v, Kind: kind})
			if k == nil {
				t.Fatal("jobd has no such kind")
			}
			a, err := cluster.create(k, obj)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range a.errs {
				t.Errorf("it is refused: %s", p)
			}
			stored, ok := a.stored.(metav1.Object)
			if !ok {
				t.Fatalf("%T", a.stored)
			}
			given, _ := obj.(metav1.Object)
			for n, value := range given.GetAnnotations() {
				if got, ok := stored.GetAnnotations()[n]; !ok || got != value {
					t.Errorf("%s: %q, want %q", n, got, value)
				}
			}
			if j, ok := a.stored.(*batchv1.Job); ok && (j.Spec.Suspend == nil || !*j.Spec.Suspend) {
				t.Error("it is not suspended any more")
			}
		})
	}
}
