package forward

import (
	"encoding/json"
	"maps"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
)

// Copy returns the Job that is made there of one here. ttlSecondsAfterFinished stays here: what is removed there by itself would look as if
// somebody had removed it, and its end would be lost.
func Copy(l *batchv1.Job, namespace string, origin Origin) *batchv1.Job {
	c := handover.Manifest(l)
	c.Namespace = namespace
	c.Spec.ManagedBy, c.Spec.TTLSecondsAfterFinished = nil, nil
	maps.DeleteFunc(c.Annotations, func(name, _ string) bool {
		return clusters.IsMark(name) || name == clusters.OverflowAfterAnnotation || name == clusters.OverflowedAnnotation
	})
	c.Annotations[clusters.NamespaceAnnotation] = l.Namespace
	c.Annotations[clusters.SentAnnotation] = sentOf(l).annotation()
	origin.mark(&c.Labels, l)
	origin.mark(&c.Spec.Template.Labels, l)
	return c
}

// text returns a value as JSON, of which it is known that it can be.
func text(v any) string {
	t, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(t)
}
