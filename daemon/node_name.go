package daemon

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// renameNode gives the node's object the name that the machine has now. What others have said of it, above all that it
// is cordoned, is of the machine whatever that is called.
func (l *loop) renameNode(ctx context.Context) error {
	if l.self == nil || l.self.Status.NodeInfo.MachineID == "" {
		return nil
	}
	return l.store.Update(ctx, func(tx *store.Tx) (err error) {
		key := store.Key(nodes, "", l.self.Name)
		if _, ok := tx.Get(key); ok {
			return nil
		}
		tx.Range(nodes+"/", "", func(o store.Object) bool {
			node := &corev1.Node{}
			if err = decode(o, node); err != nil {
				return false
			}
			if node.Status.NodeInfo.MachineID != l.self.Status.NodeInfo.MachineID {
				return true // somebody else's idea of a node
			}
			tx.Delete(o.Key)
			node.Name, node.UID, node.ResourceVersion = l.self.Name, uuid.NewUUID(), ""
			var value []byte
			if value, err = scheme.Encode(node); err == nil {
				tx.Put(store.Object{Key: key, UID: string(node.UID), Value: value})
			}
			return false
		})
		return err
	})
}
