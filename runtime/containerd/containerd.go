// Package containerd runs containers with an embedded containerd, which keeps images, snapshots and container objects,
// and with our shards in the place of its task manager, which keep the containers themselves and outlive this process.
//
// A container is recorded in three places, written in this order and removed in the opposite one: the container object
// with its snapshot (one transaction of containerd's database), the record of its start (its shard), and what is known
// here in memory, which is rebuilt from the other two.
//
// Everything that it keeps on the host is in ROOT/containerd and in STATE, below the control group of the root, and in
// the default AppArmor profile of the root; Clean removes it.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// namespace is the containerd namespace that holds everything of jobd's.
const namespace = "jobd"

// Config says what directories and programs a runtime uses.
type Config struct {
	Root  string // the daemon's: see layout.Root
	State string // the daemon's: see layout.State
	// CgroupParent holds the control groups of pods and containers: runtime.CgroupParent(Root).
	CgroupParent string
	// OCIRuntime is the OCI runtime of pods that name none: a handler or a path. Empty: crun if it works here, or else
	// runc.
	OCIRuntime string
	// Handlers are further OCI runtimes by the names by which pods choose them. crun and runc need no entry where they
	// are installed.
	Handlers map[string]runtime.Handler
	// ShimPath is the binary of the shards.
	ShimPath string
	// RuntimeTimeout is how long one call of the OCI runtime may take. 0: as long as the shards allow.
	RuntimeTimeout time.Duration
	// Shards is the number of shards that new containers are spread over. 0: as many as there are CPUs, at least 2 and
	// at most 8.
	Shards int
	Logger *slog.Logger
}

// Runtime implements runtime.Runtime.
type Runtime struct {
	config Config
	logger *slog.Logger

	server   *embedded
	shards   *shards
	pins     *pins.Pins
	runtimes *runtimes
	oci      ociRuntime // of pods that name none
	filters  *filters
	passwd   passwdCache
	cgroups  cgroup.Hierarchies
	moves    *cgroup.Moves

	epoch string

	cleanup  sync.WaitGroup // what is done in the background
	discards chan struct{}  // holds one element for each snapshot that is being removed

	mu         sync.Mutex
	containers map[string]*container
	onExit     func(runtime.Status)
}

// container is what is known about a container. Status and speakers are guarded by Runtime.mu; busy is held while it is
// started or removed.
type container struct {
	status   runtime.Status
	shard    int
	reported bool
	removed  bool
	ended    chan struct{}
	busy     sync.Mutex
	speakers []*shard.Process // who writes to its stdin
	// stopFilling calls its start off while its volumes are filled; nil: they are not.
	stopFilling context.CancelFunc

	stdinEnded bool // by one of them
}

// Open boots containerd, connects to the shards or starts them, and finds every container again. What an earlier
// process left half done is finished in the background.
func Open(ctx context.Context, c Config) (_ *Runtime, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("containers need root: %w", errdefs.ErrPermissionDenied)
	}
	if c.Shards <= 0 {
		c.Shards = min(max(goruntime.NumCPU(), 2), 8)
	}
	for _, dir := range []string{c.Root, c.State} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("containers: %w", err)
		}
	}
	if err := removeProbes(c.State); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	r := &Runtime{config: c, logger: c.Logger, containers: map[string]*container{}, discards: make(chan struct{}, 16)}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.epoch, err = readEpoch(ctx, layout.Root(c.Root), layout.State(c.State)); err != nil {
		return nil, err
	}
	if r.cgroups, err = cgroup.Find(); err != nil {
		return nil, err
	}
	if r.moves, err = cgroup.OpenMoves(); err != nil {
		c.Logger.Info("the first container after a pause starts some milliseconds later", "error", err)
	}
	// The processes of the shards start while containerd boots.
	launched := make(chan error, 1)
	go func() {
		var err error
		r.shards, err = openShards(ctx, c, r.ended)
		if err == nil {
			r.pins, err = pins.Open(layout.State(c.State), !r.shards.can(protocol.CanFindPins), c.Logger)
		}
		if err == nil {
			r.runtimes = &runtimes{config: c, shards: r.shards, tested: map[string]ociRuntime{}}
			r.oci, err = r.runtimes.choose(ctx)
		}
		if err == nil {
			r.filters, err = newFilters(c, r.shards)
		}
		launched <- err
	}()
	r.server, err = boot(c, r)
	if shardErr := <-launched; shardErr != nil {
		return nil, shardErr
	}
	if err != nil {
		return nil, err
	}
	crash.At("recover.shards")
	if err := r.recover(ctx); err != nil {
		return nil, err
	}
	if err := r.server.serve(); err != nil {
		return nil, err
	}
	return r, nil
}

