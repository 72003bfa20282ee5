package containerd

import (
	"errors"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/cgroup"
)

// Freeze stops the processes of a container by its control group, or lets them go on.
func (r *Runtime) Freeze(podUID, id string, freeze bool) error {
	if _, err := r.running(id); err != nil {
		return fmt.Errorf("freeze container %s: %w", id, err)
	}
	var err error
	for _, group := range r.groups(podUID, id) {
		if err = r.cgroups.Freeze(group, freeze); !errors.Is(err, errdefs.ErrNotFound) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("freeze container %s: %w", id, err)
	}
	return nil
}

// podOf returns the UID of a container's pod.
func (r *Runtime) podOf(c *container) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.status.PodUID
}

// groups returns the control groups of which a container is in one.
func (r *Runtime) groups(podUID, id string) []string {
	parent := r.config.CgroupParent
	return []string{cgroup.PodGroup(parent, podUID) + "/" + id, parent + "/" + id}
}

// release lets a container that was killed end if it is frozen: its shard does so too, unless an older version has started that.
func (r *Runtime) release(podUID, id string) {
	for _, group := range r.groups(podUID, id) {
		r.cgroups.Release(group)
	}
}

// refuseFrozen returns an error for a container that is frozen: what is started in it would be, too, together with the OCI runtime.
func (r *Runtime) refuseFrozen(podUID, id string) error {
	for _, group := range r.groups(podUID, id) {
		if r.cgroups.Frozen(group) {
			return fmt.Errorf("it is paused, and nothing can run in it before it goes on: %w", errdefs.ErrFailedPrecondition)
		}
	}
	return nil
}
