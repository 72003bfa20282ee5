package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/internal/outside"
	"github.com/jobd/jobd/runtime/crash"
)

// Claims finds the PersistentVolumes of pods.
type Claims interface {
	// Claimed returns the PersistentVolume of a pod's volume, whose type is persistentVolumeClaim or ephemeral, or an
	// error as long as the claim is not bound.
	Claimed(pod *corev1.Pod, volume *corev1.Volume) (*corev1.PersistentVolume, error)
	// Attach makes a volume usable for a pod that jobd has created, and returns where: a directory, or a block device, which
	// stays what it is until Release.
	Attach(ctx context.Context, name, pod string) (string, error)
	// HoldDevice lets a block device of the host stay what it is until Release.
	HoldDevice(path, pod string) error
	// Release lets go of the block devices that a pod has.
	Release(pod string) error
}

// claimed makes the volume of a claim usable.
func (v *Volumes) claimed(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) (source, error) {
	if v.node.Claims == nil {
		return source{}, fmt.Errorf("there are no claims: %w", errdefs.ErrNotImplemented)
	}
	pv, err := v.node.Claims.Claimed(pod, volume)
	if err != nil {
		return source{}, err
	}
	out := source{device: ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock}
	if c := volume.PersistentVolumeClaim; c != nil {
		out.readOnly = c.ReadOnly
	}
	if out.device {
		if err := v.noteDevices(string(pod.UID)); err != nil {
			return source{}, err
		}
	}
	grouped := true // an fsGroup applies to it
	switch spec := &pv.Spec; {
	case core.IsProvisioned(pv):
		out.path, err = v.node.Claims.Attach(ctx, pv.Name, string(pod.UID))
	case spec.Local != nil:
		out.path, err = v.localPath(pv.Name, spec.Local.Path)
	case spec.HostPath != nil:
		grouped = false // as with a kubelet
		out.path, err = v.anyHostPath(spec.HostPath)
	case spec.NFS != nil:
		grouped = false
		readOnly := out.readOnly
		out, err = v.nfs(ctx, pod, volume.Name, spec.NFS, nfsOptions(pv))
		out.readOnly = out.readOnly || readOnly
	default:
		err = fmt.Errorf("this machine has no driver for the volume %s (%s)", pv.Name, core.ForeignVolume(&spec.PersistentVolumeSource))
	}
	if err != nil {
		return source{}, err
	}
	if err := v.checkMode(pv.Name, out); err != nil {
		return source{}, err
	}
	if out.device && !core.IsProvisioned(pv) {
		err = v.node.Claims.HoldDevice(out.path, string(pod.UID))
	}
	if grouped && !out.device && !out.readOnly {
		err = v.giveToGroupOnce(ctx, pod, volume.Name, out.path)
	}
	return out, err
}

// noteDevices notes that a pod has block devices, before it has any: TearDown looks for holders only of such pods.
func (v *Volumes) noteDevices(podUID string) error {
	if err := os.MkdirAll(v.devicesPod(podUID), 0o700); err != nil {
		return err
	}
	crash.At("volume.device.noted")
	return nil
}

// releaseDevices lets go of the block devices that a pod has.
func (v *Volumes) releaseDevices(podUID string) error {
	if v.node.Claims == nil {
		return nil
	}
	if _, err := os.Stat(v.devicesPod(podUID)); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	err := v.node.Claims.Release(podUID)
	crash.At("volume.device.released")
	return err
}

func (v *Volumes) devicesPod(uid string) string {
	return filepath.Join(v.statePod(uid), "volumes", "devices")
}

// localPath checks the path of a volume of the type local.
func (v *Volumes) localPath(name, path string) (string, error) {
	if _, err := outside.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("MountVolume.NewMounter initialization failed for volume %q : path %q does not exist", name, path)
	} else if err != nil {
		return "", err
	}
	if real, err := realPath(path); err != nil {
		return "", err
	} else if v.own(real) {
		return "", fmt.Errorf("local path %s belongs to jobd itself: %w", path, errdefs.ErrPermissionDenied)
	}
	return path, nil
}

