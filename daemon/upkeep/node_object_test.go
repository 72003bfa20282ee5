package upkeep_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/upkeep"
	"github.com/jobd/jobd/store"
)

// A machine that was renamed is still the same node: its cordon and taints hold, and the old Node object is gone.
func TestAMachineIsGivenAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		named := func(name string) {
			w.Stop()
			w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
			w.Self.Status.NodeInfo.MachineID = "this"
			w.Start()
			synctest.Wait()
		}
		named("old")
		w.Put("nodes/other", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}})
		node := &corev1.Node{}
		if !w.Read("nodes/old", node) {
			t.Fatal("there is no node")
		}
		node.Labels["disk"], node.Spec.Unschedulable = "ssd", true
		w.Put("nodes/old", node)
		named("new")
		if w.Read("nodes/old", node) {
			t.Error("the old name is there still")
		}
		if !w.Read("nodes/new", node) || !node.Spec.Unschedulable || node.Labels["disk"] != "ssd" ||
			node.Labels[corev1.LabelHostname] != "new" || node.Name != "new" {
			t.Errorf("%+v", node)
		}
		if !w.Read("nodes/other", node) {
			t.Error("somebody else's node is gone")
		}
	})
}

// What a copy of a machine serves says from the beginning that it is on another one, before the loop has begun.
func TestACopyOfAMachineKnowsWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		on := func(name, machine, system string) *corev1.Node {
			w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			w.Self.Status.NodeInfo.MachineID, w.Self.Status.NodeInfo.SystemUUID = machine, system
			return w.Self
		}
		w.Stop()
		on("box", "this", "here")
		w.Start()
		synctest.Wait()
		w.Stop()
		s, err := store.Open(w.Path, store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, self := range []*corev1.Node{on("box", "this", "there"), on("copy", "this", "elsewhere"), on("copy", "another", "elsewhere")} {
			node := &corev1.Node{}
			err := upkeep.RenameNode(t.Context(), s, self)
			if err == nil {
				err = s.View(func(s *store.Snapshot) error {
					_, err := objects.Read(s, store.Key(objects.Nodes, "", self.Name), node)
					return err
				})
			}
			if is := node.Status.NodeInfo; err != nil || is.MachineID != self.Status.NodeInfo.MachineID || is.SystemUUID != self.Status.NodeInfo.SystemUUID {
				t.Errorf("%s: %v, %+v", self.Name, err, is)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w.Start()
	})
}

// The events of a node are those of a kubelet: that it has started, or the whole machine, and that it was cordoned.
func TestEventsOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		boot := func(id string) {
			time.Sleep(time.Second) // events of one moment have one name
			w.Stop()
			w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
			w.Self.Status.NodeInfo.BootID = id
			w.Self.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			}
			w.Start()
			synctest.Wait()
		}
		said := func(when string, want ...string) {
			t.Helper()
			all := w.Events("test")
			slices.Sort(all)
			if !slices.Equal(all, want) {
				t.Errorf("%s: %q", when, all)
			}
		}
		boot("one")
		const memory = "NodeHasSufficientMemory: Node test status is now: NodeHasSufficientMemory"
		const ready = "NodeReady: Node test status is now: NodeReady"
		said("the first start", memory, ready, "Starting: Starting jobd.")
		w.Write(func(tx *store.Tx) error { tx.Delete("nodes/test"); return nil })
		said("somebody deletes the object", memory, ready, "Starting: Starting jobd.")
		node := &corev1.Node{}
		if !w.Read("nodes/test", node) {
			t.Fatal("there is no node")
		}
		node.Spec.Unschedulable = true
		w.Put("nodes/test", node)
		cordoned := "NodeNotSchedulable: Node test status is now: NodeNotSchedulable"
		said("it is cordoned", memory, cordoned, ready, "Starting: Starting jobd.")
		boot("one")
		said("the daemon starts again", memory, memory, cordoned, ready, "Starting: Starting jobd.", "Starting: Starting jobd.")
		boot("two")
		said("the machine starts again", memory, memory, memory, cordoned, ready, ready,
			"Rebooted: Node test has been rebooted, boot id: two",
			"Starting: Starting jobd.", "Starting: Starting jobd.", "Starting: Starting jobd.")
	})
}

