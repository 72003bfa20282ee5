package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/oci"
)

// starting is the start of one container, and what was observed of it so far.
type starting struct {
	*launch
	pool   *Pool
	pod    *corev1.Pod
	worker *worker
	spec   *corev1.Container
	about  duty.Observation // of this container
	seen   []duty.Observation
}

// failure is why a container was not started: the reason and the message of its Waiting state.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }

// errDropped says that a start was called off before it had an effect.
var errDropped = errors.New("called off")

// start starts one container and returns what was observed.
func (p *Pool) start(obj *corev1.Pod, w *worker, l *launch) []duty.Observation {
	s := &starting{
		launch: l, pool: p, pod: obj, worker: w, spec: podspec.Find(&obj.Spec, l.container),
		about: duty.Observation{Container: l.container, Attempt: l.attempt, At: time.Now()},
	}
	err := s.run()
	switch f := (*failure)(nil); {
	case errors.Is(err, errDropped):
		s.about.What = duty.Dropped
	case errors.As(err, &f):
		s.about.What, s.about.Reason, s.about.Message = duty.StartFailed, f.reason, f.Error()
	}
	return append(s.seen, s.about)
}

// run takes one step of a start after the other, each of which finds what it has left at an earlier attempt.
func (s *starting) run() error {
	if s.isCalledOff() {
		return errDropped
	}
	volumes, err := s.images()
	if err != nil {
		return err
	}
	crash.At("launch.spec.before")
	spec, err := s.configure(volumes)
	if err != nil {
		return err
	}
	request := s.request(spec)
	crash.At("launch.spec.after")
	if err := s.beginLog(&request); err != nil {
		return err
	}
	if err := s.removeBefore(); err != nil {
		return err
	}
	if s.isCalledOff() {
		return errDropped
	}
	crash.At("launch.start.before")
	status, err := s.begin(request)
	if err != nil {
		return err
	}
	crash.At("launch.start.after")
	return s.observe(status)
}

func (s *starting) isCalledOff() bool { return s.pool.calledOff(s.launch) }

// images notes the images that were pulled, and returns those of volumes by the volumes' names.
func (s *starting) images() (map[string]runtime.Image, error) {
	if s.err != nil {
		if errors.Is(s.err, context.Canceled) && s.isCalledOff() {
			return nil, errDropped
		}
		s.about.Volume = s.failed.volume
		return nil, imageFailure(s.failed, s.err)
	}
	volumes := map[string]runtime.Image{}
	for _, image := range append(s.volumes, s.image) {
		pulled := s.about
		pulled.What, pulled.Image, pulled.Took, pulled.Volume = duty.Pulled, image.Image, image.took, image.volume
		s.seen = append(s.seen, pulled)
		if image.volume != "" {
			volumes[image.volume] = image.Image
		}
	}
	return volumes, nil
}

// configure makes the spec of the container for the OCI runtime.
func (s *starting) configure(volumes map[string]runtime.Image) (spec *specs.Spec, err error) {
	doubt := func(reason, message string) {
		s.seen = append(s.seen, duty.Observation{What: duty.Doubted, Reason: reason, Message: message})
	}
	s.pool.take(s.pod, s.worker, "configuration of container "+s.spec.Name, func() {
		spec, err = s.pool.config.Spec.Spec(s.ctx,
			SpecInput{s.pod, s.spec, s.attempt, s.image.Image, volumes, s.worker.sandbox, doubt})
	})
	switch {
	case errors.Is(err, oci.ErrNoCommand):
		return nil, &failure{duty.CreateContainer, err}
	case err != nil:
		return nil, &failure{duty.CreateContainerConfig, err}
	}
	return spec, nil
}

func (s *starting) request(spec *specs.Spec) runtime.Container {
	handler := runtime.Handler{}
	if s.worker.sandbox.Handler != nil {
		handler = *s.worker.sandbox.Handler
	}
	return runtime.Container{
		ID: containerID(s.pod, s.spec.Name, s.attempt), PodUID: string(s.pod.UID), Name: s.spec.Name, Attempt: s.attempt,
		Image: s.image.Image, Handler: handler, Spec: spec, Stdin: s.spec.Stdin, StdinOnce: s.spec.StdinOnce,
		Alone: alone(s.pod, s.worker.sandbox), Joins: podspec.FindEphemeral(&s.pod.Spec, s.spec.Name) != nil,
	}
}

