package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/disk"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/joblogs"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/processes"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/runtime/volume"
)

// containers is what runs the pods, with what workers need of it.
type containers struct {
	runtime runtime.Runtime
	images  *image.Images    // nil: there are none to manage
	workers pod.Config       // but for what the loop provides
	network *network.Network // nil: pods have none
	names   *podNames
	// diskFull is raised when an image found no room.
	diskFull disk.Alarm
	disk     disk.Usage
	epoch    string // while it is the same, containers are found again
}

func openContainers(ctx context.Context, c *config.Config, h host.Host, allocatable corev1.ResourceList, given *devices.Devices, objects fileObjects, api *podAPI, logs *joblogs.Logs) (*containers, error) {
	if c.Runtime == "simulated" {
		r := simulated.New()
		return &containers{runtime: r, names: openNames(nil, c.Logger), epoch: h.Boot, workers: pod.Config{Runtime: r, Images: r, Spec: simulatedSpecs{}}}, nil
	}
	limits, err := oci.ReadHost()
	if err != nil {
		return nil, err
	}
	shim, err := c.ShimPath()
	if err != nil {
		return nil, err
	}
	if err := containerd.KeepMountsIn(c.State); err != nil {
		return nil, err
	}
	r, err := containerd.Open(ctx, containerd.Config{
		Root: c.Root, State: c.State, CgroupParent: runtime.CgroupParent(c.Root),
		OCIRuntime: c.OCIRuntime, ShimPath: shim, Logger: c.Logger,
	})
	if err != nil {
		return nil, err
	}
	pods, err := network.Open(network.Options{Root: c.Root, State: c.State, Mode: network.Mode(c.Network), HostIP: h.IP, Logger: c.Logger})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := api.open(pods, c.StateLayout()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	names := openNames(pods, c.Logger)
	diskFull := disk.NewAlarm()
	cgroups, err := cgroup.OpenPods(runtime.CgroupParent(c.Root))
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	warnOfHugePages(c.Logger, allocatable, limits)
	images := image.New(r.Client(), image.Options{
		Snapshotter:      r.Snapshotter(),
		DockerConfigPath: c.RootLayout().DockerConfig(),
		HostsDir:         c.RegistryHosts,
		DiskFull:         diskFull.Raise,
		Logger:           c.Logger,
	})
	go images.Watch(ctx)
	node := volume.Node{Name: h.Name, HostIPs: []string{h.IP}, Epoch: r.Epoch(), Objects: objects, Tokens: api.tokens, Allocatable: allocatable}
	volumes, err := volume.New(c.Root, c.State, node)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	shared := &processes.Processes{Dir: c.StateLayout().Processes(), Shim: shim, Cgroup: runtime.CgroupParent(c.Root) + "/shard-0"}
	appArmor := containerd.OpenAppArmor(c.Root, c.Logger)
	usage := disk.Usage{Runtime: r, Volumes: volumes, LogPath: logs.Path}
	nameServer := ""
	if names.server != nil {
		nameServer = pods.Gateway().String()
	}
	return &containers{
		runtime:  r,
		images:   images,
		diskFull: diskFull,
		disk:     usage,
		network:  pods,
		names:    names,
		epoch:    r.Epoch(),
		workers: pod.Config{
			Runtime:     r,
			Images:      images,
			PullSecrets: objects.PullSecrets,
			Spec:        specBuilder{api: api, volumes: volumes, limits: limits, cgroups: runtime.CgroupParent(c.Root), node: node, seccomp: c.RootLayout().Seccomp(), seccompDefault: c.SeccompDefault, appArmor: appArmor, devices: given, pids: c.PidsLimit, nameServer: nameServer, shared: shared},
			Steps:       []pod.Step{appArmorStep(appArmor), devicesStep(given), cgroupStep(cgroups, c.PodMaxPids, limits), networkStep(pods), processesStep(shared), volumesStep(volumes, usage)},
			Parallel:    8 * goruntime.GOMAXPROCS(0),
		},
	}, nil
}

// warnOfHugePages says so where the machine offers some and nothing keeps pods to what they ask for.
func warnOfHugePages(logger *slog.Logger, allocatable corev1.ResourceList, limits oci.Host) {
	if len(limits.HugePages) > 0 {
		return
	}
	for name, amount := range allocatable {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !amount.IsZero() {
			logger.Warn("pods are not kept to the " + string(name) + " that they ask for: hugetlb is not among the controllers of the cgroups that containers are in")
		}
	}
}

// openDevices finds the devices of this machine that pods may have.
func openDevices(c *config.Config) (*devices.Devices, error) {
	if c.Runtime == "simulated" {
		return &devices.Devices{}, nil
	}
	return devices.Open(c.StateLayout().Devices(), strings.Split(c.CDISpecDirs, ","), func(err error) {
		c.Logger.Warn("not offered to pods", "error", err)
	})
}

// appArmorStep rejects a pod that cannot be confined as it asks. What has begun to run goes on: its containers fail then.
func appArmorStep(a *containerd.AppArmor) pod.Step {
	return pod.Step{
		Name:   "apparmor",
		Reason: "AppArmor",
		SetUp: func(_ context.Context, p *corev1.Pod, _ *pod.Sandbox) error {
			if err := a.Admit(p); err != nil && p.Status.Phase == corev1.PodPending {
				return &pod.Rejection{Err: err}
			}
			return nil
		},
		TearDown: func(context.Context, types.UID) error { return nil },
	}
}

// devicesStep gives a pod the devices that it asks for.
func devicesStep(d *devices.Devices) pod.Step {
	return pod.Step{
		Name:   "devices",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(ctx context.Context, p *corev1.Pod, sandbox *pod.Sandbox) (err error) {
			sandbox.Devices, err = d.SetUp(ctx, p, sandbox.Away)
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return d.TearDown(string(uid)) },
		Held:     held(d.Held),
	}
}

// cgroupStep makes the cgroup of a pod that has limits of its own beside those of its containers.
func cgroupStep(cgroups *cgroup.Pods, pids int64, host oci.Host) pod.Step {
	return pod.Step{
		Name:   "cgroup",
		Reason: "FailedCreatePodContainer",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *pod.Sandbox) (err error) {
			if limits := oci.PodResources(p, pids, host); limits != nil {
				sandbox.Cgroup, err = cgroups.SetUp(string(p.UID), limits)
			}
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return cgroups.TearDown(string(uid)) },
		Held:     held(cgroups.Held),
	}
}

