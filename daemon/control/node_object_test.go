package control

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A machine that was renamed is still the same node: its cordon and taints hold, and the old Node object is gone.
func TestAMachineIsGivenAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		named := func(name string) {
			w.stop()
			w.self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
			w.self.Status.NodeInfo.MachineID = "this"
			w.start()
			synctest.Wait()
		}
		named("old")
		w.put("nodes/other", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}})
		node := &corev1.Node{}
		if !w.read("nodes/old", node) {
			t.Fatal("there is no node")
		}
		node.Labels["disk"], node.Spec.Unschedulable = "ssd", true
		w.put("nodes/old", node)
		named("new")
		if w.read("nodes/old", node) {
			t.Error("the old name is there still")
		}
		if !w.read("nodes/new", node) || !node.Spec.Unschedulable || node.Labels["disk"] != "ssd" || node.Labels[corev1.LabelHostname] != "new" || node.Name != "new" {
			t.Errorf("%+v", node)
		}
		if !w.read("nodes/other", node) {
			t.Error("somebody else's node is gone")
		}
	})
}
