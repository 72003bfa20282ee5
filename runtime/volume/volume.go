// Package volume makes the volumes and files of pods and returns the mounts of each container.
//
// They lie in the directories of the pods below ROOT and STATE, and nothing else of the host is changed. What is
// mounted for a pod (memory volumes, images, NFS, subpaths) is mounted by the daemon, below STATE: a container is started in a copy
// of the host's mounts as they are then, and so finds them.
package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/untrusted"
)

// Volumes makes and removes what pods have on the host. It has no state besides the file system, so every call may be
// repeated after a crash. Calls for one pod must not overlap.
type Volumes struct {
	root, state string
	node        Node
}

// Node is what volumes are made from besides the pod.
type Node struct {
	Name    string
	HostIPs []string
	// Epoch names this life of the state directory; it is part of the names of pods' files.
	Epoch string
	// Allocatable is what a limit that is not set stands for in resourceFieldRef.
	Allocatable corev1.ResourceList
	// Objects are the ConfigMaps and Secrets. Nil: there are none.
	Objects oci.Objects
	// HostPaths limits what volumes of the type hostPath may show. Nil: any path.
	HostPaths HostPaths
	// Tokens are those of ServiceAccounts. Nil: there are none.
	Tokens Tokens
	// Claims finds the volumes of PersistentVolumeClaims. Nil: there are none.
	Claims Claims
	// Images mounts images. Nil: it cannot be done.
	Images Images
}

// New returns the Volumes in the daemon's root and state directories. Only root has access to what pods have there: a
// volume holds secrets, anybody may write to it, and programs in it may be setuid. The mode of a directory that an
// older jobd created is corrected.
func New(root, state string, node Node) (*Volumes, error) {
	if node.Objects == nil {
		node.Objects = oci.NoObjects{}
	}
	v := &Volumes{root: root, state: state, node: node}
	for _, dir := range []string{v.rootPod(""), v.statePod("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("volumes: %w", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("volumes: %w", err)
		}
	}
	return v, nil
}

// source is a volume as it is on the host.
type source struct {
	path string
	// readOnly applies whatever the mount says, as with a kubelet, because the pod must not change the content.
	readOnly bool
	// allReadOnly is the same, for what is mounted below it too.
	allReadOnly bool
	// device says that the path is that of a block device.
	device bool
}

