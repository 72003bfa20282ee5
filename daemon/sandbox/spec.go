package sandbox

import (
	"context"
	"errors"
	"net/netip"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/processes"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/runtime/volume"
)

// Specs makes the OCI specs of containers on this host. It implements worker.SpecBuilder.
type Specs struct {
	API       *API
	Runtime   runtime.Runtime
	Volumes   *volume.Volumes
	Host      oci.Host
	Cgroups   string    // the parent of the cgroups of all containers
	PodGroups PodGroups // in it
	Node      volume.Node
	// SeccompDir is the directory of profiles. With SeccompDefault, containers that ask for no profile get
	// RuntimeDefault.
	SeccompDir     string
	SeccompDefault bool
	Profiles       *oci.Profiles
	// Sysctls are those that pods may set.
	Sysctls oci.Sysctls
	// DropNetRaw gives CAP_NET_RAW only to containers that add it.
	DropNetRaw bool
	// Limited reports whether a namespace takes only pods that cannot take over the host: these make no devices.
	Limited  func(namespace string) (bool, error)
	AppArmor *containerd.AppArmor
	// SELinux is oci.Input's; nil where the host has none.
	SELinux   func(options []string) (process, mount string, err error)
	Devices   *devices.Devices
	PidsLimit int64 // of each container; 0 means no limit
	// NameServer is the name server for the cluster's domain; empty if there is none.
	NameServer string
	// Services returns those to which a pod has links.
	Services  func(*corev1.Pod) ([]*corev1.Service, error)
	Processes *processes.Processes
	// Commands are those of the host that containers run.
	Commands HostCommands
}

// Spec makes the spec of one attempt of a container.
func (b Specs) Spec(ctx context.Context, in worker.SpecInput) (*specs.Spec, error) {
	if in.Sandbox.Namespaces[specs.PIDNamespace] != "" {
		// It may have died since the pod was set up, with everything in it.
		if _, err := b.Processes.SetUp(string(in.Pod.UID), in.Sandbox.UsersPath); err != nil {
			return nil, err
		}
	}
	var err error
	if in.Pod, err = b.Commands.Objects.inGroups(in.Pod); err != nil {
		return nil, err
	}
	if err := b.join(ctx, &in); err != nil {
		return nil, err
	}
	if err := b.Volumes.MountImages(ctx, in.Pod, in.Volumes, in.Sandbox.UsersPath); err != nil {
		return nil, err
	}
	mounts, err := b.Volumes.Within(in.Pod, in.Container, in.Sandbox.Mounts[in.Container.Name], in.Sandbox.IPs...)
	if err != nil {
		return nil, err
	}
	files, err := b.Volumes.Files(in.Pod, in.Container, in.Attempt, volume.FilesOptions{
		NodeName: b.Node.Name, PodIPs: in.Sandbox.IPs, NameServer: b.NameServer, Warn: in.Warn,
	})
	if err != nil {
		return nil, err
	}
	declared, err := b.Volumes.Declared(ctx, in.Pod, in.Container, in.Attempt, in.Image.Config.Volumes, mounts, files)
	if err != nil {
		return nil, err
	}
	services, err := b.Services(in.Pod)
	if err != nil {
		return nil, err
	}
	limited, err := b.Limited(in.Pod.Namespace)
	if err != nil {
		return nil, err
	}
	apart, err := b.Volumes.OfUser(in.Pod)
	if err != nil {
		return nil, err
	}
	command, err := b.Commands.of(ctx, in.Pod, in.Container)
	if err != nil {
		return nil, err
	}
	login, err := b.Commands.Objects.login(in.Pod.Namespace)
	if err != nil {
		return nil, err
	}
	api := b.API.Of(in.Pod)
	if command != nil {
		in.Image.Config.Env = command.Env
		files, services, api = oci.Files{TerminationLog: files.TerminationLog}, nil, netip.AddrPort{}
	}
	group, err := b.cgroup(in)
	if err != nil {
		return nil, err
	}
	id := runtime.ContainerID(string(in.Pod.UID), in.Container.Name, in.Attempt)
	spec, err := oci.Spec(oci.Input{
		Pod:        in.Pod,
		Container:  in.Container,
		Image:      in.Image.Config,
		Command:    command,
		Login:      login,
		CgroupPath: group + "/" + id,
		Mounts:     mounts,
		Declared:   declared,

		VolumesApart: apart,

		Files:       files,
		Namespaces:  in.Sandbox.Namespaces,
		Users:       in.Sandbox.Users,
		NodeName:    b.Node.Name,
		HostIPs:     b.Node.HostIPs,
		PodIPs:      in.Sandbox.IPs,
		API:         api,
		Services:    services,
		VolumeFile:  func(volume, path string) ([]byte, error) { return b.Volumes.ReadFile(in.Pod, volume, path) },
		Allocatable: b.Node.Allocatable,
		SeccompDir:  b.SeccompDir,
		PidsLimit:   b.PidsLimit,

		SharedMemory: in.Sandbox.SharedMemory,

		SeccompDefault:  b.SeccompDefault,
		Profiles:        b.Profiles,
		Sysctls:         b.Sysctls,
		DropNetRaw:      b.DropNetRaw,
		DropMknod:       limited,
		AppArmorDefault: b.AppArmor.Default(),
		SELinux:         b.SELinux,

		Objects: b.Node.Objects,
		Host:    b.Host,
	})
	if err != nil {
		return nil, err
	}
	if err := b.Volumes.Devices(ctx, in.Pod, in.Container, spec); err != nil {
		return nil, err
	}
	if err := relabel(spec, files, declared, in); err != nil {
		return nil, err
	}
	inject := b.Devices.Inject
	if command != nil {
		inject = b.Devices.InjectNodes
	}
	if err := inject(spec, in.Sandbox.Devices[in.Container.Name]); err != nil {
		return nil, err
	}
	if command != nil {
		if err := errors.Join(command.Check(spec), likeTmp(spec)); err != nil {
			return nil, err
		}
	}
	return spec, oci.CheckTexts(spec)
}

// SimulatedSpecs makes the specs of containers that are only simulated. It implements worker.SpecBuilder.
type SimulatedSpecs struct{}

// Spec makes the spec of a container.
func (SimulatedSpecs) Spec(_ context.Context, in worker.SpecInput) (*specs.Spec, error) {
	return simulated.Spec(in.Pod, in.Container.Name), nil
}
