package storage

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/quota"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// ResourceQuotaResource is the first part of the keys of ResourceQuotas.
const ResourceQuotaResource = "resourcequotas"

// reader is a snapshot, or a transaction with what it has written.
type reader interface {
	Get(key string) (store.Object, bool)
	Range(prefix, from string, fn func(store.Object) bool)
}

// ResourceQuotas returns the ResourceQuotas of a namespace, by name.
func ResourceQuotas(s reader, namespace string) (quotas []corev1.ResourceQuota, err error) {
	var keys []string
	s.Range(store.Key(ResourceQuotaResource, namespace, ""), "", func(o store.Object) bool {
		keys = append(keys, o.Key)
		return true
	})
	for _, key := range keys {
		o, ok := s.Get(key) // a transaction may have changed it
		if !ok {
			continue
		}
		q := corev1.ResourceQuota{}
		if err := scheme.Decode(o.Value, &q); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		quotas = append(quotas, q)
	}
	return quotas, nil
}

// Put writes an object of the API, and sets its version. All that is in a namespace has to be written with it and deleted with
// Delete, since these keep status.used of ResourceQuotas exact. If the object is a ResourceQuota itself, its status is replaced
// in place. freed reports that a quota allows more than before.
func Put(tx *store.Tx, o *store.Object) (freed bool, err error) {
	if freed, err = charge(tx, o.Key, o); err != nil {
		return false, err
	}
	noteBirth(tx, o.Key)
	o.Version = tx.Put(*o)
	return freed, nil
}

// Delete removes the object of the API at key, if there is one, and returns the version of the deletion. freed reports that
// a quota allows more than before.
func Delete(tx *store.Tx, key string) (version uint64, freed bool, err error) {
	if freed, err = charge(tx, key, nil); err != nil {
		return 0, false, err
	}
	forgetBirth(tx, key)
	version, _ = tx.Delete(key)
	return version, freed, nil
}

// charge counts what is about to be written at key, nil for a deletion, for the ResourceQuotas of its namespace.
func charge(tx *store.Tx, key string, after *store.Object) (freed bool, err error) {
	resource, rest, _ := strings.Cut(key, "/")
	namespace, _, namespaced := strings.Cut(rest, "/")
	if !namespaced || namespace == "" || Hidden(key) {
		return false, nil
	}
	if resource == ResourceQuotaResource && after != nil {
		if freed, err = restart(tx, namespace, after); err != nil {
			return false, err
		}
	}
	quotas, err := ResourceQuotas(tx, namespace)
	if err != nil || len(quotas) == 0 {
		return freed, err
	}
	of := schema.ParseGroupResource(resource)
	var was, is *quota.Object
	for i := range quotas {
		q := &quotas[i]
		at := store.Key(ResourceQuotaResource, namespace, q.Name)
		if at == key || !quota.Counts(q, of) {
			continue
		}
		if was == nil {
			if was, is, err = versions(tx, of, key, after); err != nil {
				return false, err
			}
		}
		before, err := was.Use(q)
		if err != nil {
			return false, err
		}
		now, err := is.Use(q)
		if err != nil {
			return false, err
		}
		changed, less := quota.Change(q, before, now)
		if !changed {
			continue
		}
		freed = freed || less
		if err := putQuota(tx, at, q); err != nil {
			return false, err
		}
	}
	return freed, nil
}

// versions returns an object as it was and as it will be.
func versions(tx *store.Tx, of schema.GroupResource, key string, after *store.Object) (was, is *quota.Object, err error) {
	var old, changed runtime.Object
	if o, ok := tx.Get(key); ok {
		if old, err = counted(key, o.Value); err != nil {
			return nil, nil, err
		}
	}
	if after != nil {
		changed, err = counted(key, after.Value)
	}
	return quota.Of(of, old), quota.Of(of, changed), err
}

// counted returns what has to be known of a stored object: all of it if quotas limit more than the number.
func counted(key string, value []byte) (runtime.Object, error) {
	var obj runtime.Object
	switch resource, _, _ := strings.Cut(key, "/"); resource {
	case "pods":
		obj = &corev1.Pod{}
	case "persistentvolumeclaims":
		obj = &corev1.PersistentVolumeClaim{}
	case "services":
		obj = &corev1.Service{}
	default:
		return &metav1.PartialObjectMetadata{}, nil
	}
	if err := scheme.Decode(value, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return obj, nil
}

func putQuota(tx *store.Tx, key string, q *corev1.ResourceQuota) error {
	value, err := scheme.Encode(q)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	tx.Put(store.Object{Key: key, UID: string(q.UID), Owners: owners(q), Value: value})
	return nil
}

func owners(obj metav1.Object) (uids []string) {
	for _, o := range obj.GetOwnerReferences() {
		uids = append(uids, string(o.UID))
	}
	return uids
}

// restart sets the status of a ResourceQuota that is written: that of the stored one, or what is counted if it limits
// something else.
func restart(tx *store.Tx, namespace string, after *store.Object) (changed bool, err error) {
	q, old := &corev1.ResourceQuota{}, &corev1.ResourceQuota{}
	if err := scheme.Decode(after.Value, q); err != nil {
		return false, fmt.Errorf("%s: %w", after.Key, err)
	}
	o, ok := tx.Get(after.Key)
	if ok {
		if err := scheme.Decode(o.Value, old); err != nil {
			return false, fmt.Errorf("%s: %w", after.Key, err)
		}
	}
	if ok && sameLimits(q, old) {
		q.Status = old.Status
	} else {
		changed = true
		if err := count(tx, namespace, q, !ok); err != nil {
			return false, err
		}
	}
	after.Value, err = scheme.Encode(q)
	return changed, err
}

func sameLimits(a, b *corev1.ResourceQuota) bool {
	return apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && apiequality.Semantic.DeepEqual(a.Spec.Hard, b.Status.Hard)
}

// count counts all that is used of what a quota limits.
func count(tx *store.Tx, namespace string, q *corev1.ResourceQuota, isNew bool) (err error) {
	quota.Restart(q)
	for _, k := range scheme.Kinds() {
		of := k.GroupResource()
		if !k.Namespaced || !quota.Counts(q, of) {
			continue
		}
		tx.Range(store.Key(of.String(), namespace, ""), "", func(o store.Object) bool {
			var obj runtime.Object
			var used corev1.ResourceList
			if obj, err = counted(o.Key, o.Value); err != nil {
				return false
			}
			if used, err = quota.Of(of, obj).Use(q); err != nil {
				return false
			}
			quota.Change(q, nil, used)
			return true
		})
		if err != nil {
			return err
		}
		if of.String() == ResourceQuotaResource && isNew {
			used, err := quota.Of(of, q).Use(q)
			if err != nil {
				return err
			}
			quota.Change(q, nil, used)
		}
	}
	return nil
}
