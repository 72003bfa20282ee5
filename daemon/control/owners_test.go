package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// family makes ConfigMaps that own each other.
type family struct{ *world }

func (f family) ref(owner string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID("uid-" + owner), BlockOwnerDeletion: ptr.To(true)}
}

func (f family) make(name string, refs ...metav1.OwnerReference) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), OwnerReferences: refs}}
	f.Put(objects.Key(objects.ConfigMaps, cm), cm)
	return cm
}

// get returns nil for a ConfigMap that is gone.
func (f family) get(name string) *corev1.ConfigMap {
	synctest.Wait()
	cm := &corev1.ConfigMap{}
	if !f.Read(store.Key(objects.ConfigMaps, "default", name), cm) {
		return nil
	}
	return cm
}

func (f family) delete(name string, policy metav1.DeletionPropagation) {
	f.T.Helper()
	cm := f.get(name)
	storage.SetPropagation(cm, policy)
	if len(cm.Finalizers) == 0 {
		f.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.ConfigMaps, cm)); return nil })
		return
	}
	storage.MarkDeleted(cm, time.Now(), 0)
	f.Put(objects.Key(objects.ConfigMaps, cm), cm)
}

func (f family) hold(name string, finalizers ...string) {
	cm := f.get(name)
	cm.Finalizers = finalizers
	if storage.Removable(cm) {
		f.Write(func(tx *store.Tx) error { tx.Delete(objects.Key(objects.ConfigMaps, cm)); return nil })
		return
	}
	f.Put(objects.Key(objects.ConfigMaps, cm), cm)
}

func (f family) want(there string) {
	f.T.Helper()
	var got []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if f.get(name) != nil {
			got = append(got, name)
		}
	}
	if strings.Join(got, " ") != there {
		f.T.Errorf("there are %q, want %q", got, there)
	}
}

func TestOwnersOfAnyKind(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   func(f family)
	}{
		{"what an owner leaves behind goes, and what that leaves behind", func(f family) {
			f.make("a")
			f.make("b", f.ref("a"))
			f.make("c", f.ref("b"))
			f.make("d")
			f.want("a b c d")
			f.delete("a", metav1.DeletePropagationBackground)
			f.want("d")
		}},
		{"orphans live on without their owner", func(f family) {
			f.make("a")
			f.make("d")
			f.make("b", f.ref("a"), f.ref("d"))
			f.make("c", f.ref("a"))
			f.delete("a", metav1.DeletePropagationOrphan)
			f.want("b c d")
			if refs := f.get("b").OwnerReferences; len(refs) != 1 || refs[0].Name != "d" {
				f.T.Errorf("owners of b: %v", refs)
			}
		}},
		{"in the foreground an owner goes last", func(f family) {
			f.make("a")
			f.make("b", f.ref("a"))
			f.make("c", f.ref("b"))
			f.hold("c", "example.com/hold")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("a b c")
			f.hold("c")
			f.want("")
		}},
		{"and not before the forwarder has seen what is in a cluster go", func(f family) {
			f.make("a")
			f.make("b", f.ref("a"))
			f.hold("a", clusters.Finalizer)
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("a")
			if got := f.get("a").Finalizers; len(got) != 2 {
				f.T.Errorf("the forwarder finds the finalizers %q", got)
			}
			f.hold("a", metav1.FinalizerDeleteDependents)
			f.want("")
		}},
		{"nor does a restart make it go sooner, or never", func(f family) {
			f.make("a")
			f.make("b", f.ref("a"))
			f.hold("b", "example.com/hold")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("a b")
			f.Stop()
			f.Start()
			f.want("a b")
			f.hold("b")
			f.want("")
		}},
		{"a dependent that does not block is not waited for", func(f family) {
			f.make("a")
			ref := f.ref("a")
			ref.BlockOwnerDeletion = nil
			f.make("b", ref)
			f.hold("b", "example.com/hold")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("b")
		}},
		{"one that has another owner loses the reference alone", func(f family) {
			f.make("a")
			f.make("d")
			f.make("b", f.ref("a"), f.ref("d"))
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("b d")
			f.delete("d", metav1.DeletePropagationBackground)
			f.want("")
		}},
		{"a circle goes as a whole", func(f family) {
			f.make("a")
			f.make("b", f.ref("a"))
			f.make("a", f.ref("b"))
			f.want("a b")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("")
		}},
		{"one that owns itself waits for nobody", func(f family) {
			f.make("a", f.ref("a"))
			f.want("a")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("")
		}},
		{"an owner that is not there collects at once", func(f family) {
			f.make("b", f.ref("a"))
			f.want("")
		}},
		{"another one of the same name is no owner", func(f family) {
			f.make("a")
			ref := f.ref("a")
			ref.UID = "an older one"
			f.make("b", ref)
			f.want("a")
		}},
		{"of an owner of a kind that is not served nothing is known", func(f family) {
			f.make("b", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "x", UID: "x"})
			f.want("b")
			f.Stop()
			f.Start()
			f.want("b")
		}},
		{"another version of the group names the same owner", func(f family) {
			f.make("a")
			ref := f.ref("a")
			ref.APIVersion = "v1beta1"
			f.make("b", ref)
			f.want("a b")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("")
		}},
		{"owners are in the same namespace", func(f family) {
			far := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "kube-system", UID: "uid-a"}}
			f.Put(objects.Key(objects.ConfigMaps, far), far)
			f.make("b", f.ref("a"))
			f.want("")
			var events []string
			if err := f.Store.View(func(s *store.Snapshot) error {
				return objects.Each(s, objects.Events, func(_ string, e *corev1.Event) error {
					events = append(events, e.InvolvedObject.Name+": "+e.Message)
					return nil
				})
			}); err != nil {
				f.T.Fatal(err)
			}
			if len(events) != 1 || events[0] != `b: ownerRef [v1/ConfigMap, namespace: default, name: a, uid: uid-a] does not exist in namespace "default"` {
				f.T.Errorf("events: %q", events)
			}
		}},
		{"pods go with an owner that is no Job, and a pod may own", func(f family) {
			f.make("a")
			pod := &corev1.Pod{}
			pod.Name, pod.Namespace, pod.UID = "p", "default", "uid-p"
			pod.OwnerReferences = []metav1.OwnerReference{f.ref("a")}
			f.Put(objects.Key(objects.Pods, pod), pod)
			f.make("b", metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid-p"})
			f.want("a b")
			f.delete("a", metav1.DeletePropagationForeground)
			f.want("")
			if n := len(f.Pods()); n != 0 {
				f.T.Errorf("%d pods are left", n)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				tc.is(family{w})
			})
		})
	}
}
