package node

import (
	"k8s.io/apimachinery/pkg/types"
)

// Group is what admission looks at of a PodGroup.
type Group struct {
	// Gang says that its pods start once MinCount of them can, and wait until then (GangSchedulingPolicy). Those of another
	// group are admitted one by one.
	Gang     bool
	MinCount int
	// All says that making way is for all of them or none (DisruptionMode).
	All bool
}

// GroupKey names a group of a namespace.
func GroupKey(namespace, name string) string { return namespace + "/" + name }

// group is a PodGroup with its pods.
type group struct {
	Group
	key   string
	known bool // there is such an object
	gang  bool // and it is one
	size  int  // how many of its pods there will be at most, -1 if nobody has said
	bound int
	// members are those that wait, in a line of their own if they are a gang, and then shapes counts them by what they want.
	members map[types.UID]*waiter
	line    *line
	shapes  map[*shape]int
	// kept counts those for whom room is kept.
	kept int
}

// SetGroup takes in a PodGroup that is new or has changed.
func (n *Node) SetGroup(key string, g Group) {
	n.regroup(n.group(key), g, true)
}

// DropGroup follows the end of a PodGroup. Pods that name it wait for another one of that name.
func (n *Node) DropGroup(key string) {
	if g, ok := n.groups[key]; ok {
		n.regroup(g, Group{}, false)
		n.forgetGroup(g)
	}
}

// Resize says how many pods of a gang there will be at most from now on: one that is smaller than its MinCount, since
// the others have done their work, needs no more than there are.
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
			n.place(w)
		}
	}
	n.reconsider(g)
}

// reconsider looks at a group again that has changed.
func (n *Node) reconsider(g *group) {
	for uid := range g.members {
		n.changed = append(n.changed, uid)
	}
	if g.line.state == blocked {
		n.look(g.line)
	}
}

// need is how many pods of a gang have to be on the node or come onto it together.
func (g *group) need() int {
	if g.size >= 0 {
		return min(g.MinCount, g.size)
	}
	return g.MinCount
}

func (n *Node) group(key string) *group {
	g := n.groups[key]
	if g == nil {
		g = &group{key: key, size: -1, members: map[types.UID]*waiter{}, line: &line{}, shapes: map[*shape]int{}}
		g.line.gang = g
		n.groups[key] = g
	}
	return g
}

// groupOf gives the group of a pod, nil if it has none.
func (n *Node) groupOf(p *Pod) *group {
	if p.Group == "" {
		return nil
	}
	return n.group(p.Group)
}

// Together tells whether a pod that runs makes way only with all of its group.
func (n *Node) Together(uid types.UID) bool {
	b, ok := n.bound[uid]
	if !ok || b.Group == "" {
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
