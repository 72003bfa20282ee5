package control

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/events"
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

	started  bool     // the events about this start are written
	cordoned bool     // as it was seen last
	untold   []string // changes of cordoned that no event says yet, in a kubelet's words
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
	n.cordoned, n.untold = stored.Spec.Unschedulable, nil
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
	if n.cordoned == stored.Spec.Unschedulable {
		return
	}
	n.cordoned = stored.Spec.Unschedulable
	if n.cordoned {
		n.untold = append(n.untold, "NodeNotSchedulable")
	} else {
		n.untold = append(n.untold, "NodeSchedulable")
	}
}

// Dirty implements loop.Controller.
func (n *nodeObject) Dirty() bool { return !n.shown || len(n.untold) > 0 }

// Settle writes the node as it now is. It leaves alone what belongs to others: the spec, which has the cordon, and
// their labels and annotations.
func (n *nodeObject) Settle(p *loop.Pass) (bool, error) {
	untold := n.untold
	n.untold = nil
	for _, status := range untold {
		if err := n.event(p, corev1.EventTypeNormal, status, "Node "+n.name()+" status is now: "+status); err != nil {
			return true, err
		}
	}
	if n.shown {
		return len(untold) > 0, nil
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
	if err := n.begun(p, shown.Status.NodeInfo.BootID); err != nil {
		return true, err
	}
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

// begun records that the daemon has started, and that the host has too if it was another boot that the node showed before:
// then the containers of that boot are lost.
func (n *nodeObject) begun(p *loop.Pass, boot string) error {
	if n.started {
		return nil
	}
	n.started = true
	if now := n.self.Status.NodeInfo.BootID; boot != "" && boot != now {
		message := "Node " + n.name() + " has been rebooted, boot id: " + now
		if err := n.event(p, corev1.EventTypeWarning, "Rebooted", message); err != nil {
			return err
		}
	}
	return n.event(p, corev1.EventTypeNormal, "Starting", "Starting jobd.")
}

func (n *nodeObject) name() string {
	_, name := objects.NameOf(n.key)
	return name
}

// event records an event about the node. A kubelet uses the name of its Node as the UID.
func (n *nodeObject) event(p *loop.Pass, kind, reason, message string) error {
	about := corev1.ObjectReference{Kind: "Node", Name: n.name(), UID: types.UID(n.name())}
	return p.Event(about, events.Kubelet, kind, reason, message)
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
