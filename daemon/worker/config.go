package worker

import (
	"context"
	"log/slog"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// Config is what a Pool needs.
type Config struct {
	Runtime runtime.Runtime
	Images  Images
	// PullSecrets returns the Secrets with a pod's credentials for registries, and the names of those that cannot be
	// had. It is called only for a pod that names some, once for all containers that are launched together. Nil: there are
	// none.
	PullSecrets func(obj *corev1.Pod) (secrets []corev1.Secret, missing []string, err error)
	Spec        SpecBuilder
	// Begin is called when containers of a pod are about to be set up and started. It does not block. May be nil.
	Begin func()
	// Steps are taken in order and undone in reverse.
	Steps []Step
	// LogPath returns the file for the output of a container; its directory is created. Nil: there is no log.
	LogPath func(obj *corev1.Pod, container string, attempt int) string
	// LogMaxSize is the size at which the log is rotated, 0 for no limit. LogMaxFiles is how many files are kept.
	LogMaxSize  int64
	LogMaxFiles int
	// BeginLogs is called before that directory is created. May be nil.
	BeginLogs func(obj *corev1.Pod, container string, attempt int) error
	// Address returns the address of a pod by the record of its network: its status may have been changed by clients. It is
	// empty if the pod is reached from inside its network namespace. Nil: all are.
	Address func(obj *corev1.Pod) string
	// Report takes observations. It must neither block nor call the Pool.
	Report func([]duty.Observation)
	// Panicked is told of a panic in what is done for a pod. Nil: nobody is. The panic goes on when it returns.
	Panicked func(obj *corev1.Pod, reason any)
	// Parallel is how many pods are worked on at a time. Default: 16.
	Parallel int
	Logger   *slog.Logger
}

const defaultParallel = 16

// Images ensures that images are present locally.
type Images interface {
	// Ensure returns the image that ref names, and pulls it first where the policy asks for that, with the credentials
	// in secrets. Progress is called only when the image has to be pulled: once at the beginning, and then whenever
	// there is progress. It fails with ErrNotFound under PullNever and ErrInvalidArgument for a malformed reference;
	// any other error is one of the registry.
	Ensure(
		ctx context.Context, ref string, policy corev1.PullPolicy, secrets *runtime.PullSecrets, progress func(string),
	) (runtime.Image, error)
}

// SpecBuilder builds the OCI spec of a container. Its errors are shown as CreateContainerConfigError, and
// oci.ErrNoCommand as CreateContainerError.
type SpecBuilder interface {
	Spec(ctx context.Context, in SpecInput) (*specs.Spec, error)
}

// SpecInput is what the OCI spec of a container is built from.
type SpecInput struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	Attempt   int
	Image     runtime.Image
	// Volumes are the images that the container mounts, by the names of the volumes.
	Volumes map[string]runtime.Image
	Sandbox *Sandbox
	// Warn is called with the reason and the message of an event about the pod, which says what its user should know
	// although the container is started.
	Warn func(reason, message string)
}
