package worker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jobd/jobd/daemon/duty"
)

func TestPostStartHooks(t *testing.T) {
	for rule, test := range map[string]func(t *testing.T){
		"a container waits for the postStart hook of the one before, which is shown as running only then": func(t *testing.T) {
			h := newHost(t, func(h *host, c *Config) { c.Parallel = 1 })
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b", "c"), "b"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0), launchOf("c", 0)})
			h.want(t, []string{"Start a/0", "Start b/0"}, []string{"SetUp, Pulled a/0, Started a/0, Pulled b/0"})
			other := newPod(corev1.RestartPolicyNever, "d")
			other.UID = "other"
			h.workers.Do(lasting(other, "1h"), []duty.Action{launchOf("d", 0)})
			h.want(t, []string{"Start d/0"}, []string{"SetUp, Pulled d/0, Started d/0"})
			time.Sleep(hookTime - time.Nanosecond)
			h.want(t, nil, nil)
			time.Sleep(time.Nanosecond)
			h.want(t, []string{"Start c/0"}, []string{"Started b/0, Checked b/0", "Pulled c/0, Started c/0"})
		},
		"it is started also when that hook fails": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := newPod(corev1.RestartPolicyNever, "a", "b")
			obj.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
				TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("none")},
			}}
			h.workers.Do(lasting(obj, "1h"), []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			synctest.Wait()
			if o := h.batches[1][1]; o.Check != duty.PostStart || o.OK || !o.Verdict {
				t.Errorf("reported %+v", o)
			}
			h.want(t, []string{"Start a/0", "Start b/0"},
				[]string{"SetUp, Pulled a/0", "Started a/0, Checked a/0", "Pulled b/0, Started b/0"})
		},
		"and when its container ends during the hook": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1s")
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			time.Sleep(time.Second)
			h.want(t, []string{"Start b/0"}, []string{"Started a/0, Exited a/0", "Pulled b/0, Started b/0"})
		},
		"a stop of the pod ends the hook, and reaches the container": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			h.workers.Do(obj, []duty.Action{stopOf("a", 0, term), stopOf("b", 0, term)})
			did, batches := h.take()
			slices.Sort(batches)
			if len(did) > 0 || !slices.Equal(batches, []string{"Dropped b/0", "Exited a/0", "Started a/0"}) {
				t.Errorf("did %q, reported %q", did, batches)
			}
		},
		"a tear-down ends the hook": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			h.workers.Do(obj, []duty.Action{{Kind: duty.TearDown}})
			if did, batches := h.take(); !slices.Equal(did, []string{"Remove u.a.0"}) || !slices.Contains(batches, "TornDown") {
				t.Errorf("did %q, reported %q", did, batches)
			}
		},
		"a daemon that ends during a hook leaves the hook, and what waits for it, to the next one": func(t *testing.T) {
			h := newHost(t)
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1h")
			both := []duty.Action{launchOf("a", 0), launchOf("b", 0)}
			h.workers.Do(obj, both)
			h.take()
			h.workers.Close()
			h.want(t, nil, nil)
			h.workers = New(Config{Runtime: h, Images: h, Spec: h, Report: h.report})
			defer h.close()
			h.workers.Do(obj, both)
			h.want(t, []string{"Start a/0"}, []string{"SetUp, Pulled a/0"}) // which finds that it runs
			time.Sleep(hookTime)
			h.want(t, []string{"Start b/0"}, []string{"Started a/0, Checked a/0", "Pulled b/0, Started b/0"})
		},
	} {
		t.Run(rule, func(t *testing.T) { synctest.Test(t, test) })
	}
}
