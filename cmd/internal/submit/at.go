package submit

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/startat"
)

// setAt makes the Job wait for a time, as the command line says it.
func (m *Manifests) setAt(text string, now time.Time) error {
	at, err := startat.Parse(text, now)
	if err != nil {
		return fmt.Errorf("--at: %w", err)
	}
	annotations := m.Job.GetAnnotations()
	if was, ok := annotations[batch.StartAtAnnotation]; ok {
		return fmt.Errorf("--at: the file says it too, by %s: %s", batch.StartAtAnnotation, was)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batch.StartAtAnnotation] = at.Format(time.RFC3339)
	m.Job.SetAnnotations(annotations)
	return unstructured.SetNestedField(m.Job.Object, true, "spec", "suspend")
}

// StartsAt says when the Job starts, if it waits for a time; empty if it does not.
func (m *Manifests) StartsAt() string {
	at, ok := batch.StartAt(m.Job.GetAnnotations())
	if !ok {
		return ""
	}
	return "it starts at " + at.Format("Mon 2006-01-02 15:04:05 -07:00")
}