// What others write into the node's status is what a cluster keeps: extended resources, which pods may request, and
// conditions of their own. The rest is the node's, and so are its devices, which come and go.
func TestTheStatusOfTheNodeIsItsOwnButForExtendedResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.Small(t)
		defer w.End()
		w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
		w.Self.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		w.Self.Status.Allocatable = corev1.ResourceList{"example.com/named": resource.MustParse("2")}
		w.Self.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		offered := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		w.Devices = func() corev1.ResourceList { return offered }
		restart := func() {
			w.Stop()
			w.Start()
			synctest.Wait()
		}
		restart()
		change := func(status func(*corev1.NodeStatus)) {
			t.Helper()
			node := &corev1.Node{}
			if !w.Read("nodes/test", node) {
				t.Fatal("there is no node")
			}
			status(&node.Status)
			w.Put("nodes/test", node)
			synctest.Wait()
		}
		has := func(when, want string) {
			t.Helper()
			node := &corev1.Node{}
			w.Read("nodes/test", node)
			got := ""
			for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
				for _, name := range slices.Sorted(maps.Keys(list)) {
					amount := list[name]
					got += fmt.Sprintf("%s=%s ", name, amount.String())
				}
				got += "| "
			}
			if got = strings.TrimSuffix(got, " | "); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		wants := func(name, resourceName string) {
			w.Bare(name, "0", "1h", func(p *corev1.Pod) {
				amount := corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
			})
			time.Sleep(2 * time.Second)
		}
		has("at first", "cpu=3 nvidia.com/gpu=1 | example.com/named=2 nvidia.com/gpu=1")
		wants("dongled", "example.com/dongle")
		if got := controltest.Condition(w.Pod("dongled"), corev1.PodScheduled); !strings.Contains(got, "1 Insufficient example.com/dongle.") {
			t.Errorf("it waits: %s", got)
		}
		change(func(s *corev1.NodeStatus) {
			s.Capacity["example.com/dongle"] = resource.MustParse("1")
			s.Capacity["cpu"], s.Capacity["nvidia.com/gpu"] = resource.MustParse("64"), resource.MustParse("8")
			s.Conditions[0].Status = corev1.ConditionFalse
			s.Conditions = append(s.Conditions, corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionFalse})
		})
		const dongle = "cpu=3 example.com/dongle=1 nvidia.com/gpu=1 | example.com/dongle=1 example.com/named=2 nvidia.com/gpu=1"
		has("with a dongle", dongle)
		if got := w.Running(); !slices.Equal(got, []string{"dongled"}) {
			t.Errorf("with a dongle %v run", got)
		}
		wants("second", "example.com/dongle")
		restart()
		has("after a restart", dongle)
		time.Sleep(2 * time.Second)
		if got := controltest.Condition(w.Pod("second"), corev1.PodScheduled); !strings.Contains(got, "1 Insufficient example.com/dongle.") {
			t.Errorf("another one waits: %s", got)
		}
		node := &corev1.Node{}
		if w.Read("nodes/test", node); len(node.Status.Conditions) != 2 || node.Status.Conditions[0].Status != corev1.ConditionTrue {
			t.Errorf("%+v", node.Status.Conditions)
		}

		wants("computing", "nvidia.com/gpu")
		wants("waiting", "nvidia.com/gpu")
		offered = nil
		w.Control.DevicesChanged()
		synctest.Wait()
		gone := "cpu=3 example.com/dongle=1 nvidia.com/gpu=0 | example.com/dongle=1 example.com/named=2 nvidia.com/gpu=0"
		has("with its devices gone", gone)
		restart()
		has("and a restart later", gone)
		offered = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
		w.Control.DevicesChanged()
		synctest.Wait()
		if got, want := w.Running(), []string{"computing", "dongled", "waiting"}; !slices.Equal(got, want) {
			t.Errorf("when the devices are back %v run, want %v", got, want)
		}
		w.Stop()
		offered = nil // while nobody looks
		w.Start()
		synctest.Wait()
		has("with its devices gone during the downtime", gone)

		change(func(s *corev1.NodeStatus) {
			delete(s.Capacity, "example.com/dongle")
			delete(s.Capacity, "nvidia.com/gpu")
		})
		has("in the end", "cpu=3 | example.com/named=2")
		version := w.Store.Version()
		time.Sleep(5 * time.Second)
		if err := w.Store.View(func(s *store.Snapshot) error {
			return s.Changes(version, func(c store.Change) bool {
				if c.Object.Key == "nodes/test" {
					t.Error("the node is written again and again")
				}
				return true
			})
		}); err != nil {
			t.Error(err)
		}
	})
}
