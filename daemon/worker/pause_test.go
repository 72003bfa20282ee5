package worker

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
)

func TestPause(t *testing.T) {
	pause, goOn := duty.Action{Kind: duty.Pause}, duty.Action{Kind: duty.Continue}
	for rule, test := range map[string]func(t *testing.T, h *host, obj *corev1.Pod){
		"what is frozen does not end by itself": func(t *testing.T, h *host, obj *corev1.Pod) {
			h.workers.Do(obj, []duty.Action{pause})
			h.want(t, nil, []string{"Paused"})
			time.Sleep(time.Hour)
			h.want(t, nil, nil)
			h.workers.Do(obj, []duty.Action{goOn})
			h.want(t, nil, []string{"Continued"})
			time.Sleep(59 * time.Second)
			h.want(t, nil, nil)
			time.Sleep(2 * time.Second)
			h.want(t, nil, []string{"Exited c/0"})
		},
		"what is frozen is stopped": func(t *testing.T, h *host, obj *corev1.Pod) {
			h.workers.Do(obj, []duty.Action{pause})
			h.want(t, nil, []string{"Paused"})
			h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)})
			h.want(t, nil, []string{"Exited c/0"})
		},
		"a pod that ends is not frozen any more": func(t *testing.T, h *host, obj *corev1.Pod) {
			stop := duty.Action{Kind: duty.RunPreStop, Container: "c", Ends: true}
			h.workers.Do(obj, []duty.Action{stop, pause})
			time.Sleep(2 * time.Minute)
			h.want(t, nil, []string{"Exited c/0"})
		},
		"what is frozen is torn down": func(t *testing.T, h *host, obj *corev1.Pod) {
			h.workers.Do(obj, []duty.Action{pause})
			h.want(t, nil, []string{"Paused"})
			h.workers.Do(obj, []duty.Action{{Kind: duty.TearDown}})
			synctest.Wait()
			if held, err := h.workers.config.Runtime.Containers(t.Context()); err != nil || len(held) > 0 {
				t.Errorf("%v, %v", held, err)
			}
		},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				defer h.close()
				obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1m")
				h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
				h.take()
				test(t, h, obj)
			})
		})
	}
}
