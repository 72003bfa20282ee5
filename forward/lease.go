package forward

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jobd/jobd/api/clusters"
)

// beat renews the Lease by which it is known that the cluster has a forwarder.
func (f *Forwarder) beat(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := f.renew(ctx); err != nil && ctx.Err() == nil {
			f.Logger.Warn("cannot renew the Lease by which it is known that this runs", "error", err)
		}
	}, clusters.LeaseSeconds*time.Second/4)
}

func (f *Forwarder) renew(ctx context.Context) error {
	l := clusters.Lease(f.Cluster, f.now())
	leases := f.local.CoordinationV1().Leases(l.Namespace)
	return f.ask(ctx, func(ctx context.Context) error {
		_, err := leases.Patch(ctx, l.Name, types.MergePatchType, []byte(text(map[string]any{"spec": l.Spec})), metav1.PatchOptions{FieldManager: fieldManager})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, l, metav1.CreateOptions{FieldManager: fieldManager})
		}
		return err
	})
}
