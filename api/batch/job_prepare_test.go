package batch

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestLabelsOfAJob(t *testing.T) {
	generated := map[string]string{
		"batch.kubernetes.io/controller-uid": "u1", "batch.kubernetes.io/job-name": "j", "controller-uid": "u1", "job-name": "j",
	}
	with := func(more map[string]string) map[string]string {
		out := maps.Clone(generated)
		maps.Copy(out, more)
		return out
	}
	own := map[string]string{"app": "x"}
	for _, tc := range []struct {
		name                                 string
		manual                               bool
		job, template, wantJob, wantTemplate map[string]string
	}{
		{"of one without any are the template's, the generated ones too", false, nil, nil, generated, generated},
		{"and the template's own", false, nil, own, with(own), with(own)},
		{"of one with its own stay", false, own, nil, own, generated},
		{"stay as they are even when they equal the template's", false, own, own, own, with(own)},
		{"of a manual selector are not generated", true, nil, own, own, own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minimalJob(t, "j", "")
			job.UID = "u1"
			job.Labels, job.Spec.Template.Labels = maps.Clone(tc.job), maps.Clone(tc.template)
			if tc.manual {
				job.Spec.ManualSelector = ptr.To(true)
				job.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
			}
			SetJobDefaults(job)
			PrepareJob(job)
			if diff := cmp.Diff(tc.wantJob, job.Labels); diff != "" {
				t.Errorf("job: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantTemplate, job.Spec.Template.Labels); diff != "" {
				t.Errorf("template: -want +got\n%s", diff)
			}
			if !tc.manual && job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != "u1" {
				t.Errorf("selector %v", job.Spec.Selector)
			}
		})
	}
}

func TestHandWrittenLabelsThatAreNotTheGeneratedOnesAreRefused(t *testing.T) {
	job := minimalJob(t, "j", "")
	job.Spec.Template.Labels = map[string]string{"job-name": "other"}
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	var fields []string
	for _, e := range create(job, "u1") {
		fields = append(fields, e.Field+": "+e.Detail)
	}
	want := []string{
		"spec.template.metadata.labels[job-name]: must be 'j'",
		"spec.selector: `selector` not auto-generated",
		"spec.template.metadata.labels: `selector` does not match template `labels`",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestStatusIsNotAManifestsToWrite(t *testing.T) {
	job := minimalJob(t, "j", "")
	job.Generation = 9
	job.Status.Succeeded = 3
	create(job, "u1")
	if job.Generation != 1 || job.Status.Succeeded != 0 {
		t.Errorf("generation %d, status %+v", job.Generation, job.Status)
	}
	update := job.DeepCopy()
	update.Status.Succeeded = 3
	prepareJobUpdate(update, job)
	if update.Status.Succeeded != 0 || update.Generation != 1 {
		t.Errorf("an update of the object: %+v, generation %d", update.Status, update.Generation)
	}
	update.Spec.Parallelism = ptr.To(int32(2))
	prepareJobUpdate(update, job)
	if update.Generation != 2 {
		t.Errorf("a change of the spec: generation %d", update.Generation)
	}
	prepareJobStatusUpdate(update, job)
	if *update.Spec.Parallelism != 1 || update.Generation != 1 {
		t.Errorf("an update of the status: %+v", update.Spec)
	}
}
