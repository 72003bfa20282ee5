package pressure

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Node gives access to the Node object to those who maintain a part of it beside the control loop. Its methods may be
// called from any goroutine.
type Node struct {
	EventTTL time.Duration // for how long its events are kept

	store  *store.Store
	name   string
	logger *slog.Logger

	mu     sync.Mutex
	events *events.Recorder
}

// NewNode returns the Node with that name.
func NewNode(s *store.Store, name string, eventTTL time.Duration, logger *slog.Logger) *Node {
	return &Node{EventTTL: eventTTL, store: s, name: name, logger: logger, events: events.New(name)}
}

// Tell records an event about the Node.
func (n *Node) Tell(ctx context.Context, kind, reason, message string) {
	now := time.Now()
	// A kubelet uses the name of its Node as the UID.
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
			_, err := storage.Put(tx, &store.Object{
				Key: objects.Key(objects.Events, e), UID: string(e.UID), Value: value,
				Expires: now.Add(n.EventTTL).Unix(),
			})
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		n.logger.Warn("cannot write an event about the node", "error", err)
	}
}

// get returns the object; nil if it does not exist yet.
func (n *Node) get() (node *corev1.Node, err error) {
	err = n.store.View(func(s *store.Snapshot) error {
		_, node, err = n.read(s)
		return err
	})
	return node, err
}

func (n *Node) read(from objects.Getter) (stored store.Object, node *corev1.Node, err error) {
	stored, ok := from.Get(store.Key(objects.Nodes, "", n.name))
	if !ok {
		return stored, nil, nil
	}
	node = &corev1.Node{}
	return stored, node, objects.Decode(stored, node)
}

// Update writes the object as change leaves it. It writes nothing if that changed nothing, or if there is no object.
func (n *Node) Update(ctx context.Context, change func(*corev1.Node)) error {
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
