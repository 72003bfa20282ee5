package cgroup

import (
	"fmt"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// PodPrefix begins the names of pods' groups.
const PodPrefix = "pod-"

// Pods holds the groups of pods that have one of their own. The groups of their containers are in them.
type Pods struct {
	parent      string
	hierarchies Hierarchies
}

// OpenPods finds where pods' groups are to be made, below a parent: runtime.CgroupParent(root).
func OpenPods(parent string) (*Pods, error) {
	h, err := Find()
	if err != nil {
		return nil, err
	}
	return &Pods{parent, h}, nil
}

// SetUp makes the group of a pod with its limits, and returns it. One in which something runs keeps those that it has:
// only Resize looks at what is in use first.
func (p *Pods) SetUp(uid string, limits *specs.LinuxResources) (string, error) {
	group := p.group(uid)
	if len(p.hierarchies.Processes(group)) > 0 {
		return group, nil
	}
	if err := p.hierarchies.Limit(group, limits); err != nil {
		return "", fmt.Errorf("control group of pod %s: %w", uid, err)
	}
	return group, nil
}

// TearDown removes the group of a pod, if it has one, with everything that runs in it.
func (p *Pods) TearDown(uid string) error { return p.hierarchies.RemoveAll(p.group(uid)) }

// Left returns how much memory files take that a pod has left in memory, with others: none of its processes runs any more.
func (p *Pods) Left(uid string) int64 {
	group := p.group(uid)
	if len(p.hierarchies.Processes(group)) > 0 {
		return 0
	}
	return p.hierarchies.Shared(group)
}

// Held returns the UIDs of the pods that have a group.
func (p *Pods) Held() (uids []string, err error) {
	names, err := p.hierarchies.Children(p.parent)
	for _, name := range names {
		if uid, ok := strings.CutPrefix(name, PodPrefix); ok {
			uids = append(uids, uid)
		}
	}
	return uids, err
}

func (p *Pods) group(uid string) string { return PodGroup(p.parent, uid) }

// PodGroup returns the group of a pod below a parent. A pod of one container that runs once may have none, and its containers
// are directly below the parent.
func PodGroup(parent, uid string) string { return parent + "/" + PodPrefix + uid }
