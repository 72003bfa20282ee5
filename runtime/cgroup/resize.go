package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Resize is what is to become of the groups of a pod and its containers.
type Resize struct {
	UID string
	// Pod are the limits of the pod's own group; nil if it has none.
	Pod *specs.LinuxResources
	// Containers are those whose groups change.
	Containers []ResizedContainer
	// Loosen leaves the limits of the pod as wide as they are, for containers that keep theirs for now.
	Loosen bool
}

// ResizedContainer is a running container and its new limits.
type ResizedContainer struct {
	Name, ID string
	Limits   *specs.LinuxResources
}

// Resize changes the limits of a pod and its containers. If one of them uses more memory than it would be left, none is
// changed. A container that has ended meanwhile is left out.
func (p *Pods) Resize(r Resize) error {
	h, group := p.hierarchies, p.group(r.UID)
	if !h.exists(group) {
		r.Pod = nil
	}
	of := func(id string) string { // those for debugging may be in a group of their own
		if in := group + "/" + id; h.exists(in) {
			return in
		}
		return p.parent + "/" + id
	}
	var short []error
	check := func(what string, now bounds, limits *specs.LinuxResources) {
		if limits == nil || limits.Memory == nil || limits.Memory.Limit == nil {
			return
		}
		limit := *limits.Memory.Limit
		if (now.memoryLimit == unlimited || limit < now.memoryLimit) && now.memory >= limit {
			short = append(short,
				fmt.Errorf("attempting to set %s memory limit (%d) below current usage (%d)", what, limit, now.memory))
		}
	}
	was := h.bounds(group)
	if !r.Loosen {
		check("pod", was, r.Pod)
	}
	for _, c := range r.Containers {
		check(fmt.Sprintf("container %q", c.Name), h.bounds(of(c.ID)), c.Limits)
	}
	if len(short) > 0 {
		return fmt.Errorf("cannot decrease memory limits: %w", joined(short))
	}
	// The kernel takes no quota of a group that is larger than that of the group around it.
	if r.Pod != nil {
		if err := h.Change(group, widest(was, r.Pod)); err != nil {
			return fmt.Errorf("control group of pod %s: %w", r.UID, err)
		}
	}
	for _, c := range r.Containers {
		if err := h.Change(of(c.ID), c.Limits); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("control group of container %s: %w", c.Name, err)
		}
	}
	if r.Pod != nil && !r.Loosen {
		if err := h.Change(group, r.Pod); err != nil {
			return fmt.Errorf("control group of pod %s: %w", r.UID, err)
		}
	}
	return nil
}

// widest returns the limits that are wider, each of those that a group has and those that it is to have.
func widest(was bounds, r *specs.LinuxResources) *specs.LinuxResources {
	cpu := *r.CPU
	if cpu.Quota != nil && (was.quota == unlimited || was.quota > *cpu.Quota) {
		cpu.Quota = nil
		if was.quota != unlimited {
			cpu.Quota = &was.quota
		}
	}
	out := &specs.LinuxResources{CPU: &cpu, Memory: r.Memory}
	if r.Memory != nil && r.Memory.Limit != nil && (was.memoryLimit == unlimited || was.memoryLimit > *r.Memory.Limit) {
		out.Memory = nil
		if was.memoryLimit != unlimited {
			out.Memory = &specs.LinuxMemory{Limit: &was.memoryLimit}
		}
	}
	return out
}

// joined shows several errors as a kubelet does.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Error()
	}
	return errors.New("[" + strings.Join(all, ", ") + "]")
}

func (h Hierarchies) exists(group string) bool {
	return slices.ContainsFunc(h.all, func(one hierarchy) bool {
		_, err := os.Stat(one.dir(group))
		return err == nil
	})
}
