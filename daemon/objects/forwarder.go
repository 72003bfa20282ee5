package objects

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/store"
)

// Forwarder reports whether a forwarder serves a cluster now.
func Forwarder(s *store.Snapshot, cluster string, now time.Time) (served bool, err error) {
	lease := &coordinationv1.Lease{}
	ok, err := Read(s, store.Key(Leases, clusters.LeaseNamespace, clusters.LeaseName(cluster)), lease)
	return ok && clusters.Served(lease, now), err
}
