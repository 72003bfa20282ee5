package retry

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

// failedJob is a Job that has failed.
func failedJob(t *testing.T) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "default", Generation: 1}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	batch.SetJobDefaults(job)
	if errs := batch.ValidateJobSpec(&job.Spec, field.NewPath("spec")); len(errs) > 0 {
		t.Fatal(errs)
	}
	job.Status = batchv1.JobStatus{
		StartTime: &metav1.Time{Time: time.Unix(100, 0)}, Succeeded: 2, Failed: 7,
		CompletedIndexes: "0,1", FailedIndexes: ptr.To("2-4"),
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "FailedIndexes"},
			{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "FailedIndexes", LastTransitionTime: metav1.NewTime(time.Unix(200, 0))},
		},
	}
	return job
}

func TestBegin(t *testing.T) {
	job := failedJob(t)
	if err := Begin(job, Request{}, "me", time.Unix(300, 0)); err != nil {
		t.Fatal(err)
	}
	want := batchv1.JobStatus{
		Succeeded: 2, CompletedIndexes: "0,1", FailedIndexes: ptr.To(""),
		Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse}},
	}
	if diff := cmp.Diff(want, job.Status); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	all := batch.Attempts(job.Annotations)
	if len(all) != 1 || all[0].FailedIndexes != "2-4" || all[0].EndTime.Unix() != 200 || all[0].RetriedBy != "me" || batch.AttemptOf(job.Annotations) != 2 {
		t.Errorf("%+v", all)
	}
	if job.Generation != 1 {
		t.Errorf("generation %d, and the spec has not changed", job.Generation)
	}
	long := strings.Repeat("€", 1000)
	for range 2 * maxAttempts {
		again := failedJob(t)
		again.Status.FailedIndexes = &long
		again.Annotations = job.Annotations
		if err := Begin(again, Request{}, long, time.Unix(300, 0)); err != nil {
			t.Fatal(err)
		}
		job = again
	}
	all = batch.Attempts(job.Annotations)
	if len(all) != maxAttempts || all[len(all)-1].Attempt != 2*maxAttempts+1 || len(job.Annotations[batch.AttemptsAnnotation]) > 64<<10 {
		t.Errorf("%d attempts of %d bytes", len(all), len(job.Annotations[batch.AttemptsAnnotation]))
	}
}

