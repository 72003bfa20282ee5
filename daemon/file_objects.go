package daemon

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

// fileObjects reads them from the store.
type fileObjects struct{ store *store.Store }

func (f fileObjects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	if ok, err := f.get(store.Key(objects.ConfigMaps, namespace, name), object); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("configmap", name)
	}
	return object, nil
}

func (f fileObjects) Secret(namespace, name string) (*corev1.Secret, error) {
	object := &corev1.Secret{}
	if ok, err := f.get(store.Key(objects.Secrets, namespace, name), object); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("secret", name)
	}
	return object, nil
}

// PullSecrets gives the Secrets that a pod's images are pulled with, and the names of those that are not there.
func (f fileObjects) PullSecrets(p *corev1.Pod) (found []corev1.Secret, missing []string) {
	for _, ref := range p.Spec.ImagePullSecrets {
		secret, err := f.Secret(p.Namespace, ref.Name)
		if err != nil {
			missing = append(missing, ref.Name)
			continue
		}
		found = append(found, *secret)
	}
	return found, missing
}

func (f fileObjects) get(key string, into objects.Object) (ok bool, err error) {
	err = f.store.View(func(s *store.Snapshot) error {
		var o store.Object
		if o, ok = s.Get(key); ok {
			return objects.Decode(o, into)
		}
		return nil
	})
	return ok, err
}
