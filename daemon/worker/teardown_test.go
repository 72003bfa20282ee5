package worker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

func TestTearDown(t *testing.T) {
	withSteps := func(h *host, c *Config) { c.Steps = h.steps("volumes", "net") }
	for rule, test := range map[string]func(t *testing.T){
		"tear-down undoes the steps in reverse, and again until it succeeds": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1s")
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			time.Sleep(2 * time.Second)
			h.take()
			h.breaks("TearDown volumes", errors.New("busy"))
			h.workers.Do(obj, []duty.Action{{Kind: duty.TearDown}})
			h.want(t, []string{"Remove u.c.0", "TearDown net", "TearDown volumes"}, nil)
			h.breaks("TearDown volumes", nil)
			time.Sleep(time.Second)
			h.want(t, []string{"TearDown net", "TearDown volumes"}, []string{"TornDown"})
			if len(h.workers.pods) != 0 {
				t.Error("the pod is still known")
			}
		},
		"tear-down that fails again and again says so in ever fewer events": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			h.breaks("TearDown volumes", errors.New("remove /pods/u/v: operation not permitted"))
			h.workers.Do(newPod(corev1.RestartPolicyNever, "c"), []duty.Action{{Kind: duty.TearDown}})
			time.Sleep(time.Hour)
			h.mu.Lock()
			var said []string
			for _, batch := range h.batches {
				said = append(said, batch[0].Reason+": "+batch[0].Message)
			}
			h.mu.Unlock()
			var want []string
			for _, n := range []int{4, 8, 16, 32, 64} {
				want = append(want, fmt.Sprintf("FailedKillPod: Tear-down has failed %d times and is retried: "+
					"cannot undo volumes: remove /pods/u/v: operation not permitted", n))
			}
			if !slices.Equal(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
			h.breaks("TearDown volumes", nil)
			time.Sleep(time.Minute)
			if _, batches := h.take(); batches[len(batches)-1] != "TornDown" {
				t.Errorf("reported %q", batches)
			}
		},
		"tear-down of a pod whose object is gone ends what runs and what is pulled": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := newPod(corev1.RestartPolicyNever, "a", "b")
			obj.Spec.Containers[1].Image = "big"
			h.pull["big"] = time.Hour
			h.workers.Do(lasting(obj, "1h"), []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			h.workers.Do(obj, []duty.Action{{Kind: duty.TearDown}})
			did, batches := h.take()
			if !slices.Contains(did, "Remove u.a.0") || !slices.Contains(batches, "TornDown") {
				t.Errorf("did %q, reported %q", did, batches)
			}
			if held, _ := h.Containers(t.Context()); len(held) != 0 {
				t.Errorf("holds %v", held)
			}
		},
	} {
		t.Run(rule, func(t *testing.T) { synctest.Test(t, test) })
	}
}
