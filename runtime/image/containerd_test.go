package image

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/cmd/containerd/server"
	srvconfig "github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/services"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"

	_ "github.com/containerd/containerd/v2/plugins/content/local/plugin"
	_ "github.com/containerd/containerd/v2/plugins/diff/walking/plugin"
	_ "github.com/containerd/containerd/v2/plugins/events"
	_ "github.com/containerd/containerd/v2/plugins/gc"
	_ "github.com/containerd/containerd/v2/plugins/leases"
	_ "github.com/containerd/containerd/v2/plugins/metadata"
	_ "github.com/containerd/containerd/v2/plugins/mount"

	_ "github.com/containerd/containerd/v2/plugins/services/containers"
	_ "github.com/containerd/containerd/v2/plugins/services/content"
	_ "github.com/containerd/containerd/v2/plugins/services/diff"
	_ "github.com/containerd/containerd/v2/plugins/services/events"
	_ "github.com/containerd/containerd/v2/plugins/services/images"
	_ "github.com/containerd/containerd/v2/plugins/services/introspection"
	_ "github.com/containerd/containerd/v2/plugins/services/leases"
	_ "github.com/containerd/containerd/v2/plugins/services/mounts"
	_ "github.com/containerd/containerd/v2/plugins/services/namespaces"
	_ "github.com/containerd/containerd/v2/plugins/services/sandbox"
	_ "github.com/containerd/containerd/v2/plugins/services/snapshots"
	_ "github.com/containerd/containerd/v2/plugins/snapshots/overlay/plugin"
	_ "github.com/containerd/containerd/v2/plugins/transfer"
)

// clients hands the client of each containerd to the test that started it, by root directory.
var clients sync.Map

// namespace is where the tests keep everything in containerd.
const namespace = "jobd"

func TestMain(m *testing.M) {
	_ = log.SetLevel("panic") // containerd's collector complains when its database is closed under it
	// The client wants a service of tasks to be there; no test of images has one.
	registry.Register(&plugin.Registration{
		Type: plugins.ServicePlugin, ID: services.TasksService,
		InitFn: func(*plugin.InitContext) (any, error) { return struct{ tasks.TasksClient }{}, nil },
	})
	registry.Register(&plugin.Registration{
		Type: "io.jobd.test", ID: "client",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.LeasePlugin, plugins.MountManagerPlugin, plugins.ServicePlugin,
			plugins.SandboxStorePlugin, plugins.TransferPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			c, err := client.New("", client.WithDefaultNamespace(namespace), client.WithInMemoryServices(ic))
			if err != nil {
				return nil, err
			}
			clients.Store(filepath.Dir(ic.Properties[plugins.PropertyRootDir]), c)
			return c, nil
		},
	})
	os.Exit(m.Run())
}

// newImages starts a containerd without tasks for one test. Credentials of the machine's user are kept out.
func newImages(t testing.TB, o Options) *Images {
	t.Helper()
	return newImagesAt(t, t.TempDir(), o)
}

// newImagesAt keeps everything in a directory.
func newImagesAt(t testing.TB, root string, o Options) *Images {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short, for overlay mounts")
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	config := &srvconfig.Config{Version: version.ConfigVersion, Root: filepath.Join(root, "root"), State: filepath.Join(root, "state")}
	if err := server.CreateTopLevelDirectories(config); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c, ok := clients.LoadAndDelete(config.Root)
	if !ok {
		t.Fatal("containerd started without a client")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return New(c.(*client.Client), o)
}
