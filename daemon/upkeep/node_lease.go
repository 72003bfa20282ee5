package upkeep

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/namespace"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// leaseDuration is for how long after a renewal clients may assume that the node is alive (KEP-589).
	leaseDuration = 40 * time.Second
	// leaseRenewal is how often the Lease is renewed: a quarter of that, as by a kubelet.
	leaseRenewal = leaseDuration / 4
)

// NodeLease renews the node's Lease in kube-node-lease, by which clients see that the node is alive.
type NodeLease struct {
	loop.Base
	timers    *loop.Timers
	node, key string // the node's name, and the key of its Lease
	due       bool
}

// NewNodeLease makes the controller.
func NewNodeLease(timers *loop.Timers, node string) *NodeLease {
	return &NodeLease{timers: timers, node: node, key: store.Key(objects.Leases, corev1.NamespaceNodeLease, node)}
}

// Rebuild implements loop.Controller.
func (l *NodeLease) Rebuild(*store.Snapshot, time.Time) error {
	l.due = true
	return nil
}

// Gone creates the Lease again when it has been deleted.
func (l *NodeLease) Gone(_ *loop.Pass, o store.Object) {
	if o.Key == l.key {
		l.due = true
	}
}

// Due implements loop.Controller.
func (l *NodeLease) Due(*loop.Pass, string) error {
	l.due = true
	return nil
}

// Dirty implements loop.Controller.
func (l *NodeLease) Dirty() bool { return l.due }

// Settle renews the Lease. It belongs to the Node object: if there is none, there is no Lease either.
func (l *NodeLease) Settle(p *loop.Pass) (bool, error) {
	if !l.due {
		return false, nil
	}
	l.due = false
	l.timers.Set(l, "", p.Now.Add(leaseRenewal))
	return true, l.renew(p)
}

func (l *NodeLease) renew(p *loop.Pass) error {
	if ok, err := namespace.TakesMore(p, corev1.NamespaceNodeLease); err != nil || !ok {
		return err // a later start creates the namespace again
	}
	node := &corev1.Node{}
	if ok, err := objects.Read(p, store.Key(objects.Nodes, "", l.node), node); err != nil || !ok {
		return err
	}
	lease := &coordinationv1.Lease{}
	if ok, err := objects.Read(p, l.key, lease); err != nil {
		return err
	} else if !ok {
		lease.Namespace, lease.Name, lease.UID = corev1.NamespaceNodeLease, l.node, uuid.NewUUID()
		lease.CreationTimestamp = metav1.NewTime(p.Now)
	}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	lease.Spec.HolderIdentity = ptr.To(l.node)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(p.Now))
	return p.Put(l.key, lease)
}
