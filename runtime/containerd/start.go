package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/selinux/go-selinux/label"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Labels of container objects. Most are a kubelet's, so that tools know them.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
	labelContainer    = "io.kubernetes.container.name"
	labelAttempt      = "dev.jobd.attempt"
)

// runtimeName is the runtime that our container objects name.
const runtimeName = "dev.jobd.shard.v1"

// Start creates and starts a container, or finds that it has already been started.
func (r *Runtime) Start(ctx context.Context, c runtime.Container) (runtime.Status, error) {
	status, err := r.start(ctx, c)
	if err != nil {
		return status, fmt.Errorf("start container %s: %w", c.ID, err)
	}
	return status, nil
}

func (r *Runtime) start(ctx context.Context, c runtime.Container) (runtime.Status, error) {
	r.mu.Lock()
	held, known := r.containers[c.ID]
	if !known {
		held = &container{
			shard: r.shards.of(c.PodUID),
			ended: make(chan struct{}),
			status: runtime.Status{
				ID: c.ID, PodUID: c.PodUID, Name: c.Name, Attempt: c.Attempt, State: runtime.Created,
				Image: c.Image.Name,
			},
		}
		r.containers[c.ID] = held
	}
	r.mu.Unlock()

	held.busy.Lock()
	defer held.busy.Unlock()
	r.mu.Lock()
	status, removed := held.status, held.removed
	r.mu.Unlock()
	switch {
	case removed:
		return status, fmt.Errorf("it is being removed: %w", errdefs.ErrUnavailable)
	case status.State != runtime.Created:
		return status, nil
	}

	made, err := r.create(inNamespace(ctx), c, held.shard)
	if err != nil {
		if !known {
			r.mu.Lock()
			held.removed = true
			delete(r.containers, c.ID)
			r.mu.Unlock()
		}
		return status, err
	}
	r.mu.Lock()
	held.status.User = made.user
	r.mu.Unlock()
	if context := label.FormatMountLabel("", c.Spec.Linux.MountLabel); context != "" && len(made.rootfs) > 0 {
		last := &made.rootfs[len(made.rootfs)-1]
		last.Options = append(slices.Clone(last.Options), context)
	}
	crash.At("container.created")
	if err := r.fillVolumes(ctx, c, held, made.rootfs); err != nil {
		return status, err
	}
	if c.Joins {
		if err := r.keepLayers(c.PodUID); err != nil {
			return status, err
		}
	}
	pinned, err := r.pinsOf(c.Spec)
	if err != nil {
		return status, err
	}
	hosted := r.hostOf(c.Spec)
	if hosted != nil && made.by.Foreign {
		return status, fmt.Errorf("%s cannot run commands of the host, only crun and runc can: %w", made.by.Path, errdefs.ErrFailedPrecondition)
	}
	login, err := loginOf(c.Spec)
	if err != nil {
		return status, err
	}
	s := r.shards.at(held.shard)
	start := protocol.Start{
		ID:          c.ID,
		Spec:        made.spec,
		Facts:       made.facts,
		Pins:        pinned,
		Host:        hosted,
		Login:       login,
		Rootfs:      made.rootfs,
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		LogPath:     c.LogPath,
		LogMaxSize:  c.LogMaxSize,
		LogMaxFiles: c.LogMaxFiles,
		MessagePath: c.Spec.Annotations[oci.AnnotationTerminationLog],

		Runtime:        made.by.Path,
		RuntimeArgs:    made.by.Args,
		ForeignRuntime: made.by.Foreign,
		RuntimeTimeout: r.config.RuntimeTimeout,
	}
	if err := checkShard(s, &start, c.Spec); err != nil {
		return status, err
	}
	started, err := s.Start(ctx, start)
	var failed *protocol.StartError
	switch {
	case errors.As(err, &failed):
		started = protocol.Container{ID: c.ID, State: protocol.Exited, ExitCode: 128, StartError: failed.Message}
	case err != nil:
		return status, err
	}
	return r.observe(held, started), nil
}

