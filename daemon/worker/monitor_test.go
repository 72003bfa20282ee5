package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// patient answers commands as a test wants it to.
type patient struct {
	*host
	mu    sync.Mutex
	ill   map[string]bool
	asked []string
}

func (p *patient) Exec(ctx context.Context, _ string, e runtime.ExecRequest) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, e.Args[0])
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
		h.workers.Do(obj, []pod.Action{{Kind: pod.Launch, Container: "a"}})
		time.Sleep(30 * time.Second)
		synctest.Wait()

		var seen []string
		begin := time.Now().Add(-30 * time.Second)
		for _, batch := range h.batches {
			for _, o := range batch {
				if o.What == pod.Checked {
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
		want := []string{"12s Readiness", "17s Readiness", "2s Liveness", "2s Readiness!", "2s Startup ok!", "5s Liveness", "7s Readiness", "8s Liveness!"}
		if !slices.Equal(seen, want) {
			t.Errorf("reported %q", seen)
		}
		if p.asked[0] != "hook" || p.asked[1] != "start" {
			t.Errorf("asked %q", p.asked)
		}
		if len(h.workers.monitors) != 0 {
			t.Error("one that has ended is still checked")
		}
	})
}
