package server

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

// maxTail is how many of the last lines of a Job may be asked for. To find them, that many times of lines are held.
const maxTail = 100_000

// jobLog serves GET .../jobs/NAME/log: what all pods of a Job have written, including those that are gone.
type jobLog struct {
	rawAnswer
	logs JobLogs
	node string // the name of this machine
}

var _ rest.GetterWithOptions = &jobLog{}

func (l *jobLog) NewGetOptions() (runtime.Object, bool, string) {
	return &batch.JobLogOptions{}, false, ""
}

// OverrideMetricsVerb counts logs as what they are: connections, not reads of an object.
func (l *jobLog) OverrideMetricsVerb(string) string { return "CONNECT" }

func (l *jobLog) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	opts := options.(*batch.JobLogOptions).DeepCopyObject().(*batch.JobLogOptions)
	// Each stream of a log has an end of its own, so the two options do not exclude each other as those of a pod do.
	lines, stream := opts.Pod(), &corev1.PodLogOptions{Stream: opts.Pod().Stream}
	lines.Stream = nil
	if errs := append(checkLogOptions(lines), checkLogOptions(stream)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "JobLogOptions"}, name, errs)
	}
	switch {
	case opts.Previous && opts.AllRestarts:
		return nil, apierrors.NewBadRequest("at most one of `previous` and `allRestarts` may be specified")
	case opts.TailLines != nil && *opts.TailLines > maxTail:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("`tailLines` of the log of a Job is at most %d: without it the answer is all of the log", maxTail))
	case opts.Container != "" && opts.AllContainers:
		return nil, apierrors.NewBadRequest("at most one of `container` and `allContainers` may be specified")
	}
	job, left, err := l.job(ctx, name)
	if err != nil {
		return nil, err
	}
	if known := batch.LogContainers(job); opts.Container != "" && !slices.Contains(known, opts.Container) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for job %s out of: %s",
			opts.Container, name, known))
	}
	if l.logs == nil {
		return nil, apierrors.NewServiceUnavailable("this server has no logs")
	}
	if node, err := l.logs.Elsewhere(job); err != nil {
		return nil, apierrors.NewInternalError(err)
	} else if node != "" {
		warning.AddWarning(ctx, "", fmt.Sprintf("pods of job %s are for the node %s, and this machine is %s: what they print is there", name, node, l.node))
	}
	if left {
		warning.AddWarning(ctx, "", fmt.Sprintf("job %s is gone; this is what it has left (%s)", name, batch.KeepLogsAnnotation))
	} else if mustSayWaits(opts, job, time.Now()) {
		warning.AddWarning(ctx, "", fmt.Sprintf("no container of job %s runs yet, and its log begins when one does; what it waits for: jobctl why jobs/%[1]s -n %s",
			name, job.Namespace))
	}
	return &logStream{
		of: job, follow: opts.Follow,
		open: func(ctx context.Context) (io.ReadCloser, error) { return l.logs.OpenJob(ctx, job, opts) },
	}, nil
}

// job returns a Job; left says that it is gone, and only that known which its logs need.
func (l *jobLog) job(ctx context.Context, name string) (job *batchv1.Job, left bool, err error) {
	obj, err := l.objects.Get(ctx, name, &metav1.GetOptions{})
	switch {
	case err == nil:
		return obj.(*batchv1.Job), false, nil
	case l.logs == nil || !apierrors.IsNotFound(err):
		return nil, false, err
	}
	job, failed := l.logs.Left(ctx, request.NamespaceValue(ctx), name)
	switch {
	case failed != nil:
		return nil, false, failed
	case job == nil:
		return nil, false, err
	}
	return job, true, nil
}

// slowStart is after how long a Job that does not run yet is said to wait.
const slowStart = 5 * time.Second

// mustSayWaits reports whether whoever follows the log of a Job is told that it has not begun. Those who have it say what is missing
// (jobctl submit and follow) watch the Job, and say so themselves.
func mustSayWaits(opts *batch.JobLogOptions, job *batchv1.Job, now time.Time) bool {
	return opts.Follow && !opts.Previous && !opts.Missing && !hasStarted(job, now)
}

// hasStarted reports whether a container of a Job runs or has run, or may soon.
func hasStarted(job *batchv1.Job, now time.Time) bool {
	s := &job.Status
	return ptr.Deref(s.Ready, 0)+s.Succeeded+s.Failed > 0 || batch.End(s) != nil || now.Sub(job.CreationTimestamp.Time) < slowStart
}
