package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	goruntime "runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/disk"
	"github.com/jobd/jobd/daemon/memory"
	"github.com/jobd/jobd/daemon/names"
	"github.com/jobd/jobd/daemon/policies"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/daemon/sandbox"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/internal/nss"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/persistent"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/processes"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/runtime/userns"
	"github.com/jobd/jobd/runtime/volume"
	"github.com/jobd/jobd/store"
)

// containers is what runs the pods.
type containers struct {
	runtime  runtime.Runtime
	handlers []string // of RuntimeClasses
	workers  worker.Config
	api      *sandbox.API
	volumes  provision.Volumes
	kept     *persistent.Volumes // nil: they are only simulated
	files    *sandbox.PodFiles   // nil: they are only simulated
	epoch    string              // containers outlive the daemon only within the same epoch

	network *network.Network // nil: pods have none

	userNamespaces bool // pods can have some of their own

	// The images, and what keeps the disk free of them; nil if there are none to manage.
	images   *image.Images
	diskFull disk.Alarm // raised when the disk was too full for an image
	usage    disk.Usage
	left     *memory.Left // what pods that are gone have left in memory
}

// outside returns how much memory a pod holds in none of its control groups (memory.Memory.Outside).
func (k *containers) outside(ctx context.Context, p *corev1.Pod) (bytes int64, all bool) {
	sockets, all, err := k.network.SocketMemory(string(p.UID))
	files, failed := k.usage.Volumes.InMemory(ctx, p)
	return sockets + files, all && err == nil && failed == nil
}

// openContainers opens what runs the pods, and starts what they need to find each other.
func (d *daemon) openContainers(ctx context.Context, from sources) (*containers, error) {
	if d.config.Runtime == "simulated" {
		return d.openSimulated(from)
	}
	c, m := &d.config, from.machine
	limits, err := oci.ReadHost()
	if err != nil {
		return nil, err
	}
	warnOfHugePages(c.Logger, m.allocatable, limits)
	shim, err := c.ShimPath()
	if err != nil {
		return nil, err
	}
	d.onStop("what holds containers", d.shutdown.endHolders)
	r, err := d.openRuntime(ctx, m, shim)
	if err != nil {
		return nil, err
	}
	pods, err := d.openNetwork(from, r.Pins())
	if err != nil {
		return nil, err
	}
	users, err := openUserNamespaces(c, shim, r.Pins())
	if err != nil {
		return nil, err
	}
	api, err := d.openPodAPI(pods)
	if err != nil {
		return nil, err
	}
	nameServer := d.openNames(pods, from.machine.Name, from.store)
	enforcer := policies.Open(from.store, pods, c.Logger)
	d.beside(enforcer.Run)
	images, diskFull, err := d.openImages(r)
	if err != nil {
		return nil, err
	}
	files, err := openFiles(c, from, r, images)
	if err != nil {
		return nil, err
	}
	parent := runtime.CgroupParent(c.Root)
	cgroups, err := cgroup.OpenPods(parent)
	if err != nil {
		return nil, err
	}
	sysctls, err := c.Sysctls()
	if err != nil {
		return nil, err
	}
	_, logSize, err := c.LogSizes()
	if err != nil {
		return nil, err
	}
	shared := &processes.Processes{
		Dir: c.StateLayout().Processes(), Shim: shim, Cgroup: runtime.ShardCgroup(c.Root) + "/shard-0", Pins: r.Pins(),
	}
	commands := sandbox.HostCommands{
		Objects: files.objects, Files: c.StateLayout().Host(), Program: shim, Root: c.HostRoot, Lookup: nss.Lookup,
	}
	appArmor := containerd.OpenAppArmor(c.Root, c.Logger)
	left := memory.NewLeft(c.Logger)
	d.beside(left.Run)
	groups := sandbox.PodGroups{Groups: cgroups, Pids: c.PodMaxPids, Host: limits, Left: left}
	usage := disk.Usage{Runtime: r, Volumes: files.volumes, LogPath: from.logs.Path}
	return &containers{
		runtime: r, handlers: r.Handlers(), api: api, epoch: r.Epoch(), network: pods,
		volumes: provision.OnDisk(files.claims.Volumes), kept: files.claims.Volumes,
		files:  &sandbox.PodFiles{Claims: files.claims, Volumes: files.volumes, Roots: r},
		images: images, diskFull: diskFull, usage: usage, left: left,
		userNamespaces: users.Supported() == nil,
		workers: worker.Config{
			Runtime:     r,
			Images:      sandbox.HostImages{Images: images},
			PullSecrets: files.objects.PullSecrets,
			Begin:       r.Expect,
			Address: func(obj *corev1.Pod) string {
				if at := pods.AddressOf(obj); at.IsValid() {
					return at.String()
				}
				return ""
			},
			Spec: sandbox.Specs{
				API: api, Runtime: r, Volumes: files.volumes, Host: limits, Cgroups: parent, PodGroups: groups, Node: files.node,
				Sysctls:    sysctls,
				SeccompDir: c.RootLayout().Seccomp(), SeccompDefault: c.SeccompDefault, Profiles: oci.NewProfiles(),
				DropNetRaw: c.DropNetRaw, Limited: files.objects.Limited,
				AppArmor: appArmor, SELinux: sandbox.SELinux(),
				Devices: m.devices, PidsLimit: m.floors.containerPids(c.PidsLimit),
				NameServer: nameServer, Services: files.objects.Services, Processes: shared,
				Commands: commands,
			},
			Steps: []worker.Step{
				sandbox.HostUser(commands),
				sandbox.RuntimeClass(files.objects, r, c.StateLayout().Handlers()),
				sandbox.AppArmor(appArmor),
				sandbox.Devices(m.devices),
				groups.Step(),
				sandbox.UserNamespace(users, c.UserNamespaces == config.UserNamespacesDefault, pods),
				sandbox.Network(pods, left),
				sandbox.NetworkPolicies(enforcer),
				sandbox.Processes(shared),
				sandbox.Volumes(files.volumes, usage.OverLimit),
			},
			LogPath: from.logs.Path, BeginLogs: from.logs.Begin,
			LogMaxSize: logSize, LogMaxFiles: c.ContainerLogMaxFiles,
			Report:   from.inbox.Report,
			Parallel: 8 * goruntime.GOMAXPROCS(0),
			Logger:   c.Logger,
		},
	}, nil
}

