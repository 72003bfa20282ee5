package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/podspec"
)

// podLog serves GET .../pods/NAME/log, and POST for pods that show one of a cluster.
type podLog struct {
	rawAnswer
	logs  Logs
	shown ShownLogs
	node  string // the name of this machine
}

var _ rest.GetterWithOptions = &podLog{}

func (l *podLog) NewGetOptions() (runtime.Object, bool, string) {
	return &corev1.PodLogOptions{}, false, ""
}

// OverrideMetricsVerb counts logs as what they are: connections, not reads of an object.
func (l *podLog) OverrideMetricsVerb(string) string { return "CONNECT" }

func (l *podLog) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	opts := options.(*corev1.PodLogOptions).DeepCopy()
	if errs := checkLogOptions(opts); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, name, errs)
	}
	obj, err := l.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := obj.(*corev1.Pod)
	if opts.Container, err = podspec.ContainerName(pod, opts.Container); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if l.logs == nil {
		return nil, apierrors.NewServiceUnavailable("this server has no logs")
	}
	if clusters.Shown(pod) {
		if err := logsExist(pod, opts); err != nil && !opts.Follow {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if !podspec.Elsewhere(pod, l.node) {
		if !podspec.Bound(pod) {
			warning.AddWarning(ctx, "", fmt.Sprintf("pod %s is not scheduled yet, and has written nothing; what it waits for: jobctl why pods/%[1]s -n %s",
				pod.Name, pod.Namespace))
			return &logStream{of: pod}, nil // nothing can have been written
		}
		if err := logsExist(pod, opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return &logStream{
		of: pod, follow: opts.Follow,
		open: func(ctx context.Context) (io.ReadCloser, error) { return l.logs.Open(ctx, pod, opts) },
	}, nil
}

// logStream is the response: it is not an object, but text that is copied as it comes.
type logStream struct {
	of     metav1.Object
	open   func(context.Context) (io.ReadCloser, error) // nil: there is nothing
	follow bool
}

var _ rest.ResourceStreamer = &logStream{}

// GetObjectMeta returns the metadata for clients that request the log as metadata only.
func (s *logStream) GetObjectMeta() metav1.Object { return s.of }

func (s *logStream) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (s *logStream) DeepCopyObject() runtime.Object   { c := *s; return &c }

func (s *logStream) InputStream(ctx context.Context, _, _ string) (io.ReadCloser, bool, string, error) {
	if s.open == nil {
		return nil, false, "", nil
	}
	r, err := s.open(ctx)
	if err != nil {
		return nil, false, "", err
	}
	return brokenOff{r, ctx}, s.follow, "text/plain", nil
}

// brokenOff ends the connection where a log cannot be read on: a client that saw a proper end would mistake a part for
// the whole.
type brokenOff struct {
	io.ReadCloser
	ctx context.Context // of the client's request
}

func (b brokenOff) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case n > 0:
		return n, nil // an error comes again
	case err == nil || err == io.EOF:
	case apierrors.IsTooManyRequests(err): // it is the client's own doing
		panic(http.ErrAbortHandler)
	case b.ctx.Err() == nil:
		utilruntime.HandleErrorWithContext(b.ctx, err, "A log is broken off")
		panic(http.ErrAbortHandler)
	case errors.Is(context.Cause(b.ctx), conns.ErrStopping):
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func checkLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines,
			"must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""),
			"at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream != nil {
		switch *o.Stream {
		case corev1.LogStreamAll:
		case corev1.LogStreamStdout, corev1.LogStreamStderr:
			if o.TailLines != nil {
				errs = append(errs, field.Forbidden(field.NewPath(""),
					"`tailLines` and specific `stream` are mutually exclusive for now"))
			}
		default:
			errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream,
				[]string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}))
		}
	}
	return errs
}

// logsExist returns an error, with a kubelet's message, while there is no log yet.
func logsExist(pod *corev1.Pod, o *corev1.PodLogOptions) error {
	status := podspec.ContainerStatus(pod, o.Container)
	if status == nil {
		return fmt.Errorf("container %q in pod %q is not available", o.Container, pod.Name)
	}
	now, before := status.State, status.LastTerminationState.Terminated
	switch {
	case o.Previous:
		if before == nil || before.ContainerID == "" {
			return fmt.Errorf("previous terminated container %q in pod %q not found", o.Container, pod.Name)
		}
		return nil
	case now.Running != nil, now.Terminated != nil && now.Terminated.ContainerID != "":
		return nil
	case before != nil && before.ContainerID != "":
		return nil // between two attempts the last one's is shown
	case now.Terminated != nil, before != nil:
		return fmt.Errorf("container %q in pod %q is terminated", o.Container, pod.Name)
	case now.Waiting == nil:
		return fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", o.Container, pod.Name)
	}
	reason := now.Waiting.Reason
	switch reason {
	case "ErrImagePull":
		reason = "image can't be pulled"
	case "ImagePullBackOff":
		reason = "trying and failing to pull image"
	}
	return fmt.Errorf("container %q in pod %q is waiting to start: %s", o.Container, pod.Name, reason)
}
