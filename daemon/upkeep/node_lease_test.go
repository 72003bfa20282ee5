package upkeep_test

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/upkeep"
	"github.com/jobd/jobd/store"
)

func TestTheNodeRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease, UID: "system"}}
		w.Put("namespaces/kube-node-lease", system)
		w.Stop()
		w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
		w.Start()
		const key = "leases.coordination.k8s.io/kube-node-lease/test"
		check := func(when string) (uid string) {
			t.Helper()
			synctest.Wait()
			lease, node := &coordinationv1.Lease{}, &corev1.Node{}
			if !w.Read(key, lease) || !w.Read("nodes/test", node) {
				t.Fatalf("%s: no lease, or no node", when)
			}
			if age := time.Since(lease.Spec.RenewTime.Time); age >= upkeep.LeaseRenewal {
				t.Errorf("%s: renewed %v ago", when, age)
			}
			if *lease.Spec.HolderIdentity != "test" || *lease.Spec.LeaseDurationSeconds != 40 || lease.OwnerReferences[0].UID != node.UID {
				t.Errorf("%s: %+v", when, lease)
			}
			return string(lease.UID)
		}
		first := check("at start")
		time.Sleep(upkeep.LeaseRenewal)
		if check("after a quarter of its duration") != first {
			t.Error("it is another one")
		}
		time.Sleep(time.Hour)
		check("after an hour")
		w.Write(func(tx *store.Tx) error { tx.Delete(key); return nil })
		check("after somebody has deleted it")
		w.Write(func(tx *store.Tx) error { tx.Delete("nodes/test"); return nil })
		check("after somebody has deleted the node")
		w.Write(func(tx *store.Tx) error { tx.Delete("namespaces/kube-node-lease"); tx.Delete(key); return nil })
		time.Sleep(time.Minute)
		if w.Read(key, &coordinationv1.Lease{}) {
			t.Error("there is a lease in a namespace that is not there")
		}
	})
}
