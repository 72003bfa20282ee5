package sandbox

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/claim"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/volume"
)

// PodFiles finds the files that pods have left. It implements server.PodFiles.
type PodFiles struct {
	Claims
	Volumes *volume.Volumes
	// Roots shows the roots of containers that have ended.
	Roots interface {
		WithFiles(ctx context.Context, id string, f func(root string) error) error
	}
}

// WithFiles calls f with a directory and a path in it, which is where a path in a container of a pod that has ended leads:
// to the container's root, to a volume that its image declares, to an emptyDir, or to a claim whose volume jobd has created.
// What comes from elsewhere is refused: the client may not be allowed to read it there.
func (x PodFiles) WithFiles(ctx context.Context, p *corev1.Pod, container, name string, f func(dir, path string) error) error {
	status := podspec.ContainerStatus(p, container)
	if status == nil || status.State.Terminated == nil {
		return fmt.Errorf("container %s of pod %s/%s has not ended: %w", container, p.Namespace, p.Name, errdefs.ErrFailedPrecondition)
	}
	name = path.Clean("/" + name)
	m := mountOf(p, container, name)
	dir, place := x.Volumes.LeftDeclared(p, container, int(status.RestartCount), name)
	if dir != "" && (m == nil || len(place) > len(path.Clean("/"+m.MountPath))) {
		return f(dir, path.Join("/", strings.TrimPrefix(name, place)))
	}
	if m == nil {
		id := runtime.ContainerID(string(p.UID), container, int(status.RestartCount))
		err := x.Roots.WithFiles(ctx, id, func(root string) error { return f(root, name) })
		if errdefs.IsNotFound(err) {
			return x.gone(p)
		}
		return err
	}
	if m.SubPathExpr != "" {
		return fmt.Errorf("%s is in volume %s with a subPathExpr, which is not resolved: %w", name, m.Name, errdefs.ErrFailedPrecondition)
	}
	rest := path.Join("/", m.SubPath, strings.TrimPrefix(name, path.Clean("/"+m.MountPath)))
	v := volumeOf(p, m.Name)
	switch {
	case v == nil:
	case v.EmptyDir != nil:
		dir, ok := x.Volumes.Left(p, v)
		if !ok {
			return x.gone(p)
		}
		return f(dir, rest)
	case v.PersistentVolumeClaim != nil:
		obj := &corev1.PersistentVolumeClaim{}
		if ok, err := x.get(claim.Key(p.Namespace, v.PersistentVolumeClaim.ClaimName), obj); err != nil {
			return err
		} else if !ok {
			return fmt.Errorf("claim %s: %w", v.PersistentVolumeClaim.ClaimName, errdefs.ErrNotFound)
		}
		dir, err := x.Files(ctx, obj)
		if err != nil {
			return err
		}
		return f(dir, rest)
	}
	return fmt.Errorf("%s is in volume %s, and only the files of emptyDirs and claims can be copied: %w", name, m.Name, errdefs.ErrFailedPrecondition)
}

// gone says why the files of a pod are not there.
func (x PodFiles) gone(p *corev1.Pod) error {
	return fmt.Errorf("the files of pod %s/%s are gone: they are kept after its end only with the annotation jobd.dev/keep-files, "+
		"for that time at most, and as far as a ResourceQuota allows: %w",
		p.Namespace, p.Name, errdefs.ErrNotFound)
}

// mountOf returns the volume mount of a container that a path leads into; nil for none.
func mountOf(p *corev1.Pod, container, name string) (in *corev1.VolumeMount) {
	longest := -1
	for c := range podspec.Containers(&p.Spec) {
		for i := range c.VolumeMounts {
			at := path.Clean("/" + c.VolumeMounts[i].MountPath)
			if c.Name == container && (name == at || strings.HasPrefix(name, at+"/")) && len(at) > longest {
				in, longest = &c.VolumeMounts[i], len(at)
			}
		}
	}
	return in
}

func volumeOf(p *corev1.Pod, name string) *corev1.Volume {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return &p.Spec.Volumes[i]
		}
	}
	return nil
}
