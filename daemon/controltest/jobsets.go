package controltest

import (
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
)

// CreateJobSet does what the API does with a new JobSet, of which the spec is given in YAML. Templates need no containers, and no
// annotations of package simulated if their pods are to run for a minute; they end with success. The JobSet has the annotations, each
// behind its name.
func (w *World) CreateJobSet(name, spec string, annotations ...string) *jobsetv1.JobSet {
	w.T.Helper()
	js := &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(), Annotations: map[string]string{},
	}}
	for i := 0; i+1 < len(annotations); i += 2 {
		js.Annotations[annotations[i]] = annotations[i+1]
	}
	if err := yaml.UnmarshalStrict([]byte(spec), &js.Spec); err != nil {
		w.T.Fatal(err)
	}
	for i := range js.Spec.ReplicatedJobs {
		template := &js.Spec.ReplicatedJobs[i].Template.Spec.Template
		if template.Spec.Containers == nil {
			template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		}
		if template.Annotations[simulated.Duration] == "" {
			metav1.SetMetaDataAnnotation(&template.ObjectMeta, simulated.Duration, "1m")
		}
	}
	k := jobset.Kind()
	k.Default(js)
	k.Strategy.PrepareForCreate(w.T.Context(), js)
	if errs := k.Strategy.Validate(w.T.Context(), js); len(errs) > 0 {
		w.T.Fatal(errs)
	}
	w.Put(objects.Key(objects.JobSets, js), js)
	return js
}

// JobSet returns a JobSet as it is stored once everything that is due has happened; nil if it is gone.
func (w *World) JobSet(name string) *jobsetv1.JobSet {
	return stored[jobsetv1.JobSet](w, objects.JobSets, name)
}

// EditJobSet changes a JobSet as a client would.
func (w *World) EditJobSet(name string, edit func(*jobsetv1.JobSet)) {
	w.T.Helper()
	js := w.JobSet(name)
	edit(js)
	w.Put(objects.Key(objects.JobSets, js), js)
	synctest.Wait()
}