// Describe returns, for people to read, what runs containers here and why it was chosen.
func (r *Runtime) Describe() string {
	release, _, _ := strings.Cut(version.Version, "+") // without its revision, which a library does not have
	return fmt.Sprintf("containerd %s with %s, snapshots by %s", release, r.oci, r.server.snapshotter)
}

// Epoch returns the name of this life of the state directory. Containers of another one have ended, and nothing is
// known of them.
func (r *Runtime) Epoch() string { return r.epoch }

// Client returns containerd's own client, for what concerns images. Its stores need a context with its default
// namespace, which is jobd's.
func (r *Runtime) Client() *client.Client { return r.server.client }

// Snapshotter returns the name of the snapshotter that images have to be unpacked with.
func (r *Runtime) Snapshotter() string { return r.server.snapshotter }

// OnExit sets the function that is called at each exit.
func (r *Runtime) OnExit(f func(runtime.Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onExit = f
}

// Containers lists every container that is held.
func (r *Runtime) Containers(context.Context) ([]runtime.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]runtime.Status, 0, len(r.containers))
	for _, c := range r.containers {
		out = append(out, c.status)
	}
	return out, nil
}

// CallOff ends the start of a container that is under way.
func (r *Runtime) CallOff(ctx context.Context, id string) error {
	r.mu.Lock()
	held := r.containers[id]
	r.mu.Unlock()
	err := error(errdefs.ErrNotFound)
	if held != nil {
		err = r.callOff(ctx, id, held)
	}
	if err != nil {
		return fmt.Errorf("call off container %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) callOff(ctx context.Context, id string, held *container) error {
	r.mu.Lock()
	stop := held.stopFilling
	r.mu.Unlock()
	if stop != nil {
		stop()
		return nil
	}
	return r.shards.at(held.shard).CallOff(ctx, id)
}

// Signal sends a signal to a container's first process, or to all of them.
func (r *Runtime) Signal(ctx context.Context, id string, sig syscall.Signal, all bool) error {
	c, err := r.running(id)
	if err == nil {
		err = r.shards.at(c.shard).Signal(ctx, id, sig, all)
	}
	if err == nil && sig == syscall.SIGKILL {
		r.release(r.podOf(c), id)
	}
	if err != nil {
		return fmt.Errorf("signal container %s: %w", id, err)
	}
	return nil
}

// SignalOnce sends a signal to a container's first process, unless its shard has done so before.
func (r *Runtime) SignalOnce(ctx context.Context, id string, sig syscall.Signal) error {
	c, err := r.running(id)
	if err == nil {
		err = r.shards.at(c.shard).SignalOnce(ctx, id, sig)
	}
	if err != nil {
		return fmt.Errorf("signal container %s: %w", id, err)
	}
	return nil
}

// Written returns how much disk a container uses for what differs from its image. If the context ends meanwhile, it may be a part of that.
func (r *Runtime) Written(ctx context.Context, id string) (bytes, inodes int64, err error) {
	usage, err := r.server.snapshots().Usage(inNamespace(ctx), id)
	if err != nil {
		return usage.Size, usage.Inodes, fmt.Errorf("layer of container %s: %w", id, err)
	}
	return usage.Size, usage.Inodes, nil
}

// Close releases the containers, which live on in their shards, ends the shards that hold none, and stops containerd.
func (r *Runtime) Close() error {
	var err error
	if r.server != nil {
		r.server.cancel()
	}
	r.cleanup.Wait()
	if r.pins != nil {
		err = r.pins.Close()
	}
	if r.shards != nil {
		// The parent stays if anything is left in it.
		err = errors.Join(err, r.shards.close(), r.cgroups.Prune(r.config.CgroupParent),
			r.cgroups.Prune(runtime.ShardCgroup(r.config.Root)))
	}
	if r.server != nil {
		r.server.stop()
	}
	return errors.Join(err, r.moves.Close())
}

// Expect says that a container is about to be started, or a process in one.
func (r *Runtime) Expect() { r.moves.Expect() }

// Pins keep the namespaces of pods that containers are started in. They are closed with the runtime.
func (r *Runtime) Pins() *pins.Pins { return r.pins }

func inNamespace(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, namespace)
}