// at opens the place of a volume (O_PATH), which is a path of the host unless it is jobd's own: to say whose the file systems are on the way
// takes the longer the more is mounted on the host.
func (v *Volumes) at(path string) (*os.File, error) {
	if strings.HasPrefix(path, v.root+"/") || strings.HasPrefix(path, v.state+"/") {
		return os.OpenFile(path, unix.O_PATH, 0)
	}
	return outside.At(path)
}

// stat says what the place of a volume is.
func (v *Volumes) stat(path string, is *unix.Stat_t) error {
	file, err := v.at(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return os.NewSyscallError("fstat", unix.Fstat(int(file.Fd()), is))
}

// checkMode fails if a volume is not what its mode says.
func (v *Volumes) checkMode(name string, s source) error {
	var is unix.Stat_t
	if err := v.stat(s.path, &is); err != nil {
		return err
	}
	device := is.Mode&unix.S_IFMT == unix.S_IFBLK
	switch {
	case s.device && !device:
		return fmt.Errorf("volume %s has the mode Block, but %s is not a block device: %w", name, s.path, errdefs.ErrInvalidArgument)
	case !s.device && device:
		return fmt.Errorf("volume %s has the mode Filesystem, but %s is a block device, which jobd does not mount; mount it "+
			"on the host and name the directory: %w", name, s.path, errdefs.ErrInvalidArgument)
	}
	return nil
}

// checkUse fails if a container mounts a block device, or uses a file system as one.
func checkUse(c *corev1.Container, sources map[string]source) error {
	for i := range c.VolumeMounts {
		if name := c.VolumeMounts[i].Name; sources[name].device {
			return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts: %w", name,
				errdefs.ErrInvalidArgument)
		}
	}
	for i := range c.VolumeDevices {
		if name := c.VolumeDevices[i].Name; !sources[name].device {
			return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices: %w", name,
				errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// Devices adds to the spec of a container the block devices that it uses (Container.VolumeDevices).
func (v *Volumes) Devices(ctx context.Context, pod *corev1.Pod, c *corev1.Container, spec *specs.Spec) error {
	for _, d := range c.VolumeDevices {
		for i := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[i]
			if volume.Name != d.Name {
				continue
			}
			s, err := v.claimed(ctx, pod, volume)
			if err == nil {
				err = v.addDevice(spec, pod, c, d.DevicePath, s)
			}
			if err != nil {
				return fmt.Errorf("MapVolume.MapPodDevice failed for volume %q : %w", d.Name, err)
			}
		}
	}
	return nil
}

// addDevice adds a block device to a spec. It belongs to the user that the container is to run as, as with a containerd that
// has device_ownership_from_security_context, and to the group of the pod's volumes. The host's owner and group mean
// nothing in a container: anybody may be in the group root.
func (v *Volumes) addDevice(spec *specs.Spec, pod *corev1.Pod, c *corev1.Container, at string, s source) error {
	var is unix.Stat_t
	if err := v.stat(s.path, &is); err != nil {
		return err
	}
	major, minor := int64(unix.Major(is.Rdev)), int64(unix.Minor(is.Rdev))
	access := "rwm"
	if s.readOnly {
		access = "rm"
	}
	if spec.Linux.Resources == nil {
		spec.Linux.Resources = &specs.LinuxResources{}
	}
	mode, owner, group := os.FileMode(0o600), runAsUser(pod, c), uint32(0)
	if security := pod.Spec.SecurityContext; security != nil && security.FSGroup != nil {
		mode, group = 0o660, uint32(*security.FSGroup)
	}
	spec.Linux.Devices = append(spec.Linux.Devices, specs.LinuxDevice{
		Path: at, Type: "b", Major: major, Minor: minor, FileMode: &mode, UID: &owner, GID: &group,
	})
	spec.Linux.Resources.Devices = append(spec.Linux.Resources.Devices, specs.LinuxDeviceCgroup{
		Allow: true, Type: "b", Major: &major, Minor: &minor, Access: access,
	})
	return nil
}

// runAsUser returns the user that a container is to run as, as far as its pod says; otherwise root.
func runAsUser(pod *corev1.Pod, c *corev1.Container) uint32 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return uint32(*c.SecurityContext.RunAsUser)
	}
	if pod.Spec.SecurityContext != nil {
		return uint32(ptr.Deref(pod.Spec.SecurityContext.RunAsUser, 0))
	}
	return 0
}
