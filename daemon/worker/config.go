package worker

import (
	"context"
	"log/slog"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// Config is what Workers need.
type Config struct {
	Runtime runtime.Runtime
	Images  Images
	// PullSecrets returns the Secrets with a pod's credentials for registries, and the names of those that are missing.
	// It is called only for a pod that names some. Nil: there are none.
	PullSecrets func(obj *corev1.Pod) (secrets []corev1.Secret, missing []string)
	Spec        SpecBuilder
	// Steps are taken in order and undone in reverse.
	Steps []Step
	// LogPath is the file for the output of a container; its directory is made. Nil: there is none.
	LogPath func(obj *corev1.Pod, container string, attempt int) string
	// LogMaxSize is how large the file grows before it is rotated, 0 is no limit; LogMaxFiles are kept.
	LogMaxSize  int64
	LogMaxFiles int
	// BeginLogs is called before that directory is made. Nil: there is nothing to be done.
	BeginLogs func(obj *corev1.Pod, container string, attempt int) error
	// Report takes observations. It must neither block nor call the Workers.
	Report func([]pod.Observation)
	// Parallel is how many pods are worked on at a time. Default: 16.
	Parallel int
	Logger   *slog.Logger
}

const defaultParallel = 16

// Images makes images be here.
type Images interface {
	// Ensure returns the image that ref names, and gets it first where the policy asks for that. Progress is called
	// only when it has to be got: at once, and as often as there is something to tell. Errors: ErrNotFound with
	// PullNever, ErrInvalidArgument for a reference that is none; anything else is one of the registry. The secrets hold
	// credentials for it.
	Ensure(ctx context.Context, ref string, policy corev1.PullPolicy, secrets []corev1.Secret, progress func(string)) (runtime.Image, error)
}

// SpecBuilder makes the OCI spec of a container. Its errors are shown as CreateContainerConfigError.
type SpecBuilder interface {
	Spec(ctx context.Context, in SpecInput) (*specs.Spec, error)
}

// SpecInput is what the spec of a container is made from.
type SpecInput struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Attempt   int
	Image     runtime.Image
	Sandbox   *Sandbox
}
