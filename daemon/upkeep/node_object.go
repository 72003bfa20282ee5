package upkeep

import (
	"context"
	"sync/atomic"
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
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/store"
)

// NodeObject shows the node as it is, and takes in what others write to it: the cordon, taints, labels, and extended
// resources (NodeStatus.Capacity).
type NodeObject struct {
	loop.Base
	self     *corev1.Node // as it should be; nil if there is none
	key      string
	capacity *node.Node
	taints   Taints
	shown    bool // the stored object is as it should be

	// allocatable is what pods may request without what self does not know of, nil for anything. devices returns what
	// CDI files offer, and changed says that it may return something else than before.
	allocatable requests.Resources
	devices     func() corev1.ResourceList
	changed     *atomic.Bool

	started  bool     // the events about this start are written
	cordoned bool     // as it was seen last
	untold   []string // changes of cordoned that no event says yet, in a kubelet's words
}

// Taints is told which taints the node has.
type Taints interface{ SetTaints([]corev1.Taint) }

// NodeOptions say what the node is.
type NodeOptions struct {
	Name string
	// Self is the node's object as it should be, without devices; nil if there is none.
	Self *corev1.Node
	// Allocatable is what pods may request together, besides devices; nil for anything.
	Allocatable requests.Resources
	// Devices returns how many devices of each kind there are now; nil means that there are none. Changed says that it may
	// return something else than before.
	Devices func() corev1.ResourceList
	Changed *atomic.Bool
}

// NewNodeObject makes the controller. It tells capacity what there is, and taints which pods have to leave.
func NewNodeObject(o NodeOptions, capacity *node.Node, taints Taints) *NodeObject {
	devices := o.Devices
	if devices == nil {
		devices = func() corev1.ResourceList { return nil }
	}
	return &NodeObject{
		self: o.Self, key: store.Key(objects.Nodes, "", o.Name), capacity: capacity, taints: taints,
		allocatable: o.Allocatable, devices: devices, changed: o.Changed,
	}
}

// Rebuild takes in the node as it is stored.
func (n *NodeObject) Rebuild(s *store.Snapshot, now time.Time) error {
	stored := &corev1.Node{}
	if ok, err := objects.Read(s, n.key, stored); err != nil || !ok {
		return err
	}
	n.set(stored)
	n.cordoned, n.untold = stored.Spec.Unschedulable, nil
	if n.self != nil {
		n.offer(n.status(stored, n.devices(), now))
	}
	return nil
}

// Fold takes in the cordon and taints (NodeSpec), and writes the node again when somebody has deleted it, or has changed
// what only the node itself can say.
func (n *NodeObject) Fold(p *loop.Pass, c loop.Change) error {
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
	n.shown = n.shown && (n.self == nil || !n.complete(stored.DeepCopy(), p.Now))
	return nil
}

