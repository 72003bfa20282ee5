package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/simulated"
)

// resize does what the API does with other requests of a pod's container.
func (w *world) resize(name, cpu string) {
	w.T.Helper()
	p := w.Pod(name)
	p.Spec.Containers[0].Resources = controltest.Asking(cpu)[0].Resources
	p.Generation++
	w.Put(objects.Key(objects.Pods, p), p)
	synctest.Wait()
}

// has checks which CPU a pod has, and which it waits for, by the reason of PodResizePending.
func (w *world) has(name, cpu, pending string) {
	w.T.Helper()
	time.Sleep(2 * time.Second)
	p := w.Pod(name)
	s := p.Status.ContainerStatuses[0]
	got, _, _ := strings.Cut(strings.TrimPrefix(controltest.Condition(p, corev1.PodResizePending), "True "), " ")
	if s.Resources.Requests.Cpu().String() != cpu || s.AllocatedResources.Cpu().String() != cpu || got != pending {
		w.T.Errorf("%s has %v, allocated %v, waits: %q; want %s, %q", name, s.Resources, s.AllocatedResources, got, cpu, pending)
	}
}

func TestAPodBecomesLargerWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t) // 3 CPUs
		defer w.End()
		w.Bare("a", "1", "1h", nil)
		w.Bare("b", "1", "1h", nil)
		w.Bare("short", "1", "60s", nil)
		w.has("a", "1", "")
		w.resize("a", "2")
		w.has("a", "1", "Deferred")
		if got, want := controltest.Condition(w.Pod("a"), corev1.PodResizePending),
			"True Deferred Node didn't have enough resource: cpu, requested: 2000, used: 2000, capacity: 3000"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		w.resize("b", "4")
		w.has("b", "1", "Infeasible")
		w.Bare("new", "1", "1h", nil)

		w.Stop()
		w.Start()
		w.has("a", "1", "Deferred")
		time.Sleep(time.Minute)
		w.has("a", "2", "")
		if p := w.Pod("new"); p.Spec.NodeName != "" {
			t.Error("a pod that came later has got the room")
		}
		w.resize("a", "500m")
		w.has("a", "500m", "")
		if p := w.Pod("new"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("there is room, and a pod is %s", p.Status.Phase)
		}
		w.resize("a", "1500m")
		w.has("a", "500m", "Deferred")
		w.resize("a", "500m")
		w.has("a", "500m", "")

		// One that still waits for the node is just another one.
		w.Bare("waits", "3", "1h", nil)
		w.resize("waits", "500m")
		time.Sleep(2 * time.Second)
		if p := w.Pod("waits"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the one that waited is %s", p.Status.Phase)
		}
	})
}

func TestTheMoreImportantPodBecomesLargerFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Bare("low", "1", "1h", nil)
		w.Bare("high", "1", "1h", func(p *corev1.Pod) { p.Spec.Priority = new(int32(7)) })
		w.Bare("short", "1", "1h", func(p *corev1.Pod) { p.Annotations[simulated.Duration] = "30s" })
		w.resize("low", "2")
		w.resize("high", "2")
		w.has("low", "1", "Deferred")
		time.Sleep(time.Minute)
		w.has("high", "2", "")
		w.has("low", "1", "Deferred")
	})
}

// A pod that asks for more than there will be cannot keep others from starting without end, even if it asks again.
func TestRoomIsKeptOnlyForAWhileForAPodThatIsToBecomeLarger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t) // 3 CPUs
		defer w.End()
		w.Bare("a", "1", "10h", nil)
		w.Bare("b", "1", "10h", nil)
		runs := func(when, name string, want bool) {
			t.Helper()
			time.Sleep(time.Second)
			if p := w.Pod(name); (p.Status.Phase == corev1.PodRunning) != want {
				t.Errorf("%s: %s is %s", when, name, p.Status.Phase)
			}
		}
		w.resize("a", "3")
		w.Bare("first", "1", "20m", nil)
		time.Sleep(4 * time.Minute)
		runs("in the beginning", "first", false)
		w.resize("a", "2900m")
		time.Sleep(2 * time.Minute)
		runs("after a while", "first", true)

		w.resize("b", "2")
		w.Bare("second", "500m", "20m", nil)
		time.Sleep(21 * time.Minute)
		w.has("b", "2", "") // it came first when there was room
		runs("while all room is taken", "second", false)
		w.resize("b", "1")
		runs("while nothing is kept", "second", true)
		w.has("a", "1", "Deferred")

		w.Bare("third", "500m", "10h", nil)
		runs("beside it", "third", true)
		time.Sleep(time.Hour)
		w.resize("a", "2700m")
		w.Bare("fourth", "500m", "10h", nil)
		runs("an hour later", "fourth", false)
		time.Sleep(6 * time.Minute)
		runs("an hour and a while later", "fourth", true)
	})
}
