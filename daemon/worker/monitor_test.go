package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// patient answers commands as a test wants it to.
type patient struct {
	*host
	mu    sync.Mutex
	ill   map[string]bool
	dumb  error // it cannot be asked
	asked []string
}

func (p *patient) Exec(ctx context.Context, _ string, e runtime.ExecRequest) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, e.Args[0])
	if p.dumb != nil {
		return 0, p.dumb
	}
	if p.ill[e.Args[0]] {
		return 1, nil
	}
	return 0, nil
}

func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{ill: map[string]bool{"live": true, "ready": true}}
		h := newHost(t, func(h *host, c *Config) {
			p.host = h
			c.Runtime = p
		})
		defer h.close()
		exec := func(name string) corev1.ProbeHandler {
			return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}
		}
		obj := newPod(corev1.RestartPolicyNever, "a")
		obj.Annotations = map[string]string{"jobd.dev/simulate-duration": "20s"}
		c := &obj.Spec.Containers[0]
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: exec("hook").Exec}}
		c.StartupProbe = &corev1.Probe{ProbeHandler: exec("start"), InitialDelaySeconds: 2}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: exec("live"), PeriodSeconds: 3, FailureThreshold: 3}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: exec("ready"), PeriodSeconds: 5, FailureThreshold: 1}
		h.workers.Do(obj, []duty.Action{{Kind: duty.Launch, Container: "a"}})
		time.Sleep(30 * time.Second)
		synctest.Wait()

		var seen []string
		begin := time.Now().Add(-30 * time.Second)
		for _, batch := range h.batches {
			for _, o := range batch {
				if o.What == duty.Checked {
					word := o.At.Sub(begin).String() + " " + string(o.Check)
					if o.OK {
						word += " ok"
					}
					if o.Verdict {
						word += "!"
					}
					seen = append(seen, word)
				}
			}
		}
		slices.Sort(seen)
		want := []string{
			"0s PostStart ok", "12s Readiness", "17s Readiness", "2s Liveness", "2s Readiness!", "2s Startup ok!", "5s Liveness",
			"7s Readiness", "8s Liveness!",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("reported %q", seen)
		}
		if p.asked[0] != "hook" || p.asked[1] != "start" {
			t.Errorf("asked %q", p.asked)
		}
		if len(h.workers.checks) != 0 {
			t.Error("one that has ended is still checked")
		}
	})
}

// A pod that ends is asked whether it is ready until it has ended, and no longer whether it is alive.
func TestThePodsEndStopsLivenessProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{}
		h := newHost(t, func(h *host, c *Config) {
			p.host = h
			c.Runtime = p
		})
		defer h.close()
		probe := func(name string) *corev1.Probe {
			return &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}}
		}
		obj := newPod(corev1.RestartPolicyNever, "a", "b")
		obj.Annotations = map[string]string{"jobd.dev/simulate-duration": "20s"}
		// The hook of b keeps it from its signal, and goes on as long as it may.
		obj.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 100}}}
		obj.Spec.Containers[1].LivenessProbe, obj.Spec.Containers[1].ReadinessProbe = probe("live"), probe("ready")
		h.workers.Do(obj, []duty.Action{{Kind: duty.Launch, Container: "a"}, {Kind: duty.Launch, Container: "b"}})
		counts := func(d time.Duration) (live, ready int) {
			time.Sleep(d)
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, name := range p.asked {
				switch name {
				case "live":
					live++
				case "ready":
					ready++
				}
			}
			p.asked = nil
			return live, ready
		}
		if live, ready := counts(4500 * time.Millisecond); live != 5 || ready != 5 {
			t.Errorf("while it runs: %d, %d", live, ready)
		}
		h.workers.Do(obj, []duty.Action{{Kind: duty.RunPreStop, Container: "a", Grace: 10 * time.Second, Ends: true}})
		if live, ready := counts(5 * time.Second); live != 0 || ready != 5 {
			t.Errorf("while it ends: %d, %d", live, ready)
		}
	})
}

// A Stop without time for a hook ends the hook of the Stop before, whose signal it sends.
func TestAStopEndsTheHookOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, func(*host, *Config) {})
		defer h.close()
		obj := newPod(corev1.RestartPolicyNever, "a")
		obj.Annotations = map[string]string{"jobd.dev/simulate-duration": "1h"}
		obj.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 100}}}
		h.workers.Do(obj, []duty.Action{{Kind: duty.Launch, Container: "a"}})
		began := time.Now()
		stop := duty.Action{Kind: duty.Stop, Container: "a", Signal: syscall.SIGTERM, Grace: time.Minute, Ends: true}
		synctest.Wait()
		h.workers.Do(obj, []duty.Action{stop})
		time.Sleep(10 * time.Second)
		stop.Grace = 0
		h.workers.Do(obj, []duty.Action{stop})
		synctest.Wait()
		for _, batch := range h.batches {
			for _, o := range batch {
				if o.What == duty.Exited && o.At.Sub(began) == 10*time.Second {
					return
				}
				if o.What == duty.Checked {
					t.Errorf("a hook that was ended is reported: %+v", o)
				}
			}
		}
		t.Errorf("it was not signalled when the hook was to end: %+v", h.batches)
	})
}

// A probe whose command cannot be run says nothing about the container: people are told, and nothing follows from it.
func TestAProbeThatCannotBeMadeIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{dumb: errors.New("executable file not found")}
		h := newHost(t, func(h *host, c *Config) {
			p.host = h
			c.Runtime = p
		})
		defer h.close()
		obj := newPod(corev1.RestartPolicyNever, "a")
		obj.Annotations = map[string]string{"jobd.dev/simulate-duration": "20s"}
		obj.Spec.Containers[0].LivenessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, PeriodSeconds: 1, FailureThreshold: 1,
		}
		h.workers.Do(obj, []duty.Action{{Kind: duty.Launch, Container: "a"}})
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		unanswered := 0
		for _, batch := range h.batches {
			for _, o := range batch {
				if o.What == duty.Checked && (o.OK || o.Verdict || !o.Unanswered || o.Message != "executable file not found") {
					t.Errorf("reported %+v", o)
				}
				if o.Unanswered {
					unanswered++
				}
			}
		}
		if unanswered != 4 {
			t.Errorf("%d reports", unanswered)
		}
	})
}
