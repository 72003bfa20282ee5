package control

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/store"
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

// The events of a node are those of a kubelet: that it has started, or the whole machine, and that it was cordoned.
func TestEventsOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		boot := func(id string) {
			time.Sleep(time.Second) // events of one moment have one name
			w.stop()
			w.self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
			w.self.Status.NodeInfo.BootID = id
			w.start()
			synctest.Wait()
		}
		said := func(when string, want ...string) {
			t.Helper()
			all := w.events("test")
			slices.Sort(all)
			if !slices.Equal(all, want) {
				t.Errorf("%s: %q", when, all)
			}
		}
		boot("one")
		said("the first start", "Starting: Starting jobd.")
		w.write(func(tx *store.Tx) error { tx.Delete("nodes/test"); return nil })
		said("somebody deletes the object", "Starting: Starting jobd.")
		node := &corev1.Node{}
		if !w.read("nodes/test", node) {
			t.Fatal("there is no node")
		}
		node.Spec.Unschedulable = true
		w.put("nodes/test", node)
		cordoned := "NodeNotSchedulable: Node test status is now: NodeNotSchedulable"
		said("it is cordoned", cordoned, "Starting: Starting jobd.")
		boot("two")
		said("the machine starts again", cordoned, "Rebooted: Node test has been rebooted, boot id: two", "Starting: Starting jobd.",
			"Starting: Starting jobd.")
	})
}
