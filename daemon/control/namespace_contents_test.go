package control

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func (w *world) read(key string, into objects.Object) (ok bool) {
	w.t.Helper()
	if err := w.store.View(func(s *store.Snapshot) error {
		var o store.Object
		if o, ok = s.Get(key); !ok {
			return nil
		}
		return objects.Decode(o, into)
	}); err != nil {
		w.t.Fatal(err)
	}
	return ok
}

func TestNamespaceHasAnAccountAndTheAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		account, authority := "serviceaccounts/default/default", "configmaps/default/kube-root-ca.crt"
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			sa, cm := &corev1.ServiceAccount{}, &corev1.ConfigMap{}
			if !w.read(account, sa) || sa.UID == "" || !w.read(authority, cm) || cm.UID == "" || cm.Data["ca.crt"] != string(w.control.config.RootCA) {
				t.Errorf("%s: %+v %+v", when, sa, cm)
			}
		}
		check("when it is new")
		w.write(func(tx *store.Tx) error { tx.Delete(account); tx.Delete(authority); return nil })
		check("after both were deleted")
		w.put(authority, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: "default", UID: "u"}, Data: map[string]string{"ca.crt": "mine"}})
		check("after it was changed")
		w.stop()
		w.start()
		before := w.store.Version()
		synctest.Wait()
		if w.store.Version() != before {
			t.Error("a start writes what is there already")
		}
	})
}

func TestCordonedNodeTakesNothingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.stop()
		capacity, err := host.Capacity(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w.self = host.Host{Name: "test", IP: "192.0.2.1", Boot: "one"}.Node(host.Description{
			Capacity: capacity, MaxPods: 7, Runtime: "containerd 2.4.2 with crun",
		})
		w.start()
		synctest.Wait()
		node, key := &corev1.Node{}, "nodes/test"
		if !w.read(key, node) || node.Labels[corev1.LabelHostname] != "test" || node.Status.NodeInfo.ContainerRuntimeVersion != "containerd://2.4.2" || node.Status.Capacity.Pods().Value() != 7 {
			t.Fatalf("%+v", node)
		}
		cordon := func(on bool) {
			node.Spec.Unschedulable = on
			w.put(key, node)
		}
		cordon(true)
		w.create(simulate("a", "0s", "0"))
		synctest.Wait()
		if pods := w.pods(); len(pods) != 1 || pods[0].Spec.NodeName != "" {
			t.Errorf("while it is cordoned: %v", pods)
		}
		w.stop()
		w.start()
		synctest.Wait()
		if pods := w.pods(); !w.read(key, node) || !node.Spec.Unschedulable || pods[0].Spec.NodeName != "" {
			t.Errorf("after a restart: %+v", node.Spec)
		}
		cordon(false)
		synctest.Wait()
		if !objects.Finished(w.job("a")) {
			t.Error("it was uncordoned")
		}
		w.write(func(tx *store.Tx) error { tx.Delete(key); return nil })
		synctest.Wait()
		if !w.read(key, node) {
			t.Error("the node's object is not back")
		}
	})
}

// KEP-5080: what a pod may use is there for as long as the pod is.
func TestANamespaceLosesItsPodsBeforeWhatTheyUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		w.put("namespaces/n", ns)
		synctest.Wait()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "c"}}
		w.put("configmaps/n/c", cm)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p", Finalizers: []string{"example.com/x"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		pod.Spec.NodeSelector = map[string]string{"no": "node"}
		w.put("pods/n/p", pod)
		synctest.Wait()
		if !w.read("namespaces/n", ns) {
			t.Fatal("the namespace is gone")
		}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.put("namespaces/n", ns)
		synctest.Wait()
		if !w.read("pods/n/p", pod) || pod.DeletionTimestamp == nil || !w.read("configmaps/n/c", cm) || cm.DeletionTimestamp != nil {
			t.Fatalf("while a pod is left: pod %+v, ConfigMap %+v", pod.ObjectMeta, cm.ObjectMeta)
		}
		if !w.read("namespaces/n", ns) || len(ns.Status.Conditions) == 0 {
			t.Errorf("it does not say what it waits for: %+v", ns.Status)
		}
		w.stop() // what it waits for is found again
		w.start()
		synctest.Wait()
		if !w.read("configmaps/n/c", cm) {
			t.Error("a restart deletes what the pod may use")
		}
		w.write(func(tx *store.Tx) error { tx.Delete("pods/n/p"); return nil })
		synctest.Wait()
		if w.read("configmaps/n/c", cm) || w.read("namespaces/n", ns) {
			t.Error("the rest stays although the pod is gone")
		}
	})
}