// checkShard returns an error if a shard cannot start a container since it is that of an older jobd.
func checkShard(s *shard.Shard, start *protocol.Start, spec *specs.Spec) error {
	lacks := ""
	switch {
	case start.Pins != nil && !s.Can(protocol.CanFindPins):
		lacks = "no namespaces that are pinned elsewhere than in the host's mounts"
	case (start.Stdin || spec.Process.Terminal) && !s.Can(protocol.CanAttach):
		lacks = "neither terminals nor stdin"
	case usersOf(spec).Size > 0 && !s.Can(protocol.CanMapUsers):
		lacks = "no user namespaces"
	case start.Host != nil && !s.Can(protocol.CanShowHost):
		lacks = "no commands of the host"
	case start.ForeignRuntime && !s.Can(protocol.CanRunForeign):
		lacks = "no OCI runtimes but crun and runc"
	default:
		return nil
	}
	return fmt.Errorf("its shard is of an older jobd and knows %s: "+
		"once it holds no more containers, a restart of the daemon replaces it: %w", lacks, errdefs.ErrUnavailable)
}

// pinsOf returns what leads a shard to the pinned namespaces of a spec; nil if it needs nothing for that.
func (r *Runtime) pinsOf(spec *specs.Spec) (*protocol.Pins, error) {
	var paths []string
	for _, n := range spec.Linux.Namespaces {
		hidden, err := r.pins.Hides(n.Path)
		if err != nil {
			return nil, fmt.Errorf("%s namespace of the pod: %w", n.Type, err)
		}
		if hidden {
			paths = append(paths, n.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return &protocol.Pins{In: r.pins.Mounts(), Paths: paths}, nil
}

// hostOf returns where the mounts of a spec find the host's files; nil if they do not look for them. They are shown without what is mounted
// for containers.
func (r *Runtime) hostOf(spec *specs.Spec) *protocol.Host {
	at := spec.Annotations[oci.AnnotationHost]
	if at == "" {
		return nil
	}
	real := func(dir string) string { // as mounts are listed
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			return found
		}
		return dir
	}
	return &protocol.Host{At: real(at), Without: []string{real(r.config.Root), real(r.config.State)}, Own: oci.OwnInRoot()}
}

// loginOf returns the user of the host whose container it is; nil if it is nobody's.
func loginOf(spec *specs.Spec) (*uint32, error) {
	text, ok := spec.Annotations[oci.AnnotationLogin]
	if !ok {
		return nil, nil
	}
	uid, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", oci.AnnotationLogin, errdefs.ErrInvalidArgument, err)
	}
	login := uint32(uid)
	return &login, nil
}

// keepLayers lets the layers of the containers of a pod be used by no others after them.
func (r *Runtime) keepLayers(podUID string) error {
	r.mu.Lock()
	var ids []string
	for id, c := range r.containers {
		if c.status.PodUID == podUID {
			ids = append(ids, id)
		}
	}
	r.mu.Unlock()
	for _, id := range ids {
		if err := r.server.layers.keep(id); err != nil {
			return err
		}
	}
	return nil
}

// created is a container that has its object and its snapshot.
type created struct {
	spec   []byte              // as the object has it
	facts  *protocol.SpecFacts // of the spec; nil: not known
	rootfs []protocol.Mount    // of the root file system
	by     startedBy           // the OCI runtime that the spec is for
	user   *runtime.User       // of its first process
}

// create makes a container's object and snapshot in one transaction, or finds both; in is the index of its shard.
func (r *Runtime) create(ctx context.Context, c runtime.Container, in int) (created, error) {
	store, snapshotter := r.server.containers(), r.server.snapshots()

	if have, err := store.Get(ctx, c.ID); err == nil {
		mounts, err := snapshotter.Mounts(ctx, have.SnapshotKey)
		if err != nil {
			return created{}, err
		}
		by, err := r.recordedRuntime(have.Runtime)
		return created{
			spec: have.Spec.GetValue(), rootfs: shardMounts(mounts), by: by, user: recordedUser(have.Spec),
		}, err
	} else if !errors.Is(err, errdefs.ErrNotFound) {
		return created{}, err
	}

	chosen := r.oci
	if c.Handler.Path != "" {
		var err error
		if chosen, err = r.runtimes.of(ctx, c.Handler); err != nil {
			return created{}, fmt.Errorf("OCI runtime: %w", err)
		}
	}
	by := startedBy{chosen.Path, chosen.Args, chosen.foreign()}
	if by.Foreign && usersOf(c.Spec).Size > 0 {
		return created{}, fmt.Errorf("%s cannot start containers of a pod with a user namespace of its own (hostUsers: false), "+
			"only crun and runc can: %w", by.Path, errdefs.ErrFailedPrecondition)
	}
	options, err := json.Marshal(by)
	if err != nil {
		return created{}, fmt.Errorf("encode OCI runtime: %w", err)
	}

	spec := *c.Spec
	process, root := *spec.Process, *spec.Root
	root.Path = protocol.RootfsDir // in the bundle, where the shard mounts it
	spec.Process, spec.Root = &process, &root
	if err := r.filters.apply(ctx, chosen, &spec); err != nil {
		return created{}, err
	}
	var encoded typeurl.Any
	var mounts []mount.Mount
	err = r.server.commits.run(ctx, func(ctx context.Context) (err error) {
		// This may be the second call, in which case what the first one made is not in the database.
		if err := r.server.layers.discard(ctx, c.ID); err != nil {
			return err
		}
		mounts, err = snapshotter.Prepare(forContainer(ctx, ofContainer{c.ID, in, c.Alone, spec.Mounts, usersOf(&spec)}), c.ID, c.Image.ChainID)
		if err != nil {
			return fmt.Errorf("snapshot of image %s: %w", c.Image.Name, err)
		}
		process.User = c.Spec.Process.User // of which the first call may have made what it refused
		if err := r.resolveUser(&spec, c.Image.ChainID, mounts); err != nil {
			return err
		}
		if err := keepApart(&spec, r.config.State, mounts); err != nil {
			return err
		}
		if encoded, err = encodeSpec(&spec); err != nil {
			return err
		}
		_, err = store.Create(ctx, containers.Container{
			ID:          c.ID,
			Labels:      r.labels(c),
			Image:       c.Image.Name,
			Runtime:     containers.RuntimeInfo{Name: runtimeName, Options: jsonAny{startedByURL, options}},
			Spec:        encoded,
			Snapshotter: r.server.snapshotter,
			SnapshotKey: c.ID,
		})
		return err
	})
	if err != nil {
		return created{}, errors.Join(err, r.server.layers.discard(ctx, c.ID))
	}
	r.server.layers.settle(c.ID)
	return created{encoded.GetValue(), protocol.FactsOf(&spec), shardMounts(mounts), by, userOf(&spec)}, nil
}

// userOf returns the user and groups of a container's first process, which have been looked up.
func userOf(spec *specs.Spec) *runtime.User {
	u := spec.Process.User
	return &runtime.User{UID: u.UID, GID: u.GID, Groups: u.AdditionalGids}
}

// recordedUser is userOf for the spec of a container's object; nil if that cannot be read.
func recordedUser(encoded typeurl.Any) *runtime.User {
	var spec struct{ Process struct{ User specs.User } } // the rest of it is long
	if encoded == nil || json.Unmarshal(encoded.GetValue(), &spec) != nil {
		return nil
	}
	return userOf(&specs.Spec{Process: &specs.Process{User: spec.Process.User}})
}

// startedBy is the OCI runtime of a container, as its object records it: the spec is made for this runtime, so a start
// that is repeated after the configuration was changed must not use another.
type startedBy struct {
	Path    string   `json:"path"`
	Args    []string `json:"args,omitempty"`
	Foreign bool     `json:"foreign,omitempty"` // see ociRuntime
}

const startedByURL = "types.jobd.dev/oci-runtime"

// recordedRuntime returns the OCI runtime that a container's object records. Older objects have no record: their
// containers are all started by the runtime of pods that name none.
func (r *Runtime) recordedRuntime(info containers.RuntimeInfo) (startedBy, error) {
	if info.Options == nil {
		return startedBy{r.oci.Path, r.oci.Args, r.oci.foreign()}, nil
	}
	var by startedBy
	if err := json.Unmarshal(info.Options.GetValue(), &by); err != nil {
		return by, fmt.Errorf("OCI runtime of the container: %w", err)
	}
	return by, nil
}

// usersOf returns the mapping of users, and of groups, of a container's own user namespace. Without one, Size is 0.
func usersOf(spec *specs.Spec) specs.LinuxIDMapping {
	if spec.Linux == nil || len(spec.Linux.UIDMappings) == 0 {
		return specs.LinuxIDMapping{}
	}
	return spec.Linux.UIDMappings[0]
}

func encodeSpec(spec *specs.Spec) (typeurl.Any, error) {
	// This is what typeurl does for the type that containerd knows, whose init function is not part of this program.
	value, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	return jsonAny{specURL, value}, nil
}

// specURL is the name by which ctr and others decode a spec in JSON.
const specURL = "types.containerd.io/opencontainers/runtime-spec/1/Spec"

// jsonAny is a value in JSON with the name of its type.
type jsonAny struct {
	url   string
	value []byte
}

func (a jsonAny) GetTypeUrl() string { return a.url }
func (a jsonAny) GetValue() []byte   { return a.value }

func (r *Runtime) labels(c runtime.Container) map[string]string {
	return map[string]string{
		labelPodName:      c.Spec.Annotations[oci.AnnotationPodName],
		labelPodNamespace: c.Spec.Annotations[oci.AnnotationPodNamespace],
		labelPodUID:       c.PodUID,
		labelContainer:    c.Name,
		labelAttempt:      strconv.Itoa(c.Attempt),
	}
}

func shardMounts(mounts []mount.Mount) []protocol.Mount {
	out := make([]protocol.Mount, len(mounts))
	for i, m := range mounts {
		out[i] = protocol.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options}
	}
	return out
}