// beginLog makes the directory of the container's log, where there are logs.
func (s *starting) beginLog(request *runtime.Container) error {
	c := &s.pool.config
	if c.LogPath == nil {
		return nil
	}
	request.LogPath = c.LogPath(s.pod, s.spec.Name, s.attempt)
	request.LogMaxSize, request.LogMaxFiles = c.LogMaxSize, c.LogMaxFiles
	var err error
	if c.BeginLogs != nil {
		err = c.BeginLogs(s.pod, s.spec.Name, s.attempt)
	}
	if err == nil {
		err = files.MkdirAll(filepath.Dir(request.LogPath), 0o755)
	}
	if err != nil {
		return &failure{duty.CreateContainer, fmt.Errorf("directory of the log: %w", err)}
	}
	return nil
}

// removeBefore removes the container of the attempt before, whose end is stored, or this one would not have been asked for.
func (s *starting) removeBefore() (err error) {
	if s.attempt == 0 {
		return nil
	}
	crash.At("launch.attempt-before.before")
	before := containerID(s.pod, s.spec.Name, s.attempt-1)
	s.pool.take(s.pod, s.worker, "removal of container "+before, func() { err = s.pool.config.Runtime.Remove(s.pool.ctx, before) })
	if err != nil {
		return &failure{duty.CreateContainer, fmt.Errorf("remove the container of the attempt before: %w", err)}
	}
	return nil
}

// begin has the runtime start the container.
func (s *starting) begin(request runtime.Container) (status runtime.Status, err error) {
	p := s.pool
	p.follow(s.pod, s.spec, s.attempt)
	stop := p.giveUpLate(s.pod, s.launch, request.ID)
	p.take(s.pod, s.worker, "start of container "+s.spec.Name, func() { status, err = p.config.Runtime.Start(p.ctx, request) })
	stop()
	if err == nil {
		return status, nil
	}
	p.unfollow(request.ID)
	if errdefs.IsAborted(err) && s.isCalledOff() {
		return status, errDropped
	}
	if p.ctx.Err() == nil {
		p.log(s.pod).Warn("cannot start a container", "container", s.spec.Name, "error", err)
	}
	return status, &failure{duty.CreateContainer, err}
}

// observe notes what has become of the container.
func (s *starting) observe(status runtime.Status) error {
	p, id := s.pool, containerID(s.pod, s.spec.Name, s.attempt)
	s.about.At, s.about.Image, s.about.Status = time.Now(), s.image.Image, status
	if status.Image != "" && status.Image != s.image.Name {
		// A start before a crash has made it, and the pod was given another image since.
		s.about.Image = runtime.Image{Name: status.Image}
	}
	switch status.State {
	case runtime.Running:
		s.about.What, s.about.Resources = duty.Started, &s.spec.Resources
	case runtime.Exited:
		if diskFull(status) {
			if err := p.config.Runtime.Remove(p.ctx, id); err != nil {
				return &failure{duty.CreateContainer, fmt.Errorf("remove what the disk had no room for: %w", err)}
			}
			return &failure{duty.CreateContainer, errors.New(status.StartError)}
		}
		s.about.What = duty.Exited
		s.about.Status.Message = p.terminationMessage(status, p.tailed(s.pod, s.spec, s.attempt))
	case runtime.Lost:
		s.about.What = duty.Lost
	default:
		return &failure{duty.CreateContainer, fmt.Errorf("container %s is %s after its start", id, status.State)}
	}
	return nil
}

// diskFull reports whether a container could not be started because the disk was full. That is no fault of its own, so
// it is started again later. The only sign of it is the OCI runtime's message, which ends with the words of the
// kernel's error; names that are quoted earlier in the message may contain anything.
func diskFull(s runtime.Status) bool {
	return strings.HasSuffix(strings.ToLower(strings.TrimSpace(s.StartError)), ": "+syscall.ENOSPC.Error())
}

// imageFailure says that an image cannot be had.
func imageFailure(need neededImage, err error) *failure {
	switch {
	case need.policy == corev1.PullNever && errdefs.IsNotFound(err):
		// These are a kubelet's words.
		return &failure{duty.ErrImageNeverPull, fmt.Errorf("Container image %q is not present with pull policy of Never", need.ref)}
	case errdefs.IsInvalidArgument(err):
		return &failure{duty.InvalidImageName, err}
	}
	return &failure{duty.ErrImagePull, err}
}
