// Package oci makes the OCI spec of a container from the pod it belongs to: a pure function of the pod, the image and
// what the host can do. Each section of the spec has a file of its own.
package oci

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/containerd/errdefs"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

// specVersion is the spec version that is written: the highest that crun 1.8 (Debian 12) accepts.
const specVersion = "1.0.2"

// Input is all that the spec of one container depends on.
type Input struct {
	Pod       *corev1.Pod
	Container *corev1.Container // of Pod, an init container or a main one
	Image     imagespec.ImageConfig
	// Command is the container's if it runs a command of the host; nil: it has an image.
	Command *HostCommand
	// Login is the user of the host whose pod it is; nil: it is nobody's.
	Login *uint32

	// CgroupPath is absolute below the cgroup root: /jobd/<container id>.
	CgroupPath string
	// Mounts are the container's volumes: volume.Volumes.SetUp.
	Mounts []specs.Mount
	// VolumesApart says that nothing may be mounted in one of them: see the function of that name.
	VolumesApart bool
	// SharedMemory is what all of the pod's containers have at /dev/shm: volume.Volumes.SharedMemory. Empty: the container
	// has a tmpfs of its own there, or with hostIPC what the host has.
	SharedMemory string
	// Declared are the volumes that the image declares: volume.Volumes.Declared.
	Declared []specs.Mount
	// Files are those that the pod and the container get from the host: volume.Volumes.Files.
	Files Files
	// Namespaces holds the paths of namespaces that the containers of a pod share; those that are missing are made
	// anew for the container, or are the host's where the pod asks for that.
	Namespaces map[specs.LinuxNamespaceType]string
	// Users are the users and groups of the pod's own user namespace, whose path is one of Namespaces; nil: it is in the
	// host's. The mounts of its volumes and files get the same mapping.
	Users *specs.LinuxIDMapping

	NodeName string
	HostIPs  []string
	PodIPs   []string
	// VolumeFile reads a file of one of the pod's volumes, which has to be there: NotFound. Nil: nothing is read.
	VolumeFile func(volume, path string) ([]byte, error)
	envFiles   map[string]envFile // that were read for this environment
	// API is where the pod reaches the API; not valid: it cannot.
	API netip.AddrPort
	// Services are those of the pod's namespace.
	Services []*corev1.Service
	// Allocatable is what a limit that is not set stands for in resourceFieldRef.
	Allocatable corev1.ResourceList
	// Objects are what variables may come from. Nil: there are none.
	Objects Objects

	// SeccompDefault gives the profile RuntimeDefault to what asks for none, like the kubelet's setting of that name.
	SeccompDefault bool
	// Profiles remembers what RuntimeDefault is; nil: it is made anew.
	Profiles *Profiles
	// Sysctls are those that pods may set.
	Sysctls Sysctls
	// DropNetRaw leaves CAP_NET_RAW out of the default capabilities.
	DropNetRaw bool
	// DropMknod leaves CAP_MKNOD out of them. A device that a pod has made is one for whoever of the host has the numbers of a process
	// of the pod: by /proc/PID/root such a user gets at it, with none of what confines the pod, and so at the host's disk.
	DropMknod bool
	// AppArmorDefault ensures that the default profile is loaded and returns its name. Nil: the host has none.
	AppArmorDefault func() (string, error)
	// SELinux returns the labels of a process and of what is mounted for it, from options in the syntax of go-selinux. Nil:
	// the host has no SELinux.
	SELinux func(options []string) (process, mount string, err error)
	// PidsLimit is how many processes and threads the container may have; 0 is no limit.
	PidsLimit int64
	// SeccompDir holds the profiles of type Localhost.
	SeccompDir string

	Host Host
}

// Files are paths on the host of what is mounted over the image's own files. An empty one is not mounted.
type Files struct {
	Hosts      string // at /etc/hosts
	Hostname   string // at /etc/hostname
	ResolvConf string // at /etc/resolv.conf
	// TerminationLog is mounted at the container's terminationMessagePath.
	TerminationLog string
}

// Spec returns a spec that is complete except for two things: the runtime sets the root path, and if Process.User.Username is
// set, it calls ResolveUser with the files of the image.
//
// An error is the pod's fault, and is worded like the kubelet's where the kubelet has one: its reason is
// CreateContainerConfigError.
func Spec(in Input) (*specs.Spec, error) {
	user, err := processUser(in)
	if err != nil {
		return nil, err
	}
	environment, err := environment(in)
	if err != nil {
		return nil, err
	}
	process, err := process(in, environment)
	if err != nil {
		return nil, err
	}
	process.User = user
	process.Capabilities = capabilities(in)
	process.Rlimits = rlimits(in.Host)
	process.NoNewPrivileges = noNewPrivileges(in.Container)
	process.OOMScoreAdj = oomScoreAdj(in)
	if process.ApparmorProfile, err = appArmorProfile(in); err != nil {
		return nil, err
	}

	namespaces, err := namespaces(in)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(spreads(in), kernelPlaces(in)); err != nil {
		return nil, err
	}
	sysctls, err := sysctls(in)
	if err != nil {
		return nil, err
	}
	hostname, err := specHostname(in)
	if err != nil {
		return nil, err
	}
	spec := &specs.Spec{
		Version:     specVersion,
		Process:     process,
		Root:        &specs.Root{Readonly: readOnlyRoot(in.Container)},
		Hostname:    hostname,
		Mounts:      mounts(in),
		Annotations: annotations(in),
		Linux: &specs.Linux{
			CgroupsPath:       in.CgroupPath,
			RootfsPropagation: rootPropagation(in.Mounts),
			Namespaces:        namespaces,
			Sysctl:            sysctls,
			Devices:           devices(in),
			Resources:         resources(in),
			MaskedPaths:       maskedPaths(in.Container),
			ReadonlyPaths:     readonlyPaths(in.Container),
		},
	}
	if in.Command != nil {
		if err := in.Command.complete(spec, in); err != nil {
			return nil, err
		}
	}
	if in.Users != nil {
		spec.Linux.UIDMappings, spec.Linux.GIDMappings = mapping(in), mapping(in)
	}
	if err := addSELinux(in, spec); err != nil {
		return nil, err
	}
	// Last: the default profile depends on the capabilities.
	if spec.Linux.Seccomp, err = seccompProfile(in, spec); err != nil {
		return nil, err
	}
	return spec, nil
}

// invalid returns an error of the class InvalidArgument that says no more than a kubelet does.
func invalid(format string, args ...any) error {
	return errdefs.ErrInvalidArgument.WithMessage(fmt.Sprintf(format, args...))
}

// describe names the container as the kubelet does in its errors.
func describe(in Input) string {
	return fmt.Sprintf(`(pod: "%s_%s(%s)", container: %s)`, in.Pod.Name, in.Pod.Namespace, in.Pod.UID, in.Container.Name)
}

// security returns the container's security context, never nil.
func security(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		return &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

// podSecurity returns the pod's security context, never nil.
func podSecurity(p *corev1.Pod) *corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		return &corev1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

func isTrue(b *bool) bool { return b != nil && *b }

func privileged(c *corev1.Container) bool { return isTrue(security(c).Privileged) }

func readOnlyRoot(c *corev1.Container) bool { return isTrue(security(c).ReadOnlyRootFilesystem) }

// noNewPrivileges reports whether allowPrivilegeEscalation is false.
func noNewPrivileges(c *corev1.Container) bool {
	allow := security(c).AllowPrivilegeEscalation
	return allow != nil && !*allow
}
