package tend

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/multimap"
	"github.com/jobd/jobd/runtime/volume"
	"github.com/jobd/jobd/store"
)

// Files keeps those files of pods up to date that are made from ConfigMaps, Secrets, tokens and the pod's own metadata.
type Files struct {
	loop.Base
	loop.NoPods
	pods Pods

	users   fileUsers
	refresh *loop.Queue[string] // pods whose files may be out of date
}

// NewFiles makes the controller.
func NewFiles(pods Pods) *Files {
	return &Files{pods: pods, users: newFileUsers(), refresh: loop.NewQueue[string]()}
}

// PodKnown implements loop.PodFollower.
func (f *Files) PodKnown(key string, p *corev1.Pod) { f.users.add(key, p) }

// PodForgotten implements loop.PodFollower.
func (f *Files) PodForgotten(key string) { f.users.Set(key) }

// PodEdited implements loop.PodFollower.
func (f *Files) PodEdited(key string, p *corev1.Pod) {
	if showsItself(p) {
		f.refresh.Add(key)
	}
}

// PodRecovered refreshes the files of a pod, whose sources may have changed while the daemon was not running.
func (f *Files) PodRecovered(key string, p *corev1.Pod) {
	if f.users.uses(key) || showsItself(p) {
		f.refresh.Add(key)
	}
}

// Fold takes in that a ConfigMap or Secret has come, changed or gone.
func (f *Files) Fold(_ *loop.Pass, c loop.Change) error {
	if c.Resource == objects.ConfigMaps || c.Resource == objects.Secrets {
		for key := range f.users.Keys(c.Object.Key) {
			f.refresh.Add(key)
		}
	}
	return nil
}

// refreshLater brings the files of a pod up to date in this pass or the next.
func (f *Files) refreshLater(key string) { f.refresh.Add(key) }

// Dirty implements loop.Controller.
func (f *Files) Dirty() bool { return f.refresh.Len() > 0 }

// Settle brings the files of a pod on this node up to date, and retries at once what has failed because an object was
// missing.
func (f *Files) Settle(p *loop.Pass) (bool, error) {
	return f.refresh.Settle(func(key string) error {
		if !p.Works(key) {
			return nil
		}
		obj, ok, err := p.Pods.Get(key)
		if err != nil || !ok || !objects.Runs(obj) {
			return err
		}
		if !f.pods.Has(obj.UID) {
			return nil
		}
		f.pods.Retry(obj.UID)
		f.pods.Do(p, obj, duty.Action{Kind: duty.Refresh})
		return nil
	})
}

// fileUsers knows which pods use which ConfigMaps and Secrets, both by their keys. The many pods that use none are not
// in it.
type fileUsers struct {
	*multimap.TwoWay[string, string]
}

func newFileUsers() fileUsers { return fileUsers{multimap.NewTwoWay[string, string]()} }

// uses reports whether a pod uses any.
func (u fileUsers) uses(key string) bool { return len(u.Values(key)) > 0 }

// add notes what a pod uses. The part of its spec that says so never changes.
func (u fileUsers) add(key string, p *corev1.Pod) {
	if u.uses(key) {
		return
	}
	var used []string
	maps, others := volume.FileObjects(&p.Spec)
	for _, name := range maps {
		if name == core.RootCAConfigMap && volume.TokenLife(&p.Spec) > 0 {
			continue // nearly every pod uses it, and is refreshed with its token anyway
		}
		used = append(used, store.Key(objects.ConfigMaps, p.Namespace, name))
	}
	for _, name := range others {
		used = append(used, store.Key(objects.Secrets, p.Namespace, name))
	}
	u.Set(key, used...)
}

// showsItself reports whether a pod has files with its own labels or annotations, which may change.
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

// changeable reports whether the content of files may change. Nearly every pod has a file with its namespace, which
// never does.
func changeable(files []corev1.DownwardAPIVolumeFile) bool {
	return slices.ContainsFunc(files, func(f corev1.DownwardAPIVolumeFile) bool {
		return f.FieldRef != nil && (strings.HasPrefix(f.FieldRef.FieldPath, "metadata.labels") ||
			strings.HasPrefix(f.FieldRef.FieldPath, "metadata.annotations"))
	})
}
