package containerd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/cmd/containerd/server"
	srvconfig "github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/services"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay/overlayutils"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"

	_ "github.com/containerd/containerd/v2/plugins/content/local/plugin"
	_ "github.com/containerd/containerd/v2/plugins/events"
	_ "github.com/containerd/containerd/v2/plugins/gc"
	_ "github.com/containerd/containerd/v2/plugins/leases"
	_ "github.com/containerd/containerd/v2/plugins/mount"
	_ "github.com/containerd/containerd/v2/plugins/server/grpc"
	_ "github.com/containerd/containerd/v2/plugins/services/containers"
	_ "github.com/containerd/containerd/v2/plugins/services/content"
	_ "github.com/containerd/containerd/v2/plugins/services/diff"
	_ "github.com/containerd/containerd/v2/plugins/services/events"
	_ "github.com/containerd/containerd/v2/plugins/services/healthcheck"
	_ "github.com/containerd/containerd/v2/plugins/services/images"
	_ "github.com/containerd/containerd/v2/plugins/services/introspection"
	_ "github.com/containerd/containerd/v2/plugins/services/leases"
	_ "github.com/containerd/containerd/v2/plugins/services/mounts"
	_ "github.com/containerd/containerd/v2/plugins/services/namespaces"
	_ "github.com/containerd/containerd/v2/plugins/services/sandbox"
	_ "github.com/containerd/containerd/v2/plugins/services/snapshots"
	_ "github.com/containerd/containerd/v2/plugins/services/streaming"
	_ "github.com/containerd/containerd/v2/plugins/services/tasks"
	_ "github.com/containerd/containerd/v2/plugins/services/transfer"
	_ "github.com/containerd/containerd/v2/plugins/services/version"
	_ "github.com/containerd/containerd/v2/plugins/services/warning"
	_ "github.com/containerd/containerd/v2/plugins/streaming"
	_ "github.com/containerd/containerd/v2/plugins/transfer"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
)

// unusedPlugins are plugins that come with packages needed for others. The metrics of gRPC are registered process-wide,
// which would allow only one containerd for each process.
var unusedPlugins = []string{
	"io.containerd.metrics.v1.grpc-prometheus",
	"io.containerd.metrics.v1.grpc-otel",
	"io.containerd.server.v1.grpc-tcp",
	"io.containerd.grpc.v1.sandbox-controllers",
}

const collectorType plugin.Type = "dev.jobd.v1"

// embedded is a containerd in this process.
type embedded struct {
	server      *server.Server
	cancel      context.CancelFunc
	client      *client.Client
	db          *metadata.DB
	database    *database
	databaseDir string
	epoch       string
	commits     commits
	snapshotter string
	layers      *layers
	address     string
	ctx         context.Context
	runtime     *Runtime
	up          atomic.Bool
}

type hostKey struct{}

// host is the embedded containerd that a plugin is initialised for. containerd has one registry of plugins for the
// whole process; what distinguishes two containerds in it travels in the context.
func host(ic *plugin.InitContext) (*embedded, error) {
	e, ok := ic.Context.Value(hostKey{}).(*embedded)
	if !ok {
		return nil, fmt.Errorf("not a containerd of jobd's: %w", errdefs.ErrFailedPrecondition)
	}
	return e, nil
}

func init() {
	registry.Register(&plugin.Registration{
		Type:     plugins.RuntimePluginV2,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			e, err := host(ic)
			if err != nil {
				return nil, err
			}
			return &tasks{runtime: e.runtime}, nil
		},
	})
	for _, name := range []string{overlayfs, native} {
		registry.Register(&plugin.Registration{
			Type: plugins.SnapshotPlugin,
			ID:   name,
			InitFn: func(ic *plugin.InitContext) (any, error) {
				e, err := host(ic)
				if err != nil {
					return nil, err
				}
				if name != e.snapshotter {
					return nil, plugin.ErrSkipPlugin
				}
				ic.Meta.Platforms = append(ic.Meta.Platforms, platforms.DefaultSpec())
				ic.Meta.Exports[plugins.SnapshotterRootDir] = ic.Properties[plugins.PropertyRootDir]
				e.layers, err = openLayers(name, ic.Properties[plugins.PropertyRootDir], linksDir(e.databaseDir, e.epoch))
				return snapshots.Snapshotter(e.layers), err
			},
		})
	}
	registry.Register(&plugin.Registration{
		Type: collectorType,
		ID:   "client",
		Requires: []plugin.Type{
			plugins.EventPlugin, plugins.LeasePlugin, plugins.SandboxStorePlugin, plugins.TransferPlugin,
			plugins.MountManagerPlugin, plugins.ServicePlugin, plugins.RuntimePluginV2, plugins.MetadataPlugin,
		},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			e, err := host(ic)
			if err != nil {
				return nil, err
			}
			db, err := ic.GetSingle(plugins.MetadataPlugin)
			if err != nil {
				return nil, err
			}
			e.db = db.(*metadata.DB)
			e.commits.update = e.updateVolatile
			service, err := ic.GetByID(plugins.ServicePlugin, services.SnapshotsService)
			if err != nil {
				return nil, err
			}
			// Clients on the socket use this map too.
			service.(map[string]snapshots.Snapshotter)[e.snapshotter] = e.commits.snapshots.forImages(e.snapshots())
			e.client, err = client.New("", client.WithDefaultNamespace(namespace),
				client.WithDefaultPlatform(platforms.Default()), client.WithInMemoryServices(ic))
			return e, err
		},
	})
}

