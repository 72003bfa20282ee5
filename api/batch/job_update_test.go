package batch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestWhenATemplateMayChange(t *testing.T) {
	started := &metav1.Time{}
	suspended := []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	for _, tc := range []struct {
		name    string
		state   func(*batchv1.Job)
		mutable bool
	}{
		{"a running Job's may not", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }, false},
		{"that of one suspended from the start may", func(*batchv1.Job) {}, true},
		{"that of one just being suspended may not", func(j *batchv1.Job) { j.Status.StartTime = started }, false},
		{
			"while pods of it are left it may not",
			func(j *batchv1.Job) { j.Status.StartTime, j.Status.Conditions, j.Status.Active = started, suspended, 1 }, false,
		},
		{"once they are gone it may", func(j *batchv1.Job) { j.Status.StartTime, j.Status.Conditions = started, suspended }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := updated(t, "u-plain")
			old.Status = batchv1.JobStatus{}
			tc.state(old)
			job := old.DeepCopy()
			job.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			job.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}}
			if errs := validateJobUpdate(job, old); (len(errs) == 0) != tc.mutable {
				t.Errorf("%v", errs)
			}
		})
	}
}

func TestOfTheAffinityOnlyThatToNodesMayChange(t *testing.T) {
	nodes := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}}
	pods := &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "a"}}}
	for _, tc := range []struct {
		name     string
		was, now *corev1.Affinity
		fine     bool
	}{
		{"it is set", nil, &corev1.Affinity{NodeAffinity: nodes}, true},
		{"it is taken away", &corev1.Affinity{NodeAffinity: nodes}, nil, true},
		{"beside one to pods", &corev1.Affinity{PodAffinity: pods}, &corev1.Affinity{PodAffinity: pods, NodeAffinity: nodes}, true},
		{"one to pods is set", nil, &corev1.Affinity{PodAffinity: pods}, false},
		{"one to pods is taken away", &corev1.Affinity{PodAffinity: pods, NodeAffinity: nodes}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := updated(t, "u-plain")
			old.Spec.Template.Spec.Affinity = tc.was
			job := old.DeepCopy()
			job.Spec.Template.Spec.Affinity = tc.now
			if errs := validateJobUpdate(job, old); (len(errs) == 0) != tc.fine {
				t.Errorf("%v", errs)
			}
		})
	}
}

func TestWhatOfAStatusMayNotHappen(t *testing.T) {
	condition := func(types ...batchv1.JobConditionType) []batchv1.JobCondition {
		var out []batchv1.JobCondition
		for _, t := range types {
			out = append(out, batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue})
		}
		return out
	}
	at := func(second int) *metav1.Time { return &metav1.Time{Time: metav1.Unix(int64(second), 0).Time} }
	for _, tc := range []struct {
		name     string
		job      string
		was, now func(*batchv1.JobStatus)
		want     string
	}{
		{"counters do not go down", "u-plain",
			func(s *batchv1.JobStatus) { s.Succeeded, s.Failed = 2, 2 },
			func(s *batchv1.JobStatus) { s.Succeeded, s.Failed = 1, 1 },
			"status.failed: Invalid value: 1: cannot decrease the failed counter\nstatus.succeeded: Invalid value: 1: cannot decrease the succeeded counter"},
		{"but for the succeeded indexes that an elastic Job loses", "u-indexed",
			func(s *batchv1.JobStatus) { s.Succeeded = 2 },
			func(s *batchv1.JobStatus) { s.Succeeded = 1 }, ""},
		{"a finished Job has no pods", "u-done", nil,
			func(s *batchv1.JobStatus) { s.Active, s.Terminating = 1, ptr.To(int32(1)) },
			"status.active: Invalid value: 1: active>0 is invalid for finished job\nstatus.terminating: Invalid value: 1: " +
				"terminating>0 is invalid for finished job"},
		{"success and failure exclude each other", "u-plain", nil,
			func(s *batchv1.JobStatus) {
				s.Conditions = condition(batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget)
			},
			"status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"},
		{"a failed Job stays failed", "u-plain",
			func(s *batchv1.JobStatus) {
				s.StartTime, s.Conditions = at(1), condition(batchv1.JobFailureTarget, batchv1.JobFailed)
			},
			func(s *batchv1.JobStatus) { s.Conditions = nil },
			"status.conditions: Invalid value: cannot disable the terminal Failed=True condition\nstatus.conditions: Invalid " +
				"value: cannot disable the terminal FailureTarget=True condition"},
		{"an index does not both complete and fail", "u-indexed", nil,
			func(s *batchv1.JobStatus) { s.CompletedIndexes, s.FailedIndexes = "0,2", ptr.To("1-2") },
			`status.failedIndexes: Invalid value: "1-2": failedIndexes and completedIndexes overlap at index: 2`},
		{"an index is one of the Job's", "u-indexed", nil,
			func(s *batchv1.JobStatus) { s.FailedIndexes = ptr.To("7") },
			`status.failedIndexes: Invalid value: "7": error parsing failedIndexes: too large index: "7"`},
		{"what is stored is not held against a write of something else", "u-plain",
			func(s *batchv1.JobStatus) { s.CompletionTime, s.Ready = at(1), ptr.To(int32(1)) },
			func(s *batchv1.JobStatus) { s.Failed = 1 }, ""},
		{"but against one of the same", "u-plain",
			func(s *batchv1.JobStatus) { s.Ready = ptr.To(int32(2)) },
			func(s *batchv1.JobStatus) { s.Ready = ptr.To(int32(1)) },
			"status.ready: Invalid value: 1: cannot set more ready pods than active"},
		{"lists that a scale-down made too long are left until they change", "u-indexed",
			func(s *batchv1.JobStatus) { s.CompletedIndexes = "0,9" },
			func(s *batchv1.JobStatus) { s.Active = 1 }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := updated(t, tc.job)
			if tc.was != nil {
				tc.was(&old.Status)
			}
			job := old.DeepCopy()
			tc.now(&job.Status)
			if diff := cmp.Diff(tc.want, said(validateJobStatusUpdate(job, old))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestStartTimeOfAResumedJobIsNew(t *testing.T) {
	old := updated(t, "u-plain")
	old.Spec.Suspend = ptr.To(false)
	old.Status.StartTime = &metav1.Time{Time: metav1.Unix(1, 0).Time}
	job := old.DeepCopy()
	job.Status.StartTime = &metav1.Time{Time: metav1.Unix(9, 0).Time}
	if errs := validateJobStatusUpdate(job, old); len(errs) != 1 {
		t.Errorf("while nothing was resumed: %v", errs)
	}
	job.Status.Conditions[0].Status = corev1.ConditionFalse
	if errs := validateJobStatusUpdate(job, old); len(errs) > 0 {
		t.Errorf("when it is resumed: %v", errs)
	}
}
