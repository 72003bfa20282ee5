package annotations

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// prefix is that of all annotations of jobd's own.
const prefix = "jobd.dev/"

// maxWarnings bounds what one object can have compared and answered.
const maxWarnings = 20

// place is where annotations stand in an object.
type place struct {
	path        *field.Path
	model       string // of the type that carries them
	annotations map[string]string
}

// places returns where an object has annotations: it and its templates, the outer ones first.
func places(obj runtime.Object) (all []place) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	model := ""
	if named, ok := obj.(interface{ OpenAPIModelName() string }); ok {
		model = named.OpenAPIModelName()
	}
	add := func(path *field.Path, model string, annotations map[string]string) {
		all = append(all, place{path.Child("metadata", "annotations"), model, annotations})
	}
	add(nil, model, m.GetAnnotations())
	template := func(path *field.Path, t *corev1.PodTemplateSpec) {
		add(path.Child("template"), t.OpenAPIModelName(), t.Annotations)
	}
	switch o := obj.(type) {
	case *batchv1.Job:
		template(field.NewPath("spec"), &o.Spec.Template)
	case *batchv1.CronJob:
		jobs := field.NewPath("spec", "jobTemplate")
		add(jobs, o.Spec.JobTemplate.OpenAPIModelName(), o.Spec.JobTemplate.Annotations)
		template(jobs.Child("spec"), &o.Spec.JobTemplate.Spec.Template)
	case *jobsetv1.JobSet:
		all[0].model = modelOfSets
		for i := range o.Spec.ReplicatedJobs {
			jobs, t := field.NewPath("spec", "replicatedJobs").Index(i).Child("template"), &o.Spec.ReplicatedJobs[i].Template
			add(jobs, modelOfSetTemplates, t.Annotations)
			template(jobs.Child("spec"), &t.Spec.Template)
		}
	}
	return all
}

// Warnings returns a sentence for each of jobd's annotations that has no effect where it stands in an object: since there is
// no such annotation, or since it belongs elsewhere. old is the object before a change, whose annotations draw no second
// warning; nil: there is none.
func Warnings(obj, old runtime.Object) (warnings []string) {
	var before []place
	if old != nil {
		before = places(old)
	}
	all := places(obj)
	for i, p := range all {
		for _, name := range slices.Sorted(maps.Keys(p.annotations)) {
			if !strings.HasPrefix(name, prefix) || has(p.model, name) {
				continue
			}
			if i < len(before) {
				if _, known := before[i].annotations[name]; known {
					continue
				}
			}
			if len(warnings) == maxWarnings {
				return append(warnings, fmt.Sprintf("%s: has further ones of %s without effect", p.path, prefix))
			}
			warnings = append(warnings, fmt.Sprintf("%s: has no effect: %s", p.path.Key(name), advice(name, all)))
		}
	}
	return warnings
}

// has reports whether a type has an annotation.
func has(model, name string) bool {
	return slices.ContainsFunc(documented()[model], func(a annotation) bool { return a.name == name })
}

// advice says where an annotation belongs that an object has in a wrong place, or which one may be meant.
func advice(name string, all []place) string {
	for _, p := range all {
		if has(p.model, name) {
			return fmt.Sprintf("it belongs in %s", p.path)
		}
	}
	var known []string
	for _, list := range documented() {
		for _, a := range list {
			known = append(known, a.name)
		}
	}
	if slices.Contains(known, name) {
		return "objects of this kind do not have it"
	}
	nearest := slices.MinFunc(slices.Sorted(slices.Values(known)), func(a, b string) int {
		return levenshtein.Distance(a, name, nil) - levenshtein.Distance(b, name, nil)
	})
	if levenshtein.Distance(nearest, name, nil) > len(name)/4 {
		return "jobd has no such annotation"
	}
	return fmt.Sprintf("jobd has no such annotation; is %s meant?", nearest)
}
