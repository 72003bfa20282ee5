package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/reach"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/archive"
)

// PodFiles finds the files that pods have left.
type PodFiles interface {
	// WithFiles calls f with the directory, and the path in it, that a path in a container which has ended leads to.
	WithFiles(ctx context.Context, pod *corev1.Pod, container, path string, f func(dir, path string) error) error
}

// podFiles is the subresource pods/files. PUT needs a container that runs. ?container= is needed if the pod has several.
type podFiles struct {
	files      PodFiles         // of containers that have ended; nil: there are none
	containers reach.Containers // that run; nil: there are none
	logger     *slog.Logger
}

// NewPodFiles makes the subresource; permit refuses pods whose files the client of a request may not see.
func NewPodFiles(
	pods *registry.Store, permit func(context.Context, *corev1.Pod) error, files PodFiles, containers reach.Containers,
	logger *slog.Logger,
) rest.Storage {
	return filesOf[*corev1.Pod]{pods, permit, podFiles{files, containers, logger}.serve}
}

func (c podFiles) serve(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) error {
	if c.files == nil || c.containers == nil {
		return errNoFiles
	}
	query := r.URL.Query()
	container := query.Get("container")
	var names []string
	for c := range podspec.Containers(&pod.Spec) {
		names = append(names, c.Name)
	}
	switch {
	case container == "" && len(pod.Spec.Containers) == 1:
		container = pod.Spec.Containers[0].Name
	case !slices.Contains(names, container):
		return fmt.Errorf("container %q is not valid for pod %s: choose one of %v", container, pod.Name, names)
	}
	if s := podspec.ContainerStatus(pod, container); s != nil && s.State.Running != nil {
		return c.inside(w, r, pod, container)
	}
	if r.Method != http.MethodGet {
		return fmt.Errorf("container %s of pod %s does not run: %w", container, pod.Name, errdefs.ErrFailedPrecondition)
	}
	return c.files.WithFiles(r.Context(), pod, container, query.Get("path"), func(dir, path string) error {
		return sendFiles(w, r, dir, path, c.logOf(pod))
	})
}

func (c podFiles) logOf(pod *corev1.Pod) *slog.Logger {
	return c.logger.With("namespace", pod.Namespace, "pod", pod.Name)
}

// inside lets a process in the running container read or write the files: it may do what the container's user may.
func (c podFiles) inside(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string) error {
	query := r.URL.Query()
	var words limitedText
	out := &tarAnswer{w: w}
	e := runtime.ExecRequest{Own: true, Stdout: out, Stderr: &words}
	ctx := r.Context()
	if r.Method == http.MethodPut {
		// What has arrived is written, also for a client that does not wait for the answer.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(r.Context(), func() {
			if errors.Is(context.Cause(r.Context()), conns.ErrStopping) {
				cancel()
			}
		})()
		e.Left = r.Context().Done()
		e.Args = []string{"--files", "--", archive.Unpack, query.Get("path"), query.Get("name")}
		e.Stdin, e.Stdout = r.Body, nil
	} else {
		e.Args = []string{"--files", "--", archive.Pack, query.Get("path")}
	}
	code, err := c.containers.Exec(ctx, pod, container, e)
	if err == nil && code != 0 {
		err = fmt.Errorf("copy in container %s: %s (exit code %d)", container, strings.TrimSpace(words.String()), code)
		if code == archive.NotExist {
			err = fmt.Errorf("%w: %w", err, errdefs.ErrNotFound)
		}
	}
	switch {
	case err == nil && r.Method == http.MethodPut:
		w.WriteHeader(http.StatusNoContent)
	case err != nil && out.begun:
		cutOff(r, c.logOf(pod), err)
	}
	return err
}

// tarAnswer writes an answer whose header is not sent before its first bytes: until then it can still be an error.
type tarAnswer struct {
	w     http.ResponseWriter
	begun bool
}

func (a *tarAnswer) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "application/x-tar")
	}
	return a.w.Write(p)
}

// limitedText keeps the begin of what a process in a container writes.
type limitedText struct{ strings.Builder }

func (t *limitedText) Write(p []byte) (int, error) {
	t.Builder.Write(p[:min(len(p), max(0, 4096-t.Len()))])
	return len(p), nil
}
