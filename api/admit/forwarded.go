package admit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// Forwarded warns of Jobs for a cluster that no forwarder serves: a new one waits, and one that is deleted stays.
type Forwarded struct{ Store *store.Store }

var _ admission.ValidationInterface = Forwarded{}

func (Forwarded) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

// Validate implements admission.ValidationInterface.
func (f Forwarded) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	obj := a.GetObject()
	if a.GetOperation() == admission.Delete {
		obj = a.GetOldObject()
	}
	j, ok := obj.(*batchv1.Job)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	cluster := cmp.Or(clusters.Of(j), clusters.OverflowTo(j))
	if cluster == "" || a.GetOperation() == admission.Delete && !slices.Contains(j.Finalizers, clusters.Finalizer) {
		return nil
	}
	served, err := f.served(cluster)
	if err != nil || served {
		return err
	}
	waits := "the Job waits"
	if clusters.OverflowTo(j) != "" {
		waits = "the Job waits here"
	}
	if a.GetOperation() == admission.Delete {
		waits = fmt.Sprintf("job %s stays until one has removed it there", j.Name)
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("no forwarder serves the cluster %s now (jobd forward --cluster %[1]s): %s", cluster, waits))
	return nil
}

func (f Forwarded) served(cluster string) (served bool, err error) {
	err = f.Store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key("leases.coordination.k8s.io", clusters.LeaseNamespace, clusters.LeaseName(cluster)))
		if !ok {
			return nil
		}
		l := &coordinationv1.Lease{}
		if err := scheme.Decode(o.Value, l); err != nil {
			return fmt.Errorf("%s: %w", o.Key, err)
		}
		served = clusters.Served(l, time.Now())
		return nil
	})
	return served, err
}
