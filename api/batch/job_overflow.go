package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/clusters"
)

// validateOverflow checks for how long a Job waits here before it goes to a cluster.
func validateOverflow(annotations map[string]string, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	text, ok := annotations[clusters.OverflowAfterAnnotation]
	if !ok {
		return nil
	}
	path = path.Key(clusters.OverflowAfterAnnotation)
	if clusters.OverflowTo(&batchv1.Job{Spec: *spec}) == "" {
		return field.ErrorList{field.Forbidden(path, "only for Jobs whose spec.managedBy is "+clusters.OverflowManager("CLUSTER"))}
	}
	if _, ok := clusters.OverflowAfter(annotations); !ok {
		return field.ErrorList{field.Invalid(path, text, `must be a duration that is not negative, such as "10m"`)}
	}
	return nil
}
