package history

import (
	corev1 "k8s.io/api/core/v1"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// TenancyOf returns the tenancy of the namespace that has a name now, if there is one.
func TenancyOf(s *store.Snapshot, namespace string) (wire.Tenancy, error) {
	ns := &corev1.Namespace{}
	ok, err := objects.Read(s, store.Key(objects.Namespaces, "", namespace), ns)
	if err != nil || !ok {
		ns = nil
	}
	return wire.TenancyOf(ns), err
}
