package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestNamespaceHasAnAccountAndTheAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		account, authority := "serviceaccounts/default/default", "configmaps/default/kube-root-ca.crt"
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			sa, cm := &corev1.ServiceAccount{}, &corev1.ConfigMap{}
			if !w.Read(account, sa) || sa.UID == "" || !w.Read(authority, cm) || cm.UID == "" || cm.Data["ca.crt"] != w.Authority {
				t.Errorf("%s: %+v %+v", when, sa, cm)
			}
		}
		check("when it is new")
		w.Write(func(tx *store.Tx) error { tx.Delete(account); tx.Delete(authority); return nil })
		check("after both were deleted")
		w.Put(
			authority,
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: "default", UID: "u"},
				Data:       map[string]string{"ca.crt": "mine"},
			},
		)
		check("after it was changed")
		w.Stop()
		w.Start()
		before := w.Store.Version()
		synctest.Wait()
		if w.Store.Version() != before {
			t.Error("a start writes what is there already")
		}
	})
}

func TestCordonedNodeTakesNothingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Stop()
		capacity, err := host.Capacity(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w.Self = host.Host{Name: "test", IP: "192.0.2.1", Boot: "one"}.Node(host.Description{
			Capacity: capacity, MaxPods: 7, Runtime: "containerd 2.4.2 with crun",
		})
		w.Start()
		synctest.Wait()
		node, key := &corev1.Node{}, "nodes/test"
		if !w.Read(key, node) || node.Labels[corev1.LabelHostname] != "test" ||
			node.Status.NodeInfo.ContainerRuntimeVersion != "containerd://2.4.2" || node.Status.Capacity.Pods().Value() != 7 {
			t.Fatalf("%+v", node)
		}
		cordon := func(on bool) {
			node.Spec.Unschedulable = on
			w.Put(key, node)
		}
		cordon(true)
		w.Create(controltest.Simulate("a", "0s", "0"))
		synctest.Wait()
		if pods := w.Pods(); len(pods) != 1 || pods[0].Spec.NodeName != "" {
			t.Errorf("while it is cordoned: %v", pods)
		}
		w.Stop()
		w.Start()
		synctest.Wait()
		if pods := w.Pods(); !w.Read(key, node) || !node.Spec.Unschedulable || pods[0].Spec.NodeName != "" {
			t.Errorf("after a restart: %+v", node.Spec)
		}
		cordon(false)
		synctest.Wait()
		if !objects.Finished(w.Job("a")) {
			t.Error("it was uncordoned")
		}
		w.Write(func(tx *store.Tx) error { tx.Delete(key); return nil })
		synctest.Wait()
		if !w.Read(key, node) {
			t.Error("the node's object is not back")
		}
	})
}

// KEP-5080: what a pod may use is there for as long as the pod is.
func TestANamespaceLosesItsPodsBeforeWhatTheyUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		w.Put("namespaces/n", ns)
		synctest.Wait()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "c"}}
		w.Put("configmaps/n/c", cm)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p", Finalizers: []string{"example.com/x"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
		pod.Spec.NodeSelector = map[string]string{"no": "node"}
		w.Put("pods/n/p", pod)
		synctest.Wait()
		if !w.Read("namespaces/n", ns) {
			t.Fatal("the namespace is gone")
		}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.Put("namespaces/n", ns)
		synctest.Wait()
		if !w.Read("pods/n/p", pod) || pod.DeletionTimestamp == nil || !w.Read("configmaps/n/c", cm) || cm.DeletionTimestamp != nil {
			t.Fatalf("while a pod is left: pod %+v, ConfigMap %+v", pod.ObjectMeta, cm.ObjectMeta)
		}
		if !w.Read("namespaces/n", ns) || len(ns.Status.Conditions) == 0 {
			t.Errorf("it does not say what it waits for: %+v", ns.Status)
		}
		w.Stop() // what it waits for is found again
		w.Start()
		synctest.Wait()
		if !w.Read("configmaps/n/c", cm) {
			t.Error("a restart deletes what the pod may use")
		}
		w.Write(func(tx *store.Tx) error { tx.Delete("pods/n/p"); return nil })
		synctest.Wait()
		if w.Read("configmaps/n/c", cm) || w.Read("namespaces/n", ns) {
			t.Error("the rest stays although the pod is gone")
		}
	})
}

// Two objects that own each other, and are both deleted in the foreground, each wait for the other.
func TestANamespaceIsEmptiedOfCircles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		w.Put("namespaces/n", ns)
		synctest.Wait()
		all := map[string]objects.Object{}
		for name, owner := range map[string]string{"a": "b", "b": "a"} {
			meta := metav1.ObjectMeta{Name: name, Namespace: "n", UID: types.UID("c-" + name), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID("c-" + owner), BlockOwnerDeletion: ptr.To(true)}}}
			storage.SetPropagation(&meta, metav1.DeletePropagationForeground)
			storage.MarkDeleted(&meta, time.Now(), 0)
			pod := &corev1.Pod{ObjectMeta: *meta.DeepCopy()}
			pod.UID, pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].UID = types.UID("p-"+name), "Pod", types.UID("p-"+owner)
			pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
			pod.Spec.NodeSelector = map[string]string{"no": "node"}
			all["pods/n/"+name], all["configmaps/n/"+name] = pod, &corev1.ConfigMap{ObjectMeta: meta}
		}
		w.PutAll(all)
		synctest.Wait()
		if !w.Read("configmaps/n/a", &corev1.ConfigMap{}) || !w.Read("pods/n/b", &corev1.Pod{}) {
			t.Fatal("they do not wait for each other: this test shows nothing")
		}
		if !w.Read("namespaces/n", ns) {
			t.Fatal("the namespace is gone")
		}
		storage.MarkDeleted(ns, time.Now(), 0)
		w.Put("namespaces/n", ns)
		synctest.Wait()
		if w.Read("configmaps/n/a", &corev1.ConfigMap{}) || w.Read("pods/n/b", &corev1.Pod{}) || w.Read("namespaces/n", ns) {
			t.Error("they stay, and the namespace with them")
		}
	})
}
