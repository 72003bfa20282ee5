package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
)

func TestStop(t *testing.T) {
	for rule, test := range map[string]func(t *testing.T){
		"a signal ends a container": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)})
			h.want(t, nil, []string{"Exited c/0"})
			h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)})
			h.want(t, nil, nil)
		},
		"a stop calls off a launch that waits for its image": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.pull["busybox"] = time.Hour
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)})
			h.want(t, nil, []string{"Dropped c/0"})
		},
		"a stop calls off the set-up": func(t *testing.T) {
			h := newHost(t, func(h *host, c *Config) {
				c.Steps = []Step{{
					Name: "volumes", Reason: "FailedMount",
					SetUp: func(ctx context.Context, _ *corev1.Pod, _ *Sandbox) error {
						<-ctx.Done() // a server does not answer
						return ctx.Err()
					},
					TearDown: func(context.Context, types.UID) error { return nil },
				}}
			})
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.want(t, nil, nil)
			h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)})
			h.want(t, nil, []string{"Dropped c/0"})
		},
		"a stop reaches a container that has started, before the others of its launch have": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "a", "b"), "1h")
			h.during = map[string]func(){"b": func() { h.workers.Do(obj, []duty.Action{stopOf("a", 0, term)}) }}
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.want(t, []string{"Start a/0", "Start b/0"}, []string{"SetUp, Pulled a/0, Started a/0, Pulled b/0, Started b/0", "Exited a/0"})
		},
		"a stop reaches a container that is being started": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.during = map[string]func(){"c": func() { h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)}) }}
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, Started c/0", "Exited c/0"})
		},
		"a kill of a container that nobody knows reports it as lost": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []duty.Action{stopOf("c", 0, kill)})
			h.want(t, nil, []string{"Lost c/0"})
		},
	} {
		t.Run(rule, func(t *testing.T) { synctest.Test(t, test) })
	}
}