func (n *NodeObject) set(stored *corev1.Node) {
	n.capacity.Describe(stored)
	n.taints.SetTaints(stored.Spec.Taints)
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
func (n *NodeObject) Dirty() bool { return !n.shown || len(n.untold) > 0 || n.changed.Load() }

// Settle writes the node as it now is. It leaves alone what belongs to others: the spec, which has the cordon, their
// labels and annotations, and what they have written into the status (NodeObject.status).
func (n *NodeObject) Settle(p *loop.Pass) (bool, error) {
	untold := n.untold
	n.untold = nil
	for _, status := range untold {
		if err := n.event(p, corev1.EventTypeNormal, status, "Node "+n.name()+" status is now: "+status); err != nil {
			return true, err
		}
	}
	if n.changed.Swap(false) {
		n.shown = false
	}
	if n.shown {
		return len(untold) > 0, nil
	}
	n.shown = true
	if n.self == nil {
		return true, nil
	}
	shown := &corev1.Node{}
	stored, err := objects.Read(p, n.key, shown)
	if err != nil {
		return true, err
	}
	if !stored {
		shown.Name, shown.UID, shown.CreationTimestamp = n.self.Name, uuid.NewUUID(), metav1.NewTime(p.Now)
	}
	boot := shown.Status.NodeInfo.BootID
	changed := n.complete(shown, p.Now)
	if err := n.begun(p, boot, shown.Status.Conditions); err != nil {
		return true, err
	}
	n.set(shown)
	if stored && !changed {
		return true, nil
	}
	return true, p.Put(n.key, shown)
}

// begun records that the daemon has started, and that the host has too if the node still shows another boot: the containers of
// that boot are lost. Like a kubelet it says at each start which conditions are fine.
func (n *NodeObject) begun(p *loop.Pass, boot string, conditions []corev1.NodeCondition) error {
	if n.started {
		return nil
	}
	n.started = true
	now := n.self.Status.NodeInfo.BootID
	if boot != "" && boot != now {
		message := "Node " + n.name() + " has been rebooted, boot id: " + now
		if err := n.event(p, corev1.EventTypeWarning, "Rebooted", message); err != nil {
			return err
		}
	}
	if err := n.event(p, corev1.EventTypeNormal, "Starting", "Starting jobd."); err != nil {
		return err
	}
	for _, c := range conditions {
		status := fine[c.Type]
		if status == "" || (c.Status == corev1.ConditionTrue) != (c.Type == corev1.NodeReady) {
			continue
		}
		if c.Type == corev1.NodeReady && boot == now {
			continue // it has been, all the time
		}
		if err := n.event(p, corev1.EventTypeNormal, status, "Node "+n.name()+" status is now: "+status); err != nil {
			return err
		}
	}
	return nil
}

// fine is what a kubelet says of conditions when all is well.
var fine = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: "NodeHasSufficientMemory", corev1.NodeDiskPressure: "NodeHasNoDiskPressure",
	corev1.NodePIDPressure: "NodeHasSufficientPID", corev1.NodeReady: "NodeReady",
}

func (n *NodeObject) name() string {
	_, name := objects.NameOf(n.key)
	return name
}

// event records an event about the node. A kubelet uses the name of its Node as the UID.
func (n *NodeObject) event(p *loop.Pass, kind, reason, message string) error {
	about := corev1.ObjectReference{Kind: "Node", Name: n.name(), UID: types.UID(n.name())}
	return p.Event(about, events.Kubelet, kind, reason, message)
}

// RenameNode gives the node's object the name that the machine has now, and says which one that is. What others have written to it, above all
// the cordon, applies to the machine whatever its name is.
func RenameNode(ctx context.Context, s *store.Store, self *corev1.Node) error {
	if self == nil || self.Status.NodeInfo.MachineID == "" {
		return nil
	}
	return s.Update(ctx, func(tx *store.Tx) (err error) {
		key := store.Key(objects.Nodes, "", self.Name)
		if o, ok := tx.Get(key); ok {
			return onMachine(tx, o, self)
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
			err = putOnMachine(tx, key, node, self)
			return false
		})
		return err
	})
}

// onMachine lets the node's object say on which machine it is from the first request on: a copy of this state on another machine must not be
// taken for the first one, as by a forwarder that has Jobs in a cluster.
func onMachine(tx *store.Tx, o store.Object, self *corev1.Node) error {
	node := &corev1.Node{}
	if err := objects.Decode(o, node); err != nil {
		return err
	}
	was, is := &node.Status.NodeInfo, &self.Status.NodeInfo
	if was.MachineID == is.MachineID && was.SystemUUID == is.SystemUUID {
		return nil
	}
	return putOnMachine(tx, o.Key, node, self)
}

func putOnMachine(tx *store.Tx, key string, node, self *corev1.Node) error {
	node.Status.NodeInfo.MachineID, node.Status.NodeInfo.SystemUUID = self.Status.NodeInfo.MachineID, self.Status.NodeInfo.SystemUUID
	value, err := scheme.Encode(node)
	if err == nil {
		tx.Put(store.Object{Key: key, UID: string(node.UID), Value: value})
	}
	return err
}
