package control_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestTheNodeTakesOrFailsAPodThatNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		named := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
		w.Bare("early", "2", "1h", named("test"))
		w.Bare("large", "2", "1h", named("test"))
		w.Bare("picky", "0", "1h", func(p *corev1.Pod) {
			named("test")(p)
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		})
		w.Bare("away", "0", "1h", named("elsewhere"))
		time.Sleep(2 * time.Second)
		if p := w.Pod("early"); p.Status.Phase != corev1.PodRunning || p.Status.HostIP == "" ||
			!strings.HasPrefix(controltest.Condition(p, corev1.PodScheduled), "True") {
			t.Errorf("a pod that fits is %s, %+v", p.Status.Phase, p.Status.Conditions)
		}
		for name, want := range map[string]string{
			"large": "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 2000, capacity: 3000",
			"picky": "NodeAffinity: Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		} {
			if s := w.Pod(name).Status; s.Phase != corev1.PodFailed || s.Reason+": "+s.Message != want {
				t.Errorf("%s is %s, %s: %s", name, s.Phase, s.Reason, s.Message)
			}
		}
		check := func() {
			t.Helper()
			p := w.Pod("away")
			if got := controltest.Condition(p, corev1.PodScheduled); p.Status.Phase != corev1.PodPending || p.Status.StartTime != nil ||
				!strings.Contains(got, "The pod is for the node elsewhere, and jobd's only node is test.") {
				t.Errorf("a pod for another node is %s: %s", p.Status.Phase, got)
			}
			if events := w.Events("away"); len(events) != 1 || !strings.HasPrefix(events[0], "FailedScheduling: ") {
				t.Errorf("of that one: %v", events)
			}
		}
		check()
		w.Stop() // the daemon restarts
		w.Start()
		time.Sleep(2 * time.Second)
		check()
		if p := w.Pod("early"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("after a restart the first is %s", p.Status.Phase)
		}
	})
}

// A pod that shows one of a cluster is left to that, even if the cluster is called like this machine.
func TestTheNodeLeavesPodsOfAClusterAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		for _, cluster := range []string{"prod", "test"} {
			w.Bare(cluster, "1", "1h", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = cluster, clusters.Scheduler(cluster) })
			time.Sleep(2 * time.Second)
			if p, events := w.Pod(cluster), w.Events(cluster); p.Status.Phase != corev1.PodPending || p.Status.StartTime != nil || len(events) > 0 {
				t.Errorf("the pod of %s is %s, with events %v", cluster, p.Status.Phase, events)
			}
		}
	})
}

// What clients have written of the containers of a pod is forgotten once the node takes it: none was started.
func TestTheNodeForgetsWhatWasWrittenOfAPodBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Bare("forged", "1", "1h", func(p *corev1.Pod) {
			p.Spec.NodeName = "test"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, RestartCount: 7, ContainerID: "x://y"}}
		})
		time.Sleep(2 * time.Second)
		if s := w.Pod("forged").Status; s.Phase != corev1.PodRunning || s.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("it is %s: %+v", s.Phase, s.ContainerStatuses)
		}
	})
}

// A pod that waits for room is put on the node by somebody else (pods/binding).
func TestTheNodeTakesOrFailsAPodThatIsBoundByTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Bare("early", "2", "10s", nil)
		w.Bare("large", "2", "1h", nil)
		w.Bare("alike", "2", "1h", nil)
		time.Sleep(2 * time.Second)
		bind := func(name string) {
			t.Helper()
			p := w.Pod(name)
			if p.Spec.NodeName != "" {
				t.Fatalf("%s does not wait", name)
			}
			core.NameNode(p, "test", time.Now())
			w.Put(store.Key(objects.Pods, p.Namespace, p.Name), p)
		}
		bind("large")
		time.Sleep(2 * time.Second)
		if s := w.Pod("large").Status; s.Phase != corev1.PodFailed || s.Reason != "OutOfcpu" {
			t.Errorf("large is %s, %s: %s", s.Phase, s.Reason, s.Message)
		}
		time.Sleep(10 * time.Second)
		if p := w.Pod("alike"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the pod that waits for its turn is %s", p.Status.Phase)
		}
		w.Bare("small", "1", "1h", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
		time.Sleep(2 * time.Second)
		bind("small")
		time.Sleep(2 * time.Second)
		if s := w.Pod("small").Status; s.Phase != corev1.PodFailed || s.Reason != "NodeAffinity" {
			t.Errorf("small is %s, %s: %s", s.Phase, s.Reason, s.Message)
		}
	})
}

