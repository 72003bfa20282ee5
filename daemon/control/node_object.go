package control

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// nodeObject shows the node as it is, and takes in what others write to it: the cordon, taints and labels.
type nodeObject struct {
	loop.Base
	self     *corev1.Node // as it should be; nil if there is none
	key      string
	capacity *node.Node
	taints   *taints
	shown    bool // the stored object is as it should be
}

func newNodeObject(self *corev1.Node, name string, capacity *node.Node, taints *taints) *nodeObject {
	return &nodeObject{self: self, key: store.Key(objects.Nodes, "", name), capacity: capacity, taints: taints}
}

// Rebuild takes in the node as it is stored.
func (n *nodeObject) Rebuild(s *store.Snapshot, _ time.Time) error {
	stored := &corev1.Node{}
	if ok, err := objects.Read(s, n.key, stored); err != nil || !ok {
		return err
	}
	n.set(stored)
	return nil
}

// Fold takes in the cordon and taints (NodeSpec), and writes the node again when somebody has deleted it.
func (n *nodeObject) Fold(_ *loop.Pass, c loop.Change) error {
	if c.Object.Key != n.key {
		return nil
	}
	if c.Deleted {
		n.shown = false
		return nil
	}
	stored := &corev1.Node{}
	if err := objects.Decode(c.Object, stored); err != nil {
		return err
	}
	n.set(stored)
	return nil
}

func (n *nodeObject) set(stored *corev1.Node) {
	n.capacity.Describe(stored)
	n.taints.set(stored.Spec.Taints)
}

// Dirty implements loop.Controller.
func (n *nodeObject) Dirty() bool { return !n.shown }

// Settle writes the node as it now is. It leaves alone what belongs to others: the spec, which has the cordon, and
// their labels and annotations.
func (n *nodeObject) Settle(p *loop.Pass) (bool, error) {
	if n.shown {
		return false, nil
	}
	n.shown = true
	if n.self == nil {
		return true, nil
	}
	shown := &corev1.Node{}
	if ok, err := objects.Read(p, n.key, shown); err != nil {
		return true, err
	} else if !ok {
		shown.Name, shown.UID, shown.CreationTimestamp = n.self.Name, uuid.NewUUID(), metav1.NewTime(p.Now)
	}
	if shown.Labels == nil {
		shown.Labels = map[string]string{}
	}
	maps.Copy(shown.Labels, n.self.Labels)
	before, images := shown.Status.Conditions, shown.Status.Images
	n.self.Status.DeepCopyInto(&shown.Status)
	shown.Status.Images = images // daemon/disk keeps them up to date
	for i := range shown.Status.Conditions {
		c := &shown.Status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(p.Now), metav1.NewTime(p.Now)
		for _, b := range before {
			if objects.UnderDiskPressure(b) && b.Type == c.Type {
				*c = b // daemon/disk keeps it up to date
			}
			if b.Type == c.Type && b.Status == c.Status {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
	n.set(shown)
	return true, p.Put(n.key, shown)
}

// renameNode gives the node's object the name that the machine has now. What others have written to it, above all the
// cordon, applies to the machine whatever its name is.
func renameNode(ctx context.Context, s *store.Store, self *corev1.Node) error {
	if self == nil || self.Status.NodeInfo.MachineID == "" {
		return nil
	}
	return s.Update(ctx, func(tx *store.Tx) (err error) {
		key := store.Key(objects.Nodes, "", self.Name)
		if _, ok := tx.Get(key); ok {
			return nil
		}
		tx.Range(objects.Nodes+"/", "", func(o store.Object) bool {
			node := &corev1.Node{}
			if err = objects.Decode(o, node); err != nil {
				return false
			}
			if node.Status.NodeInfo.MachineID != self.Status.NodeInfo.MachineID {
				return true // a node that somebody else has created
			}
			tx.Delete(o.Key)
			node.Name, node.UID, node.ResourceVersion = self.Name, uuid.NewUUID(), ""
			var value []byte
			if value, err = scheme.Encode(node); err == nil {
				tx.Put(store.Object{Key: key, UID: string(node.UID), Value: value})
			}
			return false
		})
		return err
	})
}
