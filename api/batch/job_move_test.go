package batch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func waiting(t *testing.T) *batchv1.Job {
	t.Helper()
	job := minimalJob(t, "j", "")
	if errs := create(job, "u1"); len(errs) > 0 {
		t.Fatal(errs)
	}
	return job
}

func TestMoveJob(t *testing.T) {
	for _, suspended := range []bool{false, true} {
		job := waiting(t)
		job.Spec.Suspend = &suspended
		before := job.DeepCopy()
		for range 2 { // it may be asked for again
			if err := MoveJob(job, Move{To: "big"}); err != nil {
				t.Fatal(err)
			}
		}
		if m := MovingOf(job.Annotations); m == nil || *m != (Moving{To: "big", Suspended: suspended}) || !*job.Spec.Suspend {
			t.Fatalf("suspended %t: %v, suspend %t", suspended, m, *job.Spec.Suspend)
		}
		if changed := job.Generation != before.Generation; changed == suspended {
			t.Errorf("suspended %t: generation %d", suspended, job.Generation)
		}
		if err := MoveJob(job, Move{To: "other"}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "being moved to big") {
			t.Errorf("to another place: %v", err)
		}
		for range 2 {
			if err := MoveJob(job, Move{Cancel: true}); err != nil {
				t.Fatal(err)
			}
		}
		job.Generation = before.Generation
		before.Annotations, job.Annotations = nil, nilIfEmpty(job.Annotations)
		if diff := cmp.Diff(before, job); diff != "" {
			t.Errorf("after cancelling it: -want +got\n%s", diff)
		}
	}
}

func nilIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func TestJobsThatAreNotMoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*batchv1.Job)
		ask    Move
		want   string
	}{
		"nothing asked":                  {ask: Move{}, want: "to: Invalid value"},
		"both asked":                     {ask: Move{To: "big", Cancel: true}, want: "to: Invalid value"},
		"a long name":                    {ask: Move{To: strings.Repeat("x", 300)}, want: "at most 253"},
		"a name that acts on a terminal": {ask: Move{To: "x\x1b]52;c;\a"}, want: "must consist of printable characters"},
		"being deleted":                  {change: func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{} }, want: "being deleted"},
		"of a CronJob":                   {change: ownedBy("CronJob"), want: "belongs to the CronJob x"},
		"of a JobSet":                    {change: ownedBy("JobSet"), want: "belongs to the JobSet x"},
		"one has failed":                 {change: func(j *batchv1.Job) { j.Status.Failed = 1 }, want: HasBegun},
		"one runs":                       {change: func(j *batchv1.Job) { j.Status.Ready = ptr.To[int32](1) }, want: HasBegun},
		"one has ended": {change: func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"p"}}
		}, want: HasBegun},
		"retried": {change: func(j *batchv1.Job) { j.Annotations = map[string]string{AttemptsAnnotation: `[{"attempt":1}]`} }, want: HasBegun},
		"managed elsewhere": {
			change: func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/x") }, want: "another controller manages",
		},
		"of a fleet": {change: func(j *batchv1.Job) { j.Annotations = map[string]string{PrebuiltKey: "w"} }, want: "MultiKueue"},
		"complete": {change: func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}, want: "has ended"},
		"about to fail": {change: func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}
		}, want: "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			job := waiting(t)
			if c.change != nil {
				c.change(job)
				c.ask = Move{To: "big"}
			}
			before := job.DeepCopy()
			if err := MoveJob(job, c.ask); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, job); diff != "" {
				t.Errorf("it was changed: %s", diff)
			}
		})
	}
}

func ownedBy(kind string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", UID: "x", Controller: ptr.To(true)}}
	}
}

// Clients neither begin a move by writing the annotation, nor resume a Job that is being moved.
func TestAMoveBelongsToItsRequest(t *testing.T) {
	job := minimalJob(t, "j", "")
	job.Annotations = map[string]string{MovingAnnotation: `{"to":"big"}`}
	if errs := create(job, "u1"); len(errs) > 0 || MovingOf(job.Annotations) != nil {
		t.Errorf("a new Job is being moved: %v %v", job.Annotations, errs)
	}
	if err := MoveJob(job, Move{To: "big"}); err != nil {
		t.Fatal(err)
	}
	job.ResourceVersion = "7"
	resumed := job.DeepCopy()
	delete(resumed.Annotations, MovingAnnotation)
	resumed.Spec.Suspend = ptr.To(false)
	prepareJobUpdate(resumed, job)
	if errs := validateJobUpdate(resumed, job); len(errs) != 1 || !strings.Contains(errs[0].Error(), "spec.suspend: Forbidden: the Job is being moved to big") {
		t.Errorf("resuming it: %v", errs)
	}
	waits := waiting(t)
	waits.Spec.Suspend, waits.Annotations = ptr.To(true), map[string]string{AfterAnnotation: "a"}
	if !Awaits(waits) {
		t.Fatal("it does not wait for another Job")
	}
	if err := MoveJob(waits, Move{To: "big"}); err != nil || Awaits(waits) {
		t.Errorf("%v; jobd would resume it when the other one has ended", err)
	}
}
