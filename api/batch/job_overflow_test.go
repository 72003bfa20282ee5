package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
)

func TestValidateOverflow(t *testing.T) {
	for _, c := range []struct{ manager, after, refused string }{
		{"jobd.dev/overflow.prod", "", ""},
		{"jobd.dev/overflow.prod", "0s", ""},
		{"jobd.dev/overflow.prod", "1h30m", ""},
		{"jobd.dev/overflow.prod", "-1s", "metadata.annotations[jobd.dev/overflow-after]"},
		{"jobd.dev/overflow.prod", "ten", "metadata.annotations[jobd.dev/overflow-after]"},
		{"clusters.jobd.dev/prod", "10m", "metadata.annotations[jobd.dev/overflow-after]"},
		{"", "10m", "metadata.annotations[jobd.dev/overflow-after]"},
		{"jobd.dev/overflow.", "", "spec.managedBy"},
		{"jobd.dev/overflow", "", "spec.managedBy"},
		{"jobd.dev/other", "", "spec.managedBy"},
		{"example.com/overflow.prod", "", ""},
	} {
		j := &batchv1.Job{}
		if c.manager != "" {
			j.Spec.ManagedBy = &c.manager
		}
		if c.after != "" {
			j.Annotations = map[string]string{clusters.OverflowAfterAnnotation: c.after}
		}
		errs := validateOverflow(j.Annotations, &j.Spec, field.NewPath("metadata", "annotations"))
		if why := clusters.Misnamed(c.manager); why != "" {
			errs = append(errs, field.Invalid(field.NewPath("spec", "managedBy"), c.manager, why))
		}
		if got := errs.ToAggregate(); (got == nil) != (c.refused == "") || got != nil && errs[0].Field != c.refused {
			t.Errorf("%q after %q: %v", c.manager, c.after, got)
		}
	}
}

// Nobody but the daemon says that a Job was handed over.
func TestOverflowedIsWrittenByTheDaemon(t *testing.T) {
	manager := clusters.OverflowManager("prod")
	j := &batchv1.Job{}
	j.Spec.ManagedBy, j.Annotations = &manager, map[string]string{clusters.OverflowedAnnotation: "2026-01-31T22:00:00Z"}
	stored := j.DeepCopy()
	if PrepareJob(j); clusters.Of(j) != "" || !managedHere(j) {
		t.Error("a new Job says that it was handed over")
	}
	forged := j.DeepCopy()
	forged.Annotations = map[string]string{clusters.OverflowedAnnotation: "2026-01-31T22:00:00Z"}
	if keepWritten(forged, j); clusters.Of(forged) != "" {
		t.Error("an update says so")
	}
	back := stored.DeepCopy()
	delete(back.Annotations, clusters.OverflowedAnnotation)
	if keepWritten(back, stored); clusters.Of(back) != "prod" || managedHere(back) {
		t.Error("an update takes it back")
	}
	stored.Spec.ManagedBy = ptr.To("example.com/other")
	if clusters.Of(stored) != "" || managedHere(stored) {
		t.Error("one of another controller is the cluster's")
	}
}