// ended is called when a shard reports the end of a container.
func (r *Runtime) ended(_ int, s protocol.Container) {
	r.mu.Lock()
	held := r.containers[s.ID]
	r.mu.Unlock()
	if held != nil {
		r.observe(held, s)
	}
}

// observe folds what a shard says into what is known, and reports an end once. Whatever comes after the end is ignored.
func (r *Runtime) observe(held *container, s protocol.Container) runtime.Status {
	r.mu.Lock()
	was := held.status.State
	if was != runtime.Exited && was != runtime.Lost {
		fold(&held.status, s)
	}
	status, onExit := held.status, r.onExit
	end := status.State == runtime.Exited || status.State == runtime.Lost
	report := end && !held.reported && !held.removed
	if end && !held.reported {
		held.reported = true
		close(held.ended)
	}
	r.mu.Unlock()
	if report && onExit != nil {
		onExit(status)
	}
	return status
}

func fold(status *runtime.Status, s protocol.Container) {
	switch s.State {
	case protocol.Exited:
		status.State = runtime.Exited
	case protocol.Lost:
		status.State = runtime.Lost
	default:
		status.State = runtime.Running
	}
	if s.PID != 0 {
		status.PID = s.PID
	}
	status.StartedAt, status.FinishedAt = s.StartedAt, s.FinishedAt
	status.ExitCode, status.Signal, status.OOMKilled = s.ExitCode, s.Signal, s.OOMKilled
	status.StartError, status.Message = s.StartError, s.Message
	status.Used = runtime.Used{CPU: s.CPUTime, PeakMemory: s.PeakMemory}
}
