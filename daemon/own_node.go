package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/store"
)

// ownNode is the Node's object for those who see to a part of it beside the loop. Its methods may be called from any
// goroutine.
type ownNode struct {
	store    *store.Store
	name     string
	eventTTL time.Duration
	logger   *slog.Logger

	mu     sync.Mutex
	events *events.Recorder
}

// tell says something of the Node in an event.
func (n *ownNode) tell(ctx context.Context, kind, reason, message string) {
	now := time.Now()
	// A kubelet knows no other UID of its Node than the name.
	about := corev1.ObjectReference{Kind: "Node", Name: n.name, UID: types.UID(n.name)}
	n.mu.Lock()
	e := n.events.Event(about, events.Kubelet, kind, reason, message, now)
	n.mu.Unlock()
	if e == nil {
		return
	}
	value, err := scheme.Encode(e)
	if err == nil {
		err = n.store.Update(ctx, func(tx *store.Tx) error {
			tx.Put(store.Object{Key: store.Key(eventsV1, e.Namespace, e.Name), UID: string(e.UID), Value: value, Expires: now.Add(n.eventTTL).Unix()})
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		n.logger.Warn("event about the node", "error", err)
	}
}

// get gives the object; nil where it is not there, which it soon will be.
func (n *ownNode) get() (node *corev1.Node, err error) {
	err = n.store.View(func(s *store.Snapshot) error {
		_, node, err = n.read(s)
		return err
	})
	return node, err
}

func (n *ownNode) read(from interface {
	Get(key string) (store.Object, bool)
}) (stored store.Object, node *corev1.Node, err error) {
	stored, ok := from.Get(store.Key(nodes, "", n.name))
	if !ok {
		return stored, nil, nil
	}
	node = &corev1.Node{}
	return stored, node, decode(stored, node)
}

// update writes the object as change leaves it. Nothing is written where that is as it was, or where there is none.
func (n *ownNode) update(ctx context.Context, change func(*corev1.Node)) error {
	node, err := n.get()
	if err != nil || node == nil {
		return err
	}
	before := node.DeepCopy()
	if change(node); equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	return n.store.Update(ctx, func(tx *store.Tx) error {
		stored, node, err := n.read(tx)
		if err != nil || node == nil {
			return err
		}
		change(node)
		node.ResourceVersion = ""
		value, err := scheme.Encode(node)
		if err != nil {
			return err
		}
		tx.Put(store.Object{Key: stored.Key, UID: stored.UID, Owners: stored.Owners, Value: value})
		return nil
	})
}