// boot starts containerd, but does not open its socket.
func boot(c Config, r *Runtime) (_ *embedded, err error) {
	state := layout.State(c.State)
	e := &embedded{
		runtime:     r,
		snapshotter: overlayfs,
		address:     state.ContainerdSocket(),
		databaseDir: state.Containerd(),
		epoch:       r.epoch,
	}
	config := &srvconfig.Config{
		Version:         version.ConfigVersion,
		Root:            layout.Root(c.Root).Containerd(),
		State:           state.Containerd(),
		DisabledPlugins: unusedPlugins,
		RequiredPlugins: []string{
			"io.containerd.metadata.v1.bolt", "io.containerd.service.v1.tasks-service",
			"io.containerd.server.v1.grpc", string(collectorType) + ".client",
		},
		Plugins: map[string]any{
			"io.containerd.server.v1.grpc": map[string]any{"address": e.address},
			// The collector runs neither while everything else starts nor after every few containers, whose layers it
			// does not collect.
			"io.containerd.gc.v1.scheduler": map[string]any{"startup_delay": "10s", "mutation_threshold": 10000},
			// Layers are on disk before anything refers to them: a power cut must not leave empty files in them.
			"io.containerd.service.v1.diff-service": map[string]any{"default": []string{unpacker}, "sync_fs": true},
		},
	}
	if err := server.CreateTopLevelDirectories(config); err != nil {
		return nil, fmt.Errorf("boot containerd: %w", err)
	}
	// The check makes a few files. When the disk is full, it says nothing about the kernel, and overlayfs is assumed.
	if err := overlayutils.Supported(config.Root); err != nil && !files.Full(err) {
		e.snapshotter = native
		c.Logger.Warn("cannot mount overlayfs: images are copied for each container, which is slow and takes space",
			"path", config.Root, "error", err, "help", "mount a disk there, or a volume if this is a container, or choose another --root")
	}
	// By default, this plugin wants overlayfs, and without it containerd does not start.
	config.Plugins["io.containerd.transfer.v1.local"] = map[string]any{"unpack_config": []map[string]any{
		{"platform": platforms.Format(platforms.DefaultSpec()), "snapshotter": e.snapshotter, "differ": defaults.DefaultDiffer},
	}}
	e.ctx, e.cancel = context.WithCancel(context.WithValue(withLogger(context.Background(), c.Logger, &e.up), hostKey{}, e))
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	if e.server, err = server.New(e.ctx, config); err != nil {
		return nil, fmt.Errorf("boot containerd: %w", err)
	}
	e.up.Store(true)
	return e, e.prepareNamespace()
}

// prepareNamespace creates the namespace and sets its default snapshotter.
func (e *embedded) prepareNamespace() error {
	ctx := inNamespace(e.ctx)
	store := e.client.NamespaceService()
	names, err := store.List(ctx)
	if err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	if !slices.Contains(names, namespace) {
		if err := store.Create(ctx, namespace, nil); err != nil {
			return fmt.Errorf("containerd: %w", err)
		}
	}
	labels, err := store.Labels(ctx, namespace)
	if err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	chosen := labels[defaults.DefaultSnapshotterNSLabel]
	if chosen == e.snapshotter || chosen == "" && e.snapshotter == overlayfs {
		return nil
	}
	if err := store.SetLabel(ctx, namespace, defaults.DefaultSnapshotterNSLabel, e.snapshotter); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	return nil
}

// containers returns the store of container objects. It can be used within a transaction, unlike the store that clients
// use, which opens its own.
func (e *embedded) containers() containers.Store { return metadata.NewContainerStore(e.db) }

// snapshots returns the snapshotter, which can be used within a transaction too.
func (e *embedded) snapshots() snapshots.Snapshotter { return e.db.Snapshotter(e.snapshotter) }

// serve opens the socket, for ctr and the like.
func (e *embedded) serve() error {
	if err := e.server.Start(e.ctx); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	if err := os.Chmod(e.address, 0o600); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	return nil
}

func (e *embedded) stop() {
	e.up.Store(false)
	e.cancel()
	if e.server != nil {
		e.server.Stop()
	}
}
