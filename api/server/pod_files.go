package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/archive"
)

// PodFiles finds the files that pods have left.
type PodFiles interface {
	// WithFiles calls f with the directory, and the path in it, that a path in a container which has ended leads to.
	WithFiles(ctx context.Context, pod *corev1.Pod, container, path string, f func(dir, path string) error) error
}

// podFiles is the subresource pods/files, which is jobd's own: GET returns what is at ?path= in a container as a tar archive,
// as runtime/archive describes it. PUT takes one if the container runs. ?container= is needed if the pod has several.
type podFiles struct {
	pods       *registry.Store
	files      PodFiles   // of containers that have ended; nil: there are none
	containers Containers // that run
	logger     *slog.Logger
}

var _ rest.Connecter = podFiles{}

func (podFiles) New() apiruntime.Object   { return &corev1.Pod{} }
func (podFiles) Destroy()                 {}
func (podFiles) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPut} }

func (podFiles) NewConnectOptions() (apiruntime.Object, bool, string) { return nil, false, "" }

func (c podFiles) Connect(ctx context.Context, name string, _ apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	obj, err := c.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := obj.(*corev1.Pod)
	if c.files == nil || c.containers == nil {
		return nil, apierrors.NewBadRequest("this daemon runs no containers, and pods have no files")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.serve(w, r, pod); err != nil {
			responder.Error(filesError("pods", err))
		}
	}), nil
}

// serve returns an error if nothing was answered yet.
func (c podFiles) serve(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) error {
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
	if status, _ := containerStatus(pod, container); status.State.Running != nil {
		return c.inside(w, r, pod, container)
	}
	if r.Method != http.MethodGet {
		return fmt.Errorf("container %s of pod %s does not run: %w", container, pod.Name, errdefs.ErrFailedPrecondition)
	}
	return c.files.WithFiles(r.Context(), pod, container, query.Get("path"), func(dir, path string) error {
		tree, err := archive.Open(dir)
		if err != nil {
			return err
		}
		defer tree.Close()
		if err := tree.Check(path); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/x-tar")
		if err := tree.Write(r.Context(), w, path); err != nil {
			if r.Context().Err() == nil {
				c.logger.Warn("cannot copy all files of a pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
			}
			panic(http.ErrAbortHandler) // the client must not take what it has for the whole
		}
		return nil
	})
}

// inside lets a process in the running container read or write the files: it may do what the container's user may.
func (c podFiles) inside(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string) error {
	query := r.URL.Query()
	var words limitedText
	out := &tarAnswer{w: w}
	e := runtime.ExecRequest{Own: true, Stdout: out, Stderr: &words}
	if r.Method == http.MethodPut {
		e.Args = []string{"--files", "--", archive.Unpack, query.Get("path"), query.Get("name")}
		e.Stdin, e.Stdout = r.Body, nil
	} else {
		e.Args = []string{"--files", "--", archive.Pack, query.Get("path")}
	}
	code, err := c.containers.Exec(r.Context(), pod, container, e)
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
		if r.Context().Err() == nil {
			c.logger.Warn("cannot copy all files of a pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		}
		panic(http.ErrAbortHandler) // the client must not take what it has for the whole
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
