package history

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// TenancyOf returns the tenancy of the namespace that has a name now. If there is none, nothing of the history is of it.
func TenancyOf(s *store.Snapshot, namespace string) (wire.Tenancy, error) {
	ns := &corev1.Namespace{}
	ok, err := objects.Read(s, store.Key(objects.Namespaces, "", namespace), ns)
	if err != nil || !ok {
		return wire.Tenancy{Began: time.Now()}, err
	}
	return wire.Tenancy{UID: string(ns.UID), Began: ns.CreationTimestamp.Time}, nil
}