// openRuntime opens what starts containers and finds those that run.
func (d *daemon) openRuntime(ctx context.Context, m *machine, shim string) (*containerd.Runtime, error) {
	c := &d.config
	if err := containerd.KeepMountsIn(c.State); err != nil {
		return nil, err
	}
	r, err := containerd.Open(ctx, containerd.Config{
		Root: c.Root, State: c.State, CgroupParent: runtime.CgroupParent(c.Root), OCIRuntime: c.OCIRuntime,
		Handlers: c.RuntimeHandlers, ShimPath: shim, RuntimeTimeout: c.RuntimeRequestTimeout.Duration, Logger: c.Logger,
	})
	if err != nil {
		return nil, err
	}
	d.onStop(d.closing("the runtime", r))
	d.serving.Runtime = r.Describe()
	m.floors.keep(c.Root, c.Logger)
	if err := weighPods(c, c.Logger); err != nil {
		return nil, err
	}
	warnOfMissingRuntimes(c)
	return r, nil
}

// openImages opens the images, and what is raised when the disk is too full for one.
func (d *daemon) openImages(r *containerd.Runtime) (*image.Images, disk.Alarm, error) {
	c, full := &d.config, disk.NewAlarm()
	thresholds, err := c.Eviction()
	if err != nil {
		return nil, full, err
	}
	engines, err := c.Engines()
	if err != nil {
		return nil, full, err
	}
	images := image.New(r.Client(), image.Options{
		Snapshotter:      r.Snapshotter(),
		DockerConfigPath: c.RootLayout().DockerConfig(),
		HostsDir:         c.RegistryHosts,
		Engines:          engines,
		Space:            disk.ImageSpace(c.Root, thresholds.Disk),
		DiskFull:         full.Raise,
		Logger:           c.Logger,
	})
	// Forgets what is remembered of images when others change them.
	d.run("image watch", images.Watch)
	return images, full, nil
}

// podFiles are what the files of pods come from.
type podFiles struct {
	objects sandbox.Objects
	claims  sandbox.Claims
	node    volume.Node
	volumes *volume.Volumes
}

func openFiles(c *config.Config, from sources, r *containerd.Runtime, images *image.Images) (f podFiles, err error) {
	m := from.machine
	users := nss.NewCache(nss.Lookup) // apart from that of the API: a pod asks several times
	f.objects = sandbox.Objects{Store: from.store, Security: from.security, Lookup: func(ctx context.Context, uid uint32) (nss.User, error) {
		u, _, err := users.Of(ctx, uid)
		return u, err
	}}
	kept, err := persistent.New(c.Root, c.State)
	if err != nil {
		return f, err
	}
	f.claims = sandbox.Claims{Objects: f.objects, Volumes: kept}
	f.node = volume.Node{
		Claims: f.claims, Images: images, Objects: f.objects, HostPaths: f.objects, Tokens: from.tokens,
		Name: m.Name, HostIPs: []string{m.IP}, Epoch: r.Epoch(), Allocatable: m.allocatable,
	}
	f.volumes, err = volume.New(c.Root, c.State, f.node)
	return f, err
}

