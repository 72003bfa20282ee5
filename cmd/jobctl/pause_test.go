package main

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
)

func TestWhichJobsCanBePaused(t *testing.T) {
	condition := func(c batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: c, Status: "True", Reason: "Because"}}
		}
	}
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }
	for name, c := range map[string]struct {
		job           func(*batchv1.Job)
		pause, goesOn string // why not; empty: it can be
	}{
		"it runs":          {func(j *batchv1.Job) { j.Status.Active = 1 }, "", ""},
		"it has not begun": {func(*batchv1.Job) {}, "", ""},
		"it is complete":   {condition(batchv1.JobComplete), "has finished (Complete)", "has finished (Complete)"},
		"it is about to fail": {
			condition(batchv1.JobFailureTarget), "about to end (FailureTarget: Because)", "",
		},
		"it is deleted":   {func(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(metav1.Now()) }, "is being deleted", ""},
		"it is suspended": {suspended, "is suspended", ""},
		"it is of a JobSet": {func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "u", Controller: ptr.To(true),
			}}
		}, "jobctl pause jobsets/train", "jobctl continue jobsets/train"},
		"it waits for others": {
			func(j *batchv1.Job) {
				suspended(j)
				j.Annotations = map[string]string{batch.AfterAnnotation: "prep"}
			}, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
			c.job(j)
			for pause, want := range map[bool]string{true: c.pause, false: c.goesOn} {
				err := unpausable(j, pause)
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("pause %v: %v, want %q", pause, err, want)
				}
			}
		})
	}
}

func TestWhichJobSetsCanBePaused(t *testing.T) {
	for name, c := range map[string]struct {
		set           func(*jobsetv1.JobSet)
		pause, goesOn string // why not; empty: it can be
	}{
		"it runs": {func(*jobsetv1.JobSet) {}, "", ""},
		"it is complete": {func(js *jobsetv1.JobSet) {
			js.Status.Conditions = []metav1.Condition{{Type: "Completed", Status: "True"}}
		}, "has finished (Completed)", "has finished (Completed)"},
		"it is deleted":   {func(js *jobsetv1.JobSet) { js.DeletionTimestamp = ptr.To(metav1.Now()) }, "is being deleted", ""},
		"it is suspended": {func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(true) }, "is suspended", ""},
	} {
		js := &jobsetv1.JobSet{}
		c.set(js)
		for pause, want := range map[bool]string{true: c.pause, false: c.goesOn} {
			err := unpausableSet(js, pause)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, pause %v: %v, want %q", name, pause, err, want)
			}
		}
	}
}
