package node

import (
	"k8s.io/apimachinery/pkg/types"
)

// Group is what admission needs of a PodGroup.
type Group struct {
	// Gang says that its pods wait until MinCount of them can start (GangSchedulingPolicy). Pods of any other group are
	// admitted one by one.
	Gang     bool
	MinCount int
	// Once says that they wait for each other only until the gang has started, and Began that it has.
	Once, Began bool
	// All says that its pods are preempted together or not at all (DisruptionMode).
	All bool
}

// GroupKey returns the key of a PodGroup.
func GroupKey(namespace, name string) string { return namespace + "/" + name }

// group is a PodGroup with its pods.
type group struct {
	Group
	key   string
	known bool // the object exists
	gang  bool // and it is one
	size  int  // how many of its pods there will be at most, -1 if it is not known
	bound int
	// members are the pods that wait. Those of a gang wait in its line, and shapes counts them.
	members map[types.UID]*waiter
	line    *line
	shapes  map[*shape]int
	// kept counts the nominated ones.
	kept int
	// seen is the last of the rules that all in its line were compared with, or notSeen.
	seen int
}

// notSeen is before the first rule, and before none.
const notSeen = -1

// SetGroup folds in a PodGroup that is new or has changed.
func (n *Node) SetGroup(key string, g Group) {
	n.regroup(n.group(key), g, true)
}

// DropGroup folds in that a PodGroup is gone. Pods that name it wait for another one of that name.
func (n *Node) DropGroup(key string) {
	if g, ok := n.groups[key]; ok {
		n.regroup(g, Group{}, false)
		n.forgetGroup(g)
	}
}

// Resize sets how many pods of a gang there will be at most from now on. If they are fewer than MinCount, since the
// others have finished, no more are waited for.
func (n *Node) Resize(key string, size int) {
	if g := n.group(key); g.size != size {
		g.size = size
		n.reconsider(g)
	}
}

func (n *Node) regroup(g *group, spec Group, known bool) {
	if g.Group == spec && g.known == known {
		return
	}
	moves := g.known != known || g.Group.Gang != spec.Gang
	if moves {
		for _, w := range g.members {
			n.remove(w)
		}
	}
	g.Group, g.known, g.gang = spec, known, known && spec.Gang
	if moves {
		for _, w := range g.members {
			n.enqueue(w)
		}
		g.seen = notSeen
	}
	n.reconsider(g)
}

// reconsider looks again at a group that has changed.
func (n *Node) reconsider(g *group) {
	for uid := range g.members {
		n.changed = append(n.changed, uid)
	}
	if g.line.state == blocked {
		n.look(g.line)
	}
}

// need returns how many pods of a gang have to be on the node together.
func (g *group) need() int {
	if g.Began {
		return 0
	}
	if g.size >= 0 {
		return min(g.MinCount, g.size)
	}
	return g.MinCount
}

func (n *Node) group(key string) *group {
	g := n.groups[key]
	if g == nil {
		g = &group{key: key, size: -1, seen: notSeen, members: map[types.UID]*waiter{}, line: &line{}, shapes: map[*shape]int{}}
		g.line.gang = g
		n.groups[key] = g
	}
	return g
}

// groupOf returns the group of a pod, nil if it has none.
func (n *Node) groupOf(p *Pod) *group {
	if key := p.Group(); key != "" {
		return n.group(key)
	}
	return nil
}

// Together reports whether a bound pod is preempted only together with all of its group.
func (n *Node) Together(uid types.UID) bool {
	b, ok := n.bound[uid]
	if !ok || b.Group() == "" {
		return false
	}
	return n.groupOf(b.Pod).All
}

// forgetGroup forgets a group of which nothing is left.
func (n *Node) forgetGroup(g *group) {
	if !g.known && g.bound+len(g.members) == 0 {
		delete(n.groups, g.key)
	}
}