// SetUp ensures that the pod has its volumes and returns the mounts of each container that the pod was created with, by
// its name. They are of whole volumes: Within has to be called for those of a container that is about to be started. Errors
// are worded as the kubelet's and name the volume: the reason for them is FailedMount. users is the path of the pod's
// own user namespace, with whose ids the volumes are going to be mounted; empty: it is in the host's.
func (v *Volumes) SetUp(ctx context.Context, pod *corev1.Pod, users string) (map[string][]specs.Mount, error) {
	sources, err := v.sources(ctx, pod, users)
	if err != nil {
		return nil, err
	}
	out, host := map[string][]specs.Mount{}, newHostMounts(mountlist.Get)
	for c := range podspec.Workload(&pod.Spec) {
		if err := checkUse(c, sources); err != nil {
			return nil, err
		}
		if out[c.Name], err = mounts(c, sources, host); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Ephemeral returns the mounts of a container that was added to a pod, which SetUp does not do. What is wrong with them
// concerns no other container.
func (v *Volumes) Ephemeral(
	ctx context.Context, pod *corev1.Pod, c *corev1.Container, users string,
) ([]specs.Mount, error) {
	if len(c.VolumeMounts)+len(c.VolumeDevices) == 0 {
		return nil, nil
	}
	sources, err := v.sources(ctx, pod, users)
	if err != nil {
		return nil, err
	}
	if err := checkUse(c, sources); err != nil {
		return nil, err
	}
	return mounts(c, sources, newHostMounts(mountlist.Get))
}

// giveWay lets others have the processor after each volume: a pod may have thousands, and dozens of pods theirs at a time.
var giveWay = runtime.Gosched

// sources ensures that the pod has its volumes, and returns them by name.
func (v *Volumes) sources(ctx context.Context, pod *corev1.Pod, users string) (map[string]source, error) {
	var namespace *os.File
	if users != "" {
		var err error
		if namespace, err = os.Open(users); err != nil {
			return nil, fmt.Errorf("user namespace: %w", err)
		}
		defer namespace.Close()
	}
	sources, filling := map[string]source{}, v.filling()
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		source, err := v.source(ctx, pod, volume, filling)
		switch {
		case err != nil || namespace == nil:
		case source.device:
			err = fmt.Errorf("a pod with its own user namespace can have no block devices (hostUsers: true does without): %w",
				errdefs.ErrNotImplemented)
		default:
			err = mappable(source.path, namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume.Name, err)
		}
		sources[volume.Name] = source
		giveWay()
	}
	return sources, nil
}

// source creates one volume.
func (v *Volumes) source(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, filling *filling) (out source, err error) {
	switch {
	case volume.EmptyDir != nil:
		out.path, err = v.emptyDir(pod, volume)
	case volume.HostPath != nil:
		out, err = v.hostPath(pod, volume)
	case hasFiles(volume):
		out.readOnly = true
		out.path, err = v.files(pod, volume, filling)
	case volume.NFS != nil:
		out, err = v.nfs(ctx, pod, volume.Name, volume.NFS, nil)
	case volume.Image != nil:
		out.readOnly = true
		out.path, err = v.imagePlace(pod, volume.Name)
	case volume.PersistentVolumeClaim != nil, volume.Ephemeral != nil:
		out, err = v.claimed(ctx, pod, volume)
	default:
		err = fmt.Errorf("volumes of this type are not served: %w", errdefs.ErrNotImplemented)
	}
	return out, err
}

// input returns what variables and fields of a container are made from.
func (v *Volumes) input(pod *corev1.Pod, c *corev1.Container, ips []string) oci.Input {
	return oci.Input{
		Pod: pod, Container: c, NodeName: v.node.Name, HostIPs: v.node.HostIPs, PodIPs: ips,
		Allocatable: v.node.Allocatable, Objects: v.node.Objects,
	}
}

// mounts returns the mounts for the volumeMounts of one container, as if none had a subPath.
func mounts(c *corev1.Container, sources map[string]source, host *hostMounts) ([]specs.Mount, error) {
	var out []specs.Mount
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		source, ok := sources[m.Name]
		if !ok {
			return nil, fmt.Errorf("container %q: volume mount %q has no volume: %w", c.Name, m.Name,
				errdefs.ErrInvalidArgument)
		}
		propagation, err := propagation(m, source.path, host)
		if err != nil {
			return nil, fmt.Errorf("container %q: volume mount %q: %w", c.Name, m.Name, err)
		}
		mode := "rw"
		switch {
		case source.allReadOnly, m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled:
			mode = "rro"
		case m.ReadOnly || source.readOnly:
			mode = "ro"
		}
		destination := m.MountPath
		if !filepath.IsAbs(destination) {
			destination = "/" + destination
		}
		out = append(out, specs.Mount{
			Destination: destination, Type: "bind", Source: source.path,
			Options: append([]string{"rbind", propagation, mode}, m.BindMountOptions...),
		})
	}
	return out, nil
}

// Within returns the mounts of a container that is about to be started, from those that SetUp returned: where it has a
// subPath, that is mounted instead of the whole volume. This happens only then, as with a kubelet, because an init
// container may create what the path leads to. ips are the pod's addresses. Errors are worded as the kubelet's: the
// reason for them is CreateContainerConfigError.
func (v *Volumes) Within(
	pod *corev1.Pod, c *corev1.Container, mounts []specs.Mount, ips ...string,
) ([]specs.Mount, error) {
	out := slices.Clone(mounts)
	shown := map[[2]string]string{} // the places of what is mounted already, by volume and path in it
	subPaths := sync.OnceValues(func() (oci.SubPaths, error) { return oci.NewSubPaths(v.input(pod, c, ips)) })
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		sub := m.SubPath
		var err error
		if m.SubPathExpr != "" {
			variables, err := subPaths()
			if err == nil {
				sub, err = variables.Expand(m.SubPathExpr)
			}
			if err != nil {
				return nil, fmt.Errorf("container %q: volume mount %q: subPathExpr: %w", c.Name, m.Name, err)
			}
		}
		if sub == "" {
			continue
		}
		place, ok := shown[[2]string{m.Name, filepath.Clean(sub)}]
		if !ok {
			if place, err = v.subPath(pod, c.Name, i, mounts[i].Source, sub, !isImage(pod, m.Name)); err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, c.Name,
					err)
			}
			shown[[2]string{m.Name, filepath.Clean(sub)}] = place
		}
		out[i].Source = place
	}
	if err := v.keepRestrictions(pod, c, out); err != nil {
		return nil, err
	}
	return out, makeMountPoints(pod, c, out)
}