func TestRetryIsRefused(t *testing.T) {
	for want, change := range map[string]func(*batchv1.Job){
		"the Job has not finished":   func(j *batchv1.Job) { j.Status.Conditions = nil },
		"the Job is being deleted":   func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"another controller manages": func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") },
		"the Job belongs to the JobSet train, which would end another attempt": func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", Controller: ptr.To(true)}}
		},
		"the Job is complete": func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		},
	} {
		job := failedJob(t)
		change(job)
		if err := Begin(job, Request{}, "", time.Unix(300, 0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRetryWithOtherDeadlines(t *testing.T) {
	for name, tc := range map[string]struct {
		job, pod *int64
		ask      Request
		want     string // the changes, or the error
	}{
		"of the Job, by a factor":   {ptr.To[int64](90), nil, Request{Deadline: "2x"}, "deadline of the Job: 3m0s instead of 1m30s"},
		"of the Job, a duration":    {ptr.To[int64](90), nil, Request{Deadline: "36h"}, "deadline of the Job: 36h0m0s instead of 1m30s"},
		"of the Job, where none is": {nil, nil, Request{Deadline: "1h"}, "deadline of the Job: 1h0m0s instead of none"},
		"of each pod":               {ptr.To[int64](90), ptr.To[int64](5), Request{PodDeadline: "1.5x"}, "deadline of each pod: 8s instead of 5s"},
		"of both": {
			ptr.To[int64](90), ptr.To[int64](5), Request{Deadline: "2x", PodDeadline: "2x"},
			"deadline of the Job: 3m0s instead of 1m30s; deadline of each pod: 10s instead of 5s",
		},
		"the same":                     {ptr.To[int64](90), nil, Request{Deadline: "90s"}, ""},
		"a factor of nothing":          {nil, ptr.To[int64](5), Request{Deadline: "2x"}, `deadline: Invalid value: "2x": there is no deadline`},
		"a number without a unit":      {nil, nil, Request{Deadline: "90"}, "must be a duration such as"},
		"a fraction of a second":       {nil, nil, Request{PodDeadline: "1.5s"}, "must be a number of whole seconds"},
		"less than nothing":            {nil, nil, Request{PodDeadline: "-1h"}, "must be a number of whole seconds"},
		"a factor of less than none":   {ptr.To[int64](90), nil, Request{Deadline: "-2x"}, "the factor must be above 0"},
		"more than the API allows":     {nil, ptr.To[int64](1 << 30), Request{PodDeadline: "1000x"}, "activeDeadlineSeconds: Invalid value"},
		"more than can be held":        {ptr.To[int64](1 << 62), nil, Request{Deadline: "4x"}, "more than can be held"},
		"beyond what a duration holds": {ptr.To[int64](1 << 60), nil, Request{Deadline: "2x"}, "2305843009213693952s instead of 1152921504606846976s"},
	} {
		t.Run(name, func(t *testing.T) {
			job := failedJob(t)
			job.Spec.ActiveDeadlineSeconds, job.Spec.Template.Spec.ActiveDeadlineSeconds = tc.job, tc.pod
			if err := Begin(job, tc.ask, "me", time.Unix(300, 0)); err != nil {
				if tc.want == "" || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %s", err, tc.want)
				}
				return
			}
			if got := strings.Join(batch.Attempts(job.Annotations)[0].Changes, "; "); got != tc.want && (tc.want == "" || !strings.Contains(got, tc.want)) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestRetryWithOtherResources(t *testing.T) {
	for name, tc := range map[string]struct {
		limit, request string
		ask            Container
		want           string // the change, or the error
	}{
		"a factor": {"64Mi", "", Container{Memory: "2x"}, "memory of container c: 128Mi instead of 64Mi"},
		"a factor with a fraction": {
			"64Mi", "32Mi", Container{Memory: "1.5x"},
			"memory of container c: 96Mi (request 48Mi) instead of 64Mi (request 32Mi)",
		},
		"a quantity": {
			"64Mi", "32Mi", Container{Memory: "1Gi"},
			"memory of container c: 1Gi (request 512Mi) instead of 64Mi (request 32Mi)",
		},
		"a quantity where there is none": {"", "", Container{Memory: "1Gi"}, "memory of container c: 1Gi instead of none"},
		"a request alone":                {"", "1Gi", Container{Memory: "2x"}, "memory of container c: request 2Gi instead of request 1Gi"},
		"an image":                       {"", "", Container{Image: "other:1"}, "image of container c: other:1 instead of busybox"},
		"nothing new":                    {"1Gi", "", Container{Memory: "1Gi", Image: "busybox"}, ""},
		"by name":                        {"64Mi", "", Container{Name: "c", Memory: "3x"}, "memory of container c: 192Mi instead of 64Mi"},
		"a factor of nothing": {
			"", "", Container{Memory: "2x"},
			`containers[0].memory: Invalid value: "2x": container c has neither a limit nor a request`,
		},
		"no container of this name": {
			"", "", Container{Name: "d", Memory: "2x"}, `containers[0].name: Unsupported value: "d": supported values: "c"`,
		},
		"no quantity":                      {"1Gi", "", Container{CPU: "much"}, `containers[0].cpu: Invalid value: "much": must be a quantity`},
		"less than nothing":                {"1Gi", "", Container{Memory: "-1x"}, "the factor must be above 0 and at most 1000"},
		"no number":                        {"1Gi", "", Container{Memory: "NaNx"}, "must be a factor"},
		"beyond all measure":               {"1Gi", "", Container{Memory: "Infx"}, "must be a factor"},
		"an image that cannot be a name":   {"", "", Container{Image: " "}, "spec.template.spec.containers[0].image"},
		"the largest quantity that exists": {"4Ei", "", Container{Memory: "1000x"}, "memory of container c: 9223372036854775807 instead of 4Ei"},
	} {
		t.Run(name, func(t *testing.T) {
			job := failedJob(t)
			c := &job.Spec.Template.Spec.Containers[0]
			c.Name, c.Image = "c", "busybox"
			c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
			if tc.limit != "" {
				c.Resources.Limits["memory"] = resource.MustParse(tc.limit)
			}
			if tc.request != "" {
				c.Resources.Requests["memory"] = resource.MustParse(tc.request)
			}
			err := Begin(job, Request{Containers: []Container{tc.ask}}, "", time.Unix(300, 0))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(batch.Attempts(job.Annotations)[0].Changes, "; ")
			}
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// A retry is no way around what a template may have: names of images are repeated by events, and shown on terminals.
func TestRetryWithOtherImages(t *testing.T) {
	for image, want := range map[string]string{
		"busybox:2": "", strings.Repeat("a", 5000): "Too long", "busy\u202ebox": "printable", "busy\x1b[2Jbox": "printable",
	} {
		err := Begin(failedJob(t), Request{Containers: []Container{{Image: image}}}, "me", time.Unix(300, 0))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", image, err, want)
		}
	}
}

func TestRetryNamesNoContainerTwice(t *testing.T) {
	job := failedJob(t)
	job.Spec.Template.Spec.Containers[0].Name = "c"
	ask := Request{Containers: []Container{{Memory: "1Gi"}, {Name: "c", Memory: "2x"}}}
	if err := Begin(job, ask, "", time.Unix(300, 0)); err == nil || !strings.Contains(err.Error(), `containers[1].name: Duplicate value: "c"`) {
		t.Errorf("got %v", err)
	}
}

func TestRetryOfSomeIndexes(t *testing.T) {
	for _, c := range []struct {
		name, only    string
		change        func(*batchv1.Job)
		left, refused string
	}{
		{name: "all", left: ""},
		{name: "one", only: "3", left: "2,4,5"},
		{name: "some, in a list", only: "2,4-5", left: "3"},
		{name: "one that has not run", only: "5", left: "2-4"},
		{name: "one that has succeeded", only: "1,3", refused: "index 1 has succeeded"},
		{name: "one that there is not", only: "6", refused: "too large index"},
		{name: "no list", only: "x", refused: "indexes: Invalid value"},
		{
			name: "without a limit per index", only: "3", change: func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = nil },
			refused: "needs an Indexed Job with backoffLimitPerIndex",
		},
		{
			name: "more than may fail", only: "3", change: func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = ptr.To[int32](2) },
			refused: "3 others would stay failed",
		},
	} {
		job := failedJob(t)
		job.Spec.CompletionMode, job.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](6)
		job.Spec.BackoffLimitPerIndex, job.Spec.BackoffLimit = ptr.To[int32](0), ptr.To[int32](100)
		if c.change != nil {
			c.change(job)
		}
		before := job.DeepCopy()
		err := Begin(job, Request{Indexes: c.only}, "me", time.Unix(300, 0))
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", c.name, err)
			}
			if diff := cmp.Diff(before, job); diff != "" {
				t.Errorf("%s: it was changed:\n%s", c.name, diff)
			}
		case err != nil || *job.Status.FailedIndexes != c.left:
			t.Errorf("%s: %v, failed are still %q", c.name, err, *job.Status.FailedIndexes)
		case c.only != "" && len(batch.Attempts(job.Annotations)[0].Changes) != 1:
			t.Errorf("%s: %+v", c.name, batch.Attempts(job.Annotations))
		}
	}
}

// The most indexes that a Job can have are not looked at one by one: each was a byte, and a round of a loop.
func TestRetryOfOneOfVeryManyIndexes(t *testing.T) {
	j := failedJob(t)
	j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](math.MaxInt32)
	j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = ptr.To[int32](0), ptr.To[int32](46)
	j.Status.CompletedIndexes = "1-2147483600"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	left, err := leftFailed(j, "0")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || left != "2147483601-2147483646" || took > 1<<20 {
		t.Errorf("%q, %v, with %d bytes", left, err, took)
	}
	j.Spec.MaxFailedIndexes = ptr.To[int32](45)
	if _, err := leftFailed(j, "0"); err == nil || !strings.Contains(err.Error(), "46 others would stay failed") {
		t.Error(err)
	}
}