// networkStep makes the network of a pod and what else its containers share beside volumes.
func networkStep(n *network.Network) pod.Step {
	return pod.Step{
		Name:   "network",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *pod.Sandbox) error {
			a, err := n.SetUp(p)
			sandbox.Namespaces, sandbox.IPs, sandbox.HostNetwork = a.Namespaces, a.IPs, a.Host
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return n.TearDown(string(uid)) },
		Held:     held(n.Held),
	}
}

// processesStep makes the PID namespace of a pod whose containers share one.
func processesStep(shared *processes.Processes) pod.Step {
	return pod.Step{
		Name:   "processes",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *pod.Sandbox) (err error) {
			if share := p.Spec.ShareProcessNamespace; share != nil && *share {
				sandbox.Namespaces[specs.PIDNamespace], err = shared.SetUp(string(p.UID))
			}
			return err
		},
		TearDown: func(_ context.Context, uid types.UID) error { return shared.TearDown(string(uid)) },
		Held:     held(shared.Held),
	}
}

// held gives the pods that something is set up for, so that what an older run has left is found.
func held(list func() ([]string, error)) func(context.Context) ([]types.UID, error) {
	return func(context.Context) ([]types.UID, error) {
		names, err := list()
		uids := make([]types.UID, len(names))
		for i, name := range names {
			uids[i] = types.UID(name)
		}
		return uids, err
	}
}

// volumesStep makes the volumes of a pod, and the files that it gets from the host.
func volumesStep(v *volume.Volumes, disk disk.Usage) pod.Step {
	return pod.Step{
		Name:   "volumes",
		Reason: "FailedMount",
		SetUp: func(_ context.Context, p *corev1.Pod, sandbox *pod.Sandbox) (err error) {
			sandbox.Mounts, err = v.SetUp(p)
			return err
		},
		Measure:  disk.OverLimit,
		Refresh:  func(_ context.Context, p *corev1.Pod) error { return v.Refresh(p) },
		TearDown: func(_ context.Context, uid types.UID) error { return v.TearDown(string(uid)) },
		Held:     held(v.Held),
	}
}

// specBuilder makes the OCI specs of containers on this host.
type specBuilder struct {
	api     *podAPI
	volumes *volume.Volumes
	limits  oci.Host
	cgroups string
	node    volume.Node
	seccomp string // directory of profiles
	// seccompDefault: what asks for no profile gets RuntimeDefault.
	seccompDefault bool
	appArmor       *containerd.AppArmor
	devices        *devices.Devices
	pids           int64 // limit of each container, 0 for none
	// nameServer is that of the cluster's domain; empty without.
	nameServer string
	shared     *processes.Processes
}

func (b specBuilder) Spec(_ context.Context, in pod.SpecInput) (*specs.Spec, error) {
	if in.Sandbox.Namespaces[specs.PIDNamespace] != "" {
		// It may have died with all that was in it since the pod was set up.
		if _, err := b.shared.SetUp(string(in.Pod.UID)); err != nil {
			return nil, err
		}
	}
	mounts, err := b.volumes.Within(in.Pod, in.Container, in.Sandbox.Mounts[in.Container.Name], in.Sandbox.IPs...)
	if err != nil {
		return nil, err
	}
	files, err := b.volumes.Files(in.Pod, in.Container, in.Attempt, volume.FilesOptions{NodeName: b.node.Name, PodIPs: in.Sandbox.IPs, NameServer: b.nameServer})
	if err != nil {
		return nil, err
	}
	id := runtime.ContainerID(string(in.Pod.UID), in.Container.Name, in.Attempt)
	spec, err := oci.Spec(oci.Input{
		Pod:         in.Pod,
		Container:   in.Container,
		Image:       in.Image.Config,
		CgroupPath:  cmp.Or(in.Sandbox.Cgroup, b.cgroups) + "/" + id,
		Mounts:      mounts,
		Files:       files,
		Namespaces:  in.Sandbox.Namespaces,
		NodeName:    b.node.Name,
		HostIPs:     b.node.HostIPs,
		PodIPs:      in.Sandbox.IPs,
		API:         b.api.of(in.Pod),
		VolumeFile:  func(volume, path string) ([]byte, error) { return b.volumes.ReadFile(in.Pod, volume, path) },
		Allocatable: b.node.Allocatable,
		SeccompDir:  b.seccomp,
		PidsLimit:   b.pids,

		SeccompDefault:  b.seccompDefault,
		AppArmorDefault: b.appArmor.Default(),

		Objects: b.node.Objects,
		Host:    b.limits,
	})
	if err != nil {
		return nil, err
	}
	return spec, b.devices.Inject(spec, in.Sandbox.Devices[in.Container.Name])
}

type simulatedSpecs struct{}

func (simulatedSpecs) Spec(_ context.Context, in pod.SpecInput) (*specs.Spec, error) {
	return simulated.Spec(in.Pod, in.Container.Name), nil
}
