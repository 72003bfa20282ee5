package daemon

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// showNode writes the node as it is now, and leaves alone what is others' of it: its spec, by which it is cordoned, and
// their labels and annotations.
func (p *pass) showNode() error {
	p.records.nodeShown = true
	if p.self == nil {
		return nil
	}
	key := store.Key(nodes, "", p.self.Name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.self.Name, UID: uuid.NewUUID(), CreationTimestamp: metav1.NewTime(p.now)}}
	if stored, ok := p.tx.Get(key); ok {
		*node = corev1.Node{}
		if err := decode(stored, node); err != nil {
			return err
		}
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, p.self.Labels)
	before, images := node.Status.Conditions, node.Status.Images
	p.self.Status.DeepCopyInto(&node.Status)
	node.Status.Images = images // what is here is seen to by imageGC
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(p.now), metav1.NewTime(p.now)
		for _, b := range before {
			if objects.UnderDiskPressure(b) && b.Type == c.Type {
				*c = b // diskPressure sees to it
			}
			if b.Type == c.Type && b.Status == c.Status {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	p.records.setNode(node)
	return p.put(key, node)
}

// foldNode follows the cordon and taints (NodeSpec), and shows the node again when somebody has deleted it.
func (p *pass) foldNode(c store.Change) error {
	if c.Object.Key != store.Key(nodes, "", p.host.Name) {
		return nil
	}
	if c.Deleted {
		p.records.nodeShown = false
		return nil
	}
	node := &corev1.Node{}
	if err := decode(c.Object, node); err != nil {
		return err
	}
	p.records.setNode(node)
	return nil
}

// readNode takes in the node as it is stored.
func (r *records) readNode(s *store.Snapshot) error {
	stored, ok := s.Get(store.Key(nodes, "", r.room.name))
	if !ok {
		return nil
	}
	node := &corev1.Node{}
	if err := decode(stored, node); err != nil {
		return err
	}
	r.setNode(node)
	return nil
}

// setNode takes in what others say of the node: the cordon, taints and labels.
func (r *records) setNode(node *corev1.Node) {
	r.node.Describe(node)
	r.setTaints(node.Spec.Taints)
}
