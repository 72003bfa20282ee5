package control_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/daemon/controltest"
)

// goDown says that the machine goes down, and waits until nothing runs any more.
func goDown(w *world, within time.Duration) {
	w.T.Helper()
	pods, err := w.Control.GoDown(w.T.Context(), within)
	if err != nil {
		w.T.Fatal(err)
	}
	for len(pods) > 0 {
		time.Sleep(time.Second)
		if pods, err = w.Control.Stopping(pods); err != nil {
			w.T.Fatal(err)
		}
	}
}

func TestTheMachineGoesDownAndUp(t *testing.T) {
	for name, up := range map[string]func(*world){
		"by a reboot": func(w *world) {
			w.Stop()
			time.Sleep(time.Hour)
			w.Start()
		},
		"or not at all": func(w *world) {
			if err := w.Control.StayUp(w.T.Context()); err != nil {
				w.T.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := small(t) // two CPUs
				defer w.End()
				fails, again := controltest.Simulate("fails", "10m", "0"), controltest.Simulate("again", "10m", "0")
				waits := controltest.Simulate("waits", "10m", "0")
				again.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
				for _, j := range []*corev1.PodSpec{&fails.Spec.Template.Spec, &again.Spec.Template.Spec} {
					j.Containers = controltest.Asking("1")
				}
				waits.Spec.Template.Spec.Containers = controltest.Asking("2")
				w.Create(fails)
				w.Create(again)
				time.Sleep(10 * time.Second)
				w.Create(waits)
				time.Sleep(10 * time.Second)
				goDown(w, 90*time.Second)
				p := podOfJob(w, "fails")
				c := conditions.Find(p.Status.Conditions, corev1.DisruptionTarget)
				if p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Terminated" || c == nil || c.Reason != corev1.PodReasonTerminationByKubelet {
					t.Errorf("the pod with Never: %+v", p.Status)
				}
				p = podOfJob(w, "again")
				if p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].State.Running != nil {
					t.Errorf("the pod with OnFailure: %+v", p.Status)
				}
				was := p.Name
				time.Sleep(time.Minute)
				if slices.ContainsFunc(w.Pods(), func(p *corev1.Pod) bool {
					return p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending || podOfJob(w, "waits").Spec.NodeName != ""
				}) {
					t.Error("a pod is started while the machine goes down")
				}
				up(w)
				time.Sleep(time.Minute)
				p = podOfJob(w, "again")
				if s := p.Status.ContainerStatuses[0]; p.Name != was || s.State.Running == nil || s.RestartCount != 1 || p.Status.Reason != "" ||
					conditions.Find(p.Status.Conditions, corev1.DisruptionTarget) != nil {
					t.Errorf("it does not go on: %+v", p.Status)
				}
				time.Sleep(time.Hour)
				for _, name := range []string{"fails", "again", "waits"} {
					if j := w.Job(name); j.Status.Succeeded != 1 {
						t.Errorf("%s: %+v", name, j.Status)
					}
				}
			})
		})
	}
}

func TestOccupied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := small(t)
		defer w.End()
		var told []bool
		w.Occupied = func(is bool) {
			if len(told) == 0 || told[len(told)-1] != is {
				told = append(told, is)
			}
		}
		w.Stop()
		w.Start()
		w.Create(controltest.Simulate("j", "10s", "0"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(told, []bool{false, true, false}) && !slices.Equal(told, []bool{true, false}) {
			t.Errorf("it is told %v", told)
		}
	})
}
