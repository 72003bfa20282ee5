package disk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// limitTime is how long it may take to count the files of a pod whose storage is limited.
const limitTime = 10 * time.Minute

// Usage measures what pods use of this machine's disk. Its methods may be called from any goroutine.
type Usage struct {
	Runtime *containerd.Runtime
	Volumes *volume.Volumes
	// LogPath returns the log file of an attempt of a container.
	LogPath func(p *corev1.Pod, container string, attempt int) string
}

// OverLimit returns, in a kubelet's words, a limit that a pod has exceeded; empty if there is none. For a pod that has ended, it is
// what it may keep of its files where a ResourceQuota counts them: no more than it requests.
//
// A pod whose files cannot be counted within limitTime has exceeded it: otherwise it could hide the rest for ever by making
// files all the time. If the context ends before that, nothing is known.
func (d Usage) OverLimit(ctx context.Context, p *corev1.Pod) string {
	counting, cancel := context.WithTimeout(ctx, limitTime)
	defer cancel()
	over, err := d.overLimit(counting, p)
	switch {
	case over != "" || err == nil:
		return over
	case ctx.Err() != nil:
		return ""
	}
	return fmt.Sprintf("The files of the pod, whose local ephemeral storage is limited, could not be counted in %v. ", limitTime)
}

// overLimit is OverLimit until the context ends, whose error it then returns.
func (d Usage) overLimit(ctx context.Context, p *corev1.Pod) (string, error) {
	if podspec.Ended(p) {
		use, err := d.left(ctx, p)
		return overKept(p, use), err
	}
	unlinked, err := d.unlinked(ctx, p)
	if err != nil {
		return "", err
	}
	if over, err := d.Volumes.OverLimit(ctx, p, unlinked.volumes); over != "" || err != nil || !objects.StorageLimited(&p.Spec) {
		return over, err
	}
	use, err := d.left(ctx, p)
	add(&use, unlinked)
	for name, written := range use.Containers {
		logs, failed := untrusted.Usage(ctx, filepath.Dir(d.LogPath(p, name, 0)))
		use.Containers[name] = written.Plus(eviction.Size(logs))
		err = cmp.Or(err, failed)
	}
	return overStorageLimit(p, use.Containers, use.Volumes), err
}

// use returns what a pod uses as long as it exists; its logs stay. What was seen when the context ends is a part of that.
func (d Usage) use(ctx context.Context, p *corev1.Pod) (eviction.Use, error) {
	use, err := d.left(ctx, p)
	if err != nil {
		return use, err
	}
	unlinked, err := d.unlinked(ctx, p)
	add(&use, unlinked)
	return use, err
}

// left is use without files that have no name any more, of which there are none where no process is left.
func (d Usage) left(ctx context.Context, p *corev1.Pod) (eviction.Use, error) {
	containers, err := d.ofContainers(ctx, p)
	use := eviction.Use{Pod: p, Containers: containers}
	if err != nil {
		return use, err
	}
	volumes, err := d.Volumes.Usage(ctx, p)
	use.Volumes = eviction.Size(volumes)
	return use, err
}

// add adds files without names to what a pod uses.
func add(use *eviction.Use, unlinked unlinked) {
	for _, used := range unlinked.volumes {
		use.Volumes = use.Volumes.Plus(eviction.Size(used))
	}
	for name, used := range unlinked.containers {
		use.Containers[name] = use.Containers[name].Plus(eviction.Size(used))
	}
}

// unlinked is what a pod uses in files that have no name any more, by the names of its emptyDirs and of its containers.
type unlinked struct{ volumes, containers map[string]untrusted.Used }

// unlinked looks for such files among those that the pod's processes have open or mapped.
func (d Usage) unlinked(ctx context.Context, p *corev1.Pod) (unlinked, error) {
	containers := map[int]string{} // by the numbers of their processes
	held, err := d.Runtime.Containers(ctx)
	if err != nil {
		return unlinked{}, ctx.Err()
	}
	for _, c := range held {
		if c.PodUID == string(p.UID) {
			for _, pid := range d.Runtime.Processes(c.PodUID, c.ID) {
				containers[pid] = c.Name
			}
		}
	}
	const volumePrefix, containerPrefix = "volume/", "container/"
	found, err := untrusted.Unlinked(ctx, slices.Collect(maps.Keys(containers)), func(pid int, m *mountinfo.Info) string {
		if m == nil {
			return containerPrefix + containers[pid] // of another pod, for which it does not count any more
		}
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
	return out, err
}

// holds reports whether a pod still uses any space, as far as that is found in a moment: some is found at once.
func (d Usage) holds(ctx context.Context, p *corev1.Pod) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	use, err := d.left(ctx, p)
	return use.Volumes.Bytes > 0 || len(use.Containers) > 0 || err != nil
}

// ofContainers returns what each container of a pod has written to its root file system, and has in the volumes that its
// image declares.
func (d Usage) ofContainers(ctx context.Context, p *corev1.Pod) (map[string]eviction.Size, error) {
	used := map[string]eviction.Size{}
	held, err := d.Runtime.Containers(ctx)
	if err != nil {
		return used, ctx.Err()
	}
	for _, c := range held {
		if c.PodUID != string(p.UID) {
			continue
		}
		bytes, inodes, err := d.Runtime.Written(ctx, c.ID)
		if ctx.Err() == nil && err != nil {
			continue // a container that goes meanwhile uses nothing
		}
		used[c.Name] = used[c.Name].Plus(eviction.Size{Bytes: bytes, Inodes: inodes})
		declared, err := d.Volumes.DeclaredUsage(ctx, c.PodUID, c.Name, c.Attempt)
		used[c.Name] = used[c.Name].Plus(eviction.Size(declared))
		if err != nil {
			return used, err
		}
	}
	return used, ctx.Err()
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