// A pod says in which zone and region it runs, for others and for itself, as soon as the node has labels that say so.
func TestPodsHaveTheTopologyLabelsOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Stop()
		w.Self = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
		w.Start()
		synctest.Wait()
		own := func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelTopologyZone: "own", "app": "a"} }
		w.Bare("before", "0", "1h", own)
		node := &corev1.Node{}
		w.Read("nodes/test", node)
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelTopologyZone, "here")
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelTopologyRegion, "north")
		metav1.SetMetaDataLabel(&node.ObjectMeta, "disk", "ssd")
		w.Put("nodes/test", node)
		w.Bare("found", "0", "1h", own)
		w.Bare("named", "0", "1h", func(p *corev1.Pod) { p.Spec.NodeName = "test" })
		w.Bare("elsewhere", "0", "1h", func(p *corev1.Pod) { p.Spec.NodeName = "other" })
		w.Bare("gated", "0", "1h", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}} })
		time.Sleep(2 * time.Second)
		for name, want := range map[string]map[string]string{
			"before":    {corev1.LabelTopologyZone: "own", "app": "a"},
			"found":     {corev1.LabelTopologyZone: "here", corev1.LabelTopologyRegion: "north", "app": "a"},
			"named":     {corev1.LabelTopologyZone: "here", corev1.LabelTopologyRegion: "north"},
			"elsewhere": nil,
			"gated":     nil,
		} {
			if got := w.Pod(name).Labels; !maps.Equal(got, want) {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}

func TestTheNodeFailsPodsThatItCannotRun(t *testing.T) {
	for rule, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"another operating system": {func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} },
			"PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS"},
		"a label of another operating system": {func(p *corev1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "windows"} },
			"PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
		"a sysctl that is not safe": {func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel/msgmax", Value: "1"}}}
		}, `SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowlisted`},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				w.Bare("p", "0", "1h", c.change)
				time.Sleep(2 * time.Second)
				reason, message, _ := strings.Cut(c.want, ": ")
				if s := w.Pod("p").Status; s.Phase != corev1.PodFailed || s.Reason != reason || s.Message != "Pod was rejected: "+message {
					t.Errorf("%s, %s: %s", s.Phase, s.Reason, s.Message)
				}
				if events := w.Events("p"); !slices.Contains(events, c.want) {
					t.Errorf("%v", events)
				}
			})
		})
	}
}

// A critical pod that names the node is not turned away for want of room: like a kubelet, the node ends others, which
// have their grace period, and takes it then. Also when the daemon restarts in between.
func TestTheNodeEndsPodsForACriticalOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		w.Bare("low", "2", "1h", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 15}}}
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
		})
		w.Bare("stays", "1", "1h", nil)
		time.Sleep(2 * time.Second)
		critical := func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.Priority = "test", ptr.To[int32](2_000_001_000) }
		w.Bare("critical", "1500m", "1h", critical)
		w.Bare("next", "2", "1h", nil)
		time.Sleep(time.Second)
		w.Stop()
		w.Start()
		time.Sleep(5 * time.Second)
		low := w.Pod("low")
		if got, want := controltest.Condition(
			low, corev1.DisruptionTarget,
		), "True TerminationByKubelet Pod was preempted by Kubelet to accommodate a critical pod."; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := w.Events("low"); !slices.Contains(got, "Preempting: Preempted in order to admit critical pod") {
			t.Errorf("%v", got)
		}
		if got, want := w.Running(), []string{"critical", "low", "stays"}; low.Status.Phase != corev1.PodRunning ||
			!slices.Equal(got, want) || w.Pod("critical").Status.Phase != corev1.PodPending {
			t.Errorf("within the grace period %v run, want %v; the victim is %s", got, want, low.Status.Phase)
		}
		time.Sleep(20 * time.Second)
		low = w.Pod("low")
		if got, want := w.Running(), []string{"critical", "stays"}; !slices.Equal(got, want) || low.Status.Phase != corev1.PodFailed ||
			low.Status.Reason+": "+low.Status.Message != "Preempting: Preempted in order to admit critical pod" {
			t.Errorf("after it %v run, want %v; the victim is %+v", got, want, low.Status)
		}

		w.Bare("too-large", "4", "1h", critical)
		if s := w.Pod("too-large").Status; s.Phase != corev1.PodFailed || s.Reason != "UnexpectedAdmissionError" {
			t.Errorf("one for which there can be no room is %s, %s: %s", s.Phase, s.Reason, s.Message)
		}
		if got, want := w.Running(), []string{"critical", "stays"}; !slices.Equal(got, want) {
			t.Errorf("for that one pods were ended: %v run, want %v", got, want)
		}
	})
}