// keepRestrictions makes the mounts of a container forbid what is forbidden on the host's own mount of what they show: to write, to run
// programs, devices. A user of the host with the numbers of a process of the pod sees its mounts below /proc/PID/root.
func (v *Volumes) keepRestrictions(pod *corev1.Pod, c *corev1.Container, mounts []specs.Mount) error {
	hosts := map[string]bool{}
	for i := range pod.Spec.Volumes {
		s := &pod.Spec.Volumes[i]
		hosts[s.Name] = s.HostPath != nil || s.NFS != nil || s.PersistentVolumeClaim != nil || s.Ephemeral != nil
	}
	host := newHostMounts(mountlist.Get)
	for i := range c.VolumeMounts {
		m := &mounts[i]
		if !hosts[c.VolumeMounts[i].Name] || strings.HasPrefix(m.Source, v.root+"/") { // which are directories of jobd's own
			continue
		}
		kept, err := host.restrictions(m.Source)
		if err != nil {
			return fmt.Errorf("container %q: volume mount %q: %w", c.Name, c.VolumeMounts[i].Name, err)
		}
		m.Options = append(slices.Clone(m.Options), kept...)
	}
	return nil
}

// TearDown removes all that a pod has on the host except its logs. It is no error if the pod has nothing. Nothing
// outside the pod's own directories is touched, whatever is mounted there. It ends with the context, and what is left then is
// removed by the next call: whoever keeps making files there decides how long it takes.
func (v *Volumes) TearDown(ctx context.Context, podUID string) error {
	if podUID == "." || podUID == ".." || podUID != filepath.Base(podUID) { // Base("") is "."
		return fmt.Errorf("pod uid %q: %w", podUID, errdefs.ErrInvalidArgument)
	}
	if err := errors.Join(v.releaseNFS(podUID), v.releaseImages(podUID), v.releaseDevices(podUID)); err != nil {
		return fmt.Errorf("pod %s: %w", podUID, err)
	}
	crash.At("volume.unmount.before")
	unmountOwn(v.statePod(podUID))
	crash.At("volume.unmount.after")
	for _, dir := range []string{v.statePod(podUID), v.rootPod(podUID)} {
		err := untrusted.Remove(ctx, dir)
		if errors.Is(err, untrusted.ErrMounted) {
			crash.At("volume.unmount-below.before")
			if err = UnmountBelow(dir); err == nil {
				crash.At("volume.unmount-below.after")
				err = untrusted.Remove(ctx, dir)
			}
		}
		if err != nil {
			return fmt.Errorf("pod %s: %w", podUID, err)
		}
		crash.At("volume.removed")
	}
	return nil
}

// Held lists the UIDs of the pods that have something on the host.
func (v *Volumes) Held() ([]string, error) {
	seen := map[string]struct{}{}
	for _, dir := range []string{v.rootPod(""), v.statePod("")} {
		uids, err := files.Names(dir)
		if err != nil {
			return nil, err
		}
		for _, uid := range uids {
			seen[uid] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(seen)), nil
}

func (v *Volumes) rootPod(uid string) string { return filepath.Join(layout.Root(v.root).Pods(), uid) }
func (v *Volumes) statePod(uid string) string {
	return filepath.Join(layout.State(v.state).Pods(), uid)
}

// own reports whether a path is jobd's root or state or below one of them.
func (v *Volumes) own(path string) bool {
	for _, dir := range []string{v.root, v.state} {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if path == dir || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/' {
			return true
		}
	}
	return false
}

// holdsOwn reports whether jobd's root or state is below a path.
func (v *Volumes) holdsOwn(path string) bool {
	for _, dir := range []string{v.root, v.state} {
		if real, err := realPath(dir); err != nil || strings.HasPrefix(real, strings.TrimSuffix(path, "/")+"/") {
			return true
		}
	}
	return false
}

func isTrue(b *bool) bool { return b != nil && *b }

// makeDir ensures that a directory exists, created with exactly that mode, whatever the umask.
func makeDir(path string, mode os.FileMode, unixMode uint32) error {
	if err := os.Mkdir(path, mode); errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return unix.Chmod(path, unixMode)
}
