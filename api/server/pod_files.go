package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime/archive"
)

// PodFiles finds the files that pods have left.
type PodFiles interface {
	// WithFiles calls f with the directory, and the path in it, that a path in a container which has ended leads to.
	WithFiles(ctx context.Context, pod *corev1.Pod, container, path string, f func(dir, path string) error) error
}

// podFiles is the subresource pods/files, which is jobd's own: GET returns what is at ?path= in a container that has ended
// as a tar archive, as runtime/archive describes it. ?container= is needed if the pod has several.
type podFiles struct {
	pods   *registry.Store
	files  PodFiles // nil: there are none
	logger *slog.Logger
}

var _ rest.Connecter = podFiles{}

func (podFiles) New() apiruntime.Object   { return &corev1.Pod{} }
func (podFiles) Destroy()                 {}
func (podFiles) ConnectMethods() []string { return []string{http.MethodGet} }

func (podFiles) NewConnectOptions() (apiruntime.Object, bool, string) { return nil, false, "" }

func (c podFiles) Connect(ctx context.Context, name string, _ apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	obj, err := c.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := obj.(*corev1.Pod)
	if c.files == nil {
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
