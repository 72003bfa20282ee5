package disk

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/eviction"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/untrusted"
	"github.com/jobd/jobd/runtime/volume"
)

// Usage measures what pods use of this machine's disk. Its methods may be called from any goroutine.
type Usage struct {
	Runtime *containerd.Runtime
	Volumes *volume.Volumes
	// LogPath returns the log file of an attempt of a container.
	LogPath func(p *corev1.Pod, container string, attempt int) string
}

// OverLimit returns, in a kubelet's words, a limit that a pod has exceeded; empty if there is none. For a pod that has ended, it is
// what it may keep of its files where a ResourceQuota counts them: no more than it requests.
func (d Usage) OverLimit(p *corev1.Pod) string {
	if podspec.Ended(p) {
		return overKept(p, d.use(p, unlinked{}))
	}
	unlinked := d.unlinked(p)
	if over := d.Volumes.OverLimit(p, unlinked.volumes); over != "" || !objects.StorageLimited(&p.Spec) {
		return over
	}
	use := d.use(p, unlinked)
	for name, written := range use.Containers {
		use.Containers[name] = written.Plus(eviction.Size(untrusted.Usage(filepath.Dir(d.LogPath(p, name, 0)))))
	}
	return overStorageLimit(p, use.Containers, use.Volumes)
}

// use returns what a pod uses as long as it exists; its logs stay.
func (d Usage) use(p *corev1.Pod, unlinked unlinked) eviction.Use {
	use := eviction.Use{Pod: p, Containers: d.ofContainers(p), Volumes: eviction.Size(d.Volumes.Usage(p))}
	for _, used := range unlinked.volumes {
		use.Volumes = use.Volumes.Plus(eviction.Size(used))
	}
	for name, used := range unlinked.containers {
		use.Containers[name] = use.Containers[name].Plus(eviction.Size(used))
	}
	return use
}

// unlinked is what a pod uses in files that have no name any more, by the names of its emptyDirs and of its containers.
type unlinked struct{ volumes, containers map[string]untrusted.Used }

// unlinked looks for such files among those that the pod's processes have open or mapped.
func (d Usage) unlinked(p *corev1.Pod) unlinked {
	containers := map[int]string{} // by the numbers of their processes
	held, err := d.Runtime.Containers(context.Background())
	if err != nil {
		return unlinked{}
	}
	for _, c := range held {
		if c.PodUID == string(p.UID) {
			for _, pid := range d.Runtime.Processes(c.PodUID, c.ID) {
				containers[pid] = c.Name
			}
		}
	}
	const volumePrefix, containerPrefix = "volume/", "container/"
	found := untrusted.Unlinked(slices.Collect(maps.Keys(containers)), func(pid int, m *mountinfo.Info) string {
		if name := volume.EmptyDirOf(p, m.Root); name != "" {
			return volumePrefix + name
		}
		if name := volume.DeclaredOf(p, m.Root); name != "" {
			return containerPrefix + name
		}
		if m.Mountpoint == "/" {
			return containerPrefix + containers[pid]
		}
		return ""
	})
	out := unlinked{map[string]untrusted.Used{}, map[string]untrusted.Used{}}
	for key, used := range found {
		if name, ok := strings.CutPrefix(key, volumePrefix); ok {
			out.volumes[name] = used
		} else {
			out.containers[strings.TrimPrefix(key, containerPrefix)] = used
		}
	}
	return out
}

// holds reports whether a pod still uses any space.
func (d Usage) holds(p *corev1.Pod) bool {
	use := d.use(p, unlinked{})
	return use.Volumes.Bytes > 0 || len(use.Containers) > 0
}

// ofContainers returns what each container of a pod has written to its root file system, and has in the volumes that its
// image declares.
func (d Usage) ofContainers(p *corev1.Pod) map[string]eviction.Size {
	used := map[string]eviction.Size{}
	ctx := context.Background()
	held, err := d.Runtime.Containers(ctx)
	if err != nil {
		return used
	}
	for _, c := range held {
		if c.PodUID != string(p.UID) {
			continue
		}
		// A container that goes meanwhile uses nothing.
		if bytes, inodes, err := d.Runtime.Written(ctx, c.ID); err == nil {
			used[c.Name] = used[c.Name].Plus(eviction.Size{Bytes: bytes, Inodes: inodes}).
				Plus(eviction.Size(d.Volumes.DeclaredUsage(c.PodUID, c.Name, c.Attempt)))
		}
	}
	return used
}

// overKept checks what a pod has left.
func overKept(p *corev1.Pod, left eviction.Use) string {
	all := left.Volumes.Bytes
	for _, written := range left.Containers {
		all += written.Bytes
	}
	requested := resource.PodRequests(p, resource.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	if all <= requested.Value() {
		return ""
	}
	return fmt.Sprintf("The files of the pod are not kept: they take %d bytes, and it requests %s of ephemeral-storage, which a ResourceQuota limits.",
		all, requested.String())
}

// overStorageLimit checks what the containers of a pod use, each by itself, and all of them together with the pod's
// volumes.
func overStorageLimit(p *corev1.Pod, containers map[string]eviction.Size, volumes eviction.Size) string {
	all := volumes.Bytes
	for _, used := range containers {
		all += used.Bytes
	}
	total, limited := resource.PodLimits(p, resource.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]
	if limited && all > podspec.Amount(total) {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ",
			total.String())
	}
	for c := range podspec.Containers(&p.Spec) {
		limit, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		if ok && containers[c.Name].Bytes > podspec.Amount(limit) {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return ""
}