// openNetwork opens the network of the pods, with room for the virtual addresses that Services have.
func (d *daemon) openNetwork(from sources, in *pins.Pins) (*network.Network, error) {
	c := &d.config
	addresses, err := c.ServiceAddresses()
	if err != nil {
		return nil, err
	}
	services, err := storage.Services(from.store, "")
	if err != nil {
		return nil, err
	}
	var known []network.ServicePort
	for _, s := range services {
		known = append(known, names.ServicePorts(s)...)
	}
	pods, err := network.Open(network.Options{
		Root: c.Root, State: c.State, Mode: network.Mode(c.Network), HostIP: from.machine.IP, Reserved: d.reserved(),
		ServiceRange: addresses, Services: known, Pins: in, Logger: c.Logger,
		Watch: d.sections.network,
	})
	if err != nil {
		return nil, err
	}
	if pods.Mode() == network.Bridge && c.MaxPods > network.BridgePorts {
		c.Logger.Warn("a bridge takes fewer pods than max-pods: others need hostNetwork, or jobd --network none",
			"most", network.BridgePorts, "max-pods", c.MaxPods)
	}
	d.run("the host's addresses", pods.FollowAddresses)
	d.run("links of pods that have ended", pods.RemoveOutlived)
	d.run("networks for pods to come", pods.Prepare)
	d.serving.Network = pods.Describe()
	return pods, nil
}

// openUserNamespaces finds the ids of the host that pods are given. Where the host has no user namespaces for them, pods
// that ask for one are told, and a daemon that is to give one to all does not start.
func openUserNamespaces(c *config.Config, shim string, in *pins.Pins) (*userns.Namespaces, error) {
	files, err := userns.ReadFiles()
	if err != nil {
		return nil, err
	}
	ids, err := userns.Choose(c.UserNamespaceRange, files)
	if err != nil {
		return nil, err
	}
	users, err := userns.Open(userns.Options{
		Dir: c.StateLayout().UserNamespaces(), IDs: ids, Owner: c.Root, On: []string{c.Root, c.State},
		Program: shim, Pins: in,
	})
	switch {
	case err != nil:
		return nil, err
	case users.Supported() == nil:
	case c.UserNamespaces == config.UserNamespacesDefault:
		return nil, fmt.Errorf("user-namespaces default: %w", users.Supported())
	default:
		c.Logger.Info("no pod can have a user namespace of its own", "error", users.Supported())
	}
	if c.UserNamespaces == config.UserNamespacesDefault && ids.Pods() < c.MaxPods {
		c.Logger.Warn("there are fewer ranges of ids than pods may run at a time: some wait for the end of others",
			"ranges", ids.Pods(), "pods", c.MaxPods)
	}
	return users, nil
}

// warnOfMissingRuntimes warns of OCI runtimes that are configured and not there. They may come later.
func warnOfMissingRuntimes(c *config.Config) {
	for name, h := range c.RuntimeHandlers {
		if _, err := os.Stat(h.Path); err != nil {
			c.Logger.Warn("cannot find the OCI runtime of a handler: no pods of its runtime classes will start",
				"handler", name, "error", err)
		}
	}
}

// reserved returns the endpoints of the daemon, which no hostPort may take.
func (d *daemon) reserved() []network.Reserved {
	if !d.tls.IsValid() {
		return nil
	}
	return []network.Reserved{{Protocol: corev1.ProtocolTCP, At: d.tls, Owner: "jobd's API (--listen)"}}
}

// openSimulated does the same for pods without containers, which write no logs.
func (d *daemon) openSimulated(from sources) (*containers, error) {
	r := simulated.New()
	d.onStop(d.closing("the runtime", r))
	d.serving.Runtime = r.Describe()
	api, err := d.openPodAPI(nil)
	if err != nil {
		return nil, err
	}
	d.openNames(nil, from.machine.Name, from.store)
	return &containers{
		runtime: r, api: api, volumes: provision.Simulated{}, epoch: from.machine.Boot,
		workers: worker.Config{
			Runtime: r, Images: sandbox.HostImages{Images: r}, Spec: sandbox.SimulatedSpecs{}, Report: from.inbox.Report, Logger: d.config.Logger,
		},
	}, nil
}

// openPodAPI chooses where pods reach the API, and serves it there.
func (d *daemon) openPodAPI(pods *network.Network) (*sandbox.API, error) {
	api, err := sandbox.OpenAPI(sandbox.APIOptions{
		Network: pods, TLS: d.tls, Authority: d.authority, State: d.config.StateLayout(),
	})
	if err != nil {
		return nil, err
	}
	if l := api.Listener(); l != nil {
		d.listenOn(l)
	}
	return api, nil
}

// openNames lets pods find each other by name, and returns the address of their name server; empty if they use the
// host's.
func (d *daemon) openNames(pods *network.Network, node string, s *store.Store) string {
	service := names.Open(names.Config{Network: pods, Node: node, EventTTL: d.config.EventTTL.Duration, Logger: d.config.Logger})
	d.beside(func(ctx context.Context) { service.Run(ctx, s) })
	return service.Address()
}

// warnOfHugePages logs a warning if the machine has huge pages and nothing limits pods to what they request.
func warnOfHugePages(logger *slog.Logger, allocatable corev1.ResourceList, limits oci.Host) {
	if len(limits.HugePages) > 0 {
		return
	}
	for name, amount := range allocatable {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !amount.IsZero() {
			logger.Warn("pods are not kept to the huge pages that they ask for: "+
				"hugetlb is not among the controllers of the cgroups that containers are in", "resource", name)
		}
	}
}
