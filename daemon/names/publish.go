package names

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

const (
	endpointSlices = "endpointslices." + discoveryv1.GroupName
	// pause is the time between two writes: changes of pods that come together are written together.
	pause = 500 * time.Millisecond
)

// publish writes the endpoints of Services to EndpointSlices, until ctx ends or the store is closed. Queries do not
// wait for that.
func (x *index) publish(ctx context.Context, s *store.Store, logger *slog.Logger) {
	x.news.RunAtLeisure(ctx, pause, func() bool {
		ok := true
		for ref := range x.takeChanged() {
			err := s.Update(ctx, func(tx *store.Tx) error { return x.publishService(tx, ref) })
			if ctx.Err() != nil {
				return false
			} else if err != nil {
				logger.Warn("cannot write the EndpointSlices of a Service", "service", ref.namespace+"/"+ref.name,
					"error", err)
				x.mu.Lock()
				x.changed[ref] = struct{}{}
				x.mu.Unlock()
				ok = false
			}
		}
		return ok
	})
}

// publishService writes the slices of one Service.
func (x *index) publishService(tx *store.Tx, ref serviceRef) error {
	var have []*discoveryv1.EndpointSlice
	var failed error
	tx.Owned(string(ref.uid), store.Key(endpointSlices, ref.namespace, ""), "", func(key string) bool {
		o, ok := tx.Get(key)
		if !ok {
			return true
		}
		slice := &discoveryv1.EndpointSlice{}
		if failed = scheme.Decode(o.Value, slice); failed == nil && isOurs(slice) {
			have = append(have, slice)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	var groups []group
	service := &corev1.Service{}
	if o, ok := tx.Get(store.Key("services", ref.namespace, ref.name)); ok && o.UID == string(ref.uid) {
		if err := scheme.Decode(o.Value, service); err != nil {
			return err
		}
		groups = x.endpointsOf(service)
	}
	write, remove := arrange(service, groups, have)
	for _, slice := range remove {
		if _, _, err := storage.Delete(tx, store.Key(endpointSlices, slice.Namespace, slice.Name)); err != nil {
			return err
		}
	}
	for _, slice := range write {
		if slice.Name == "" {
			slice.Name, slice.UID, slice.CreationTimestamp = slice.GenerateName+utilrand.String(5), uuid.NewUUID(),
				metav1.NewTime(time.Now().Truncate(time.Second))
		}
		slice.Generation++
		value, err := scheme.Encode(slice)
		if err != nil {
			return err
		}
		if _, err := storage.Put(tx, &store.Object{
			Key: store.Key(endpointSlices, slice.Namespace, slice.Name), UID: string(slice.UID),
			Owners: []string{string(ref.uid)}, Value: value,
		}); err != nil {
			return err
		}
	}
	return nil
}
