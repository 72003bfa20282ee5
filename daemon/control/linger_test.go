package control_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
)

// A pod may have 68 years for its end. Others whose room it has, and who has removed its namespace, wait no longer than an hour.
func TestNobodyWaitsForYearsForAnEnd(t *testing.T) {
	const years = math.MaxInt32
	high := func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](10) }
	deleted := func(grace int64) func(*world) {
		return func(w *world) {
			p := w.Pod("low")
			storage.MarkDeleted(p, time.Now(), grace)
			w.Put("pods/default/low", p)
		}
	}
	for name, c := range map[string]struct {
		grace  int64
		signal string
		first  func(*world) // what its owner does
		begin  func(*world)
		after  time.Duration // it ends
	}{
		"preempted":                    {grace: years, begin: func(w *world) { w.Bare("high", "2", "9h", high) }, after: time.Hour},
		"preempted, as it has it":      {grace: 60, begin: func(w *world) { w.Bare("high", "2", "9h", high) }, after: time.Minute},
		"preempted, after its signal":  {grace: years, signal: "USR1@30m", begin: func(w *world) { w.Bare("high", "2", "9h", high) }, after: 90 * time.Minute},
		"already deleted by its owner": {grace: years, first: deleted(years), begin: func(w *world) { w.Bare("high", "2", "9h", high) }, after: time.Hour},
		"deleted with more than it has": {grace: 60, first: deleted(years), begin: func(w *world) {
			w.Bare("high", "2", "9h", high)
		}, after: time.Minute},
		"deleted though it has none": {grace: 0, first: deleted(years), begin: func(w *world) {
			w.Bare("high", "2", "9h", high)
		}, after: time.Second},
		"for a critical pod": {grace: years, begin: func(w *world) {
			w.Bare("high", "2", "9h", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.Priority = "test", ptr.To[int32](2_000_001_000) })
		}, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t)
				defer w.End()
				w.Bare("low", "2", "99h", func(p *corev1.Pod) {
					p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: years}}}
					p.Spec.TerminationGracePeriodSeconds = ptr.To(c.grace)
					if c.signal != "" {
						p.Annotations[core.SignalAnnotation] = c.signal
					}
				})
				time.Sleep(2 * time.Second)
				if c.first != nil {
					c.first(w)
				}
				c.begin(w)
				began := time.Now()
				if c.after > time.Minute {
					time.Sleep(c.after - time.Minute)
					if p := w.Pod("high"); p.Status.Phase != corev1.PodPending {
						t.Errorf("the other pod is %s before the first one may be ended", p.Status.Phase)
					}
				}
				time.Sleep(time.Until(began.Add(c.after + time.Minute)))
				if p := w.Pod("high"); p.Status.Phase != corev1.PodRunning {
					t.Errorf("the other pod is %s", p.Status.Phase)
				}
			})
		})
	}
	for name, first := range map[string]bool{"": false, "already deleted by its owner": true} {
		t.Run("its namespace is removed "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.End()
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
				ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
				w.Put("namespaces/n", ns)
				synctest.Wait()
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p"}}
				p.Annotations = controltest.Simulate("x", "99h", "0").Spec.Template.Annotations
				p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
				p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: years}}}
				p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](years)
				w.Put("pods/n/p", p)
				time.Sleep(2 * time.Second)
				now := func() *corev1.Pod {
					if p := (&corev1.Pod{}); w.Read("pods/n/p", p) {
						return p
					}
					return nil
				}
				if p := now(); p == nil || p.Status.Phase != corev1.PodRunning {
					t.Fatalf("the pod does not run: %+v", p)
				}
				if first {
					p := now()
					storage.MarkDeleted(p, time.Now(), years)
					w.Put("pods/n/p", p)
					synctest.Wait()
				}
				ns = &corev1.Namespace{}
				w.Read("namespaces/n", ns)
				storage.MarkDeleted(ns, time.Now(), 0)
				w.Put("namespaces/n", ns)
				time.Sleep(59 * time.Minute)
				if now() == nil {
					t.Error("the pod has no time to end")
				}
				time.Sleep(2 * time.Minute)
				if p := now(); p != nil || w.Read("namespaces/n", ns) {
					t.Errorf("the namespace is there, and its pod %+v", p)
				}
			})
		})
	}
}
