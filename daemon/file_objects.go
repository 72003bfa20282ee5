package daemon

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/volume"
	"github.com/jobd/jobd/store"
)

// fileObjects reads them from the store.
type fileObjects struct{ store *store.Store }

func (f fileObjects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{}
	if ok, err := f.get(store.Key(configMaps, namespace, name), object); err != nil {
		return nil, err
	} else if !ok {
		return nil, oci.NotFound("configmap", name)
	}
	return object, nil
}

func (f fileObjects) Secret(namespace, name string) (*corev1.Secret, error) {
	object := &corev1.Secret{}
	if ok, err := f.get(store.Key(secrets, namespace, name), object); err != nil {
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

func (f fileObjects) get(key string, into object) (ok bool, err error) {
	err = f.store.View(func(s *store.Snapshot) error {
		var o store.Object
		if o, ok = s.Get(key); ok {
			return decode(o, into)
		}
		return nil
	})
	return ok, err
}

// fileUsers knows which pods are made of which ConfigMaps and Secrets, both by their keys. Pods that use none, which
// are most, are not in it.
type fileUsers struct {
	byObject map[string]map[string]struct{}
	byPod    map[string][]string
}

func newFileUsers() *fileUsers {
	return &fileUsers{byObject: map[string]map[string]struct{}{}, byPod: map[string][]string{}}
}

// add notes a pod. Its spec never changes in this.
func (u *fileUsers) add(key string, p *corev1.Pod) {
	if _, known := u.byPod[key]; known {
		return
	}
	var objects []string
	maps, others := volume.FileObjects(&p.Spec)
	for _, name := range maps {
		if name == core.RootCAConfigMap && volume.TokenLife(&p.Spec) > 0 {
			continue // nearly every pod has it, and is looked at for its token all the same
		}
		objects = append(objects, store.Key(configMaps, p.Namespace, name))
	}
	for _, name := range others {
		objects = append(objects, store.Key(secrets, p.Namespace, name))
	}
	if len(objects) == 0 {
		return
	}
	u.byPod[key] = objects
	for _, object := range objects {
		if u.byObject[object] == nil {
			u.byObject[object] = map[string]struct{}{}
		}
		u.byObject[object][key] = struct{}{}
	}
}

func (u *fileUsers) remove(key string) {
	for _, object := range u.byPod[key] {
		delete(u.byObject[object], key)
		if len(u.byObject[object]) == 0 {
			delete(u.byObject, object)
		}
	}
	delete(u.byPod, key)
}

// foldFileObject takes in that a ConfigMap or Secret has come, changed or gone.
func (p *pass) foldFileObject(c store.Change) {
	for key := range p.records.fileUsers.byObject[c.Object.Key] {
		p.records.refresh.add(key)
	}
}

// refresh brings the files of a pod on this node up to date, and starts at once what has failed for the want of an object.
func (p *pass) refresh(key string) error {
	obj, ok, err := p.pods.Get(key)
	if err != nil || !ok || obj.Spec.NodeName == "" || pod.Terminal(obj) {
		return err
	}
	rec, ok := p.records.pods[obj.UID]
	if !ok {
		return nil
	}
	rec.issued.Retry()
	p.records.dirtyPods.add(key)
	p.effects = append(p.effects, effect{pod: obj, actions: []pod.Action{{Kind: pod.Refresh}}})
	return nil
}

// showsItself tells whether a pod has files that tell of its own labels and annotations, which may change.
func showsItself(p *corev1.Pod) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.DownwardAPI != nil && changeable(v.DownwardAPI.Items) {
			return true
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.DownwardAPI != nil && changeable(s.DownwardAPI.Items) {
					return true
				}
			}
		}
	}
	return false
}

// changeable tells of files that may tell something else later. Nearly every pod shows its namespace, which never changes.
func changeable(files []corev1.DownwardAPIVolumeFile) bool {
	return slices.ContainsFunc(files, func(f corev1.DownwardAPIVolumeFile) bool {
		return f.FieldRef != nil && (strings.HasPrefix(f.FieldRef.FieldPath, "metadata.labels") || strings.HasPrefix(f.FieldRef.FieldPath, "metadata.annotations"))
	})
}
