package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime/oci"
)

const (
	term = syscall.SIGTERM
	kill = syscall.SIGKILL
)

func TestWorkers(t *testing.T) {
	withSteps := func(h *host, c *Config) { c.Steps = h.steps("volumes", "net") }
	for rule, test := range map[string]func(t *testing.T){
		"containers that wait together are set up once and reported together": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "a", "b"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.want(t, []string{"SetUp volumes", "SetUp net", "Start a/0", "Start b/0"},
				[]string{"SetUp, Pulled a/0, Started a/0, Pulled b/0, Started b/0"})
		},
		"a container that ends at once is reported with its start": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "0s"), []duty.Action{launchOf("c", 0)})
			_, batches := h.take()
			if all := strings.Join(batches, ", "); !strings.HasPrefix(all, "SetUp, Pulled c/0, Started c/0") || strings.Count(all, "Exited c/0") != 1 {
				t.Errorf("reported %q", batches)
			}
		},
		"an exit is reported by itself": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1m"), []duty.Action{launchOf("c", 0)})
			h.take()
			time.Sleep(time.Minute)
			h.want(t, nil, []string{"Exited c/0"})
		},
		"a restart removes the attempt before, and sets up nothing anew": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyOnFailure, "c"), "1s")
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			time.Sleep(2 * time.Second)
			h.take()
			h.workers.Do(obj, []duty.Action{launchOf("c", 1)})
			h.want(t, []string{"Remove u.c.0", "Start c/1"}, []string{"Pulled c/1, Started c/1"})
		},
		"a pull is reported at once, and holds up neither what is done nor other pods": func(t *testing.T) {
			h := newHost(t, func(h *host, c *Config) { c.Parallel = 1 })
			defer h.close()
			obj := newPod(corev1.RestartPolicyNever, "a", "b")
			obj.Spec.Containers[1].Image = "big"
			h.pull["big"] = time.Minute
			h.workers.Do(lasting(obj, "1h"), []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			_, batches := h.take()
			slices.Sort(batches)
			if fmt.Sprint(batches) != "[Pulling b/0 SetUp, Pulled a/0, Started a/0]" {
				t.Errorf("reported %q", batches)
			}
			other := newPod(corev1.RestartPolicyNever, "c")
			other.UID = "other"
			h.workers.Do(lasting(other, "1h"), []duty.Action{launchOf("c", 0)})
			h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, Started c/0"})
			time.Sleep(time.Minute)
			h.want(t, []string{"Start b/0"}, []string{"Pulled b/0, Started b/0"})
		},
		"a launch that was asked for twice is done once": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			did, _ := h.take()
			if slices.Contains(did[1:], "Start c/0") && len(did) > 2 {
				t.Errorf("did %q", did)
			}
			if held, _ := h.Containers(t.Context()); len(held) != 1 {
				t.Errorf("holds %v", held)
			}
		},
		"a step that fails fails all launches that waited for it": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			h.breaks("SetUp net", errors.New("no bridge"))
			obj := lasting(newPod(corev1.RestartPolicyNever, "a", "b"), "1h")
			h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0)})
			h.want(t, []string{"SetUp volumes", "SetUp net"}, []string{"SetUpFailed a/0, SetUpFailed b/0"})
			h.breaks("SetUp net", nil)
			h.workers.Do(obj, []duty.Action{launchOf("a", 0)})
			h.want(t, []string{"SetUp volumes", "SetUp net", "Start a/0"}, []string{"SetUp, Pulled a/0, Started a/0"})
		},
		"nothing is remembered of a container that did not start": func(t *testing.T) {
			h := newHost(t, func(_ *host, c *Config) {
				c.LogPath = func(_ *corev1.Pod, container string, attempt int) string { return "/nothing" }
			})
			defer h.close()
			h.breaks("Start c/0", errors.New("no room"))
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			obj.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, StartFailed c/0"})
			if len(h.workers.tails) != 0 {
				t.Errorf("remembers %v", h.workers.tails)
			}
			h.breaks("Start c/0", nil)
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(obj, []duty.Action{{Kind: duty.TearDown}})
			h.take()
			if len(h.workers.tails) != 0 {
				t.Errorf("remembers %v", h.workers.tails)
			}
		},
		"what a spec is made without is reported before its start": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.doubts = "some nameservers have been omitted"
			h.workers.Do(newPod(corev1.RestartPolicyNever, "c"), []duty.Action{launchOf("c", 0)})
			synctest.Wait()
			h.mu.Lock()
			seen := slices.Concat(h.batches...)
			h.mu.Unlock()
			doubted := func(o duty.Observation) bool { return o.What == duty.Doubted }
			started := func(o duty.Observation) bool { return o.What == duty.Started }
			i := slices.IndexFunc(seen, doubted)
			if i < 0 || i > slices.IndexFunc(seen, started) {
				t.Fatalf("reported %v", seen)
			}
			if o := seen[i]; o.Reason != "DNSConfigForming" || o.Message != h.doubts || !o.Later {
				t.Errorf("reported %s: %s, later: %t", o.Reason, o.Message, o.Later)
			}
		},
		"failures carry a kubelet's reasons": func(t *testing.T) {
			for what, reason := range map[string]string{
				"image busybox": duty.ErrImagePull, "Spec c": duty.CreateContainerConfig, "Start c/0": duty.CreateContainer,
			} {
				h := newHost(t)
				h.broken[what] = errors.New("no")
				h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []duty.Action{launchOf("c", 0)})
				h.wantFailure(t, reason, "no")
				h.close()
			}
			bare := newHost(t)
			defer bare.close()
			bare.broken["Spec c"] = fmt.Errorf("container c: %w", oci.ErrNoCommand)
			bare.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []duty.Action{launchOf("c", 0)})
			bare.wantFailure(t, duty.CreateContainer, "container c: no command specified")
			full := newHost(t)
			defer full.close()
			const words = "crun: mkdir `/work`: No space left on device"
			full.refuse = map[string]string{"c": words}
			full.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []duty.Action{launchOf("c", 0)})
			full.wantFailure(t, duty.CreateContainer, words)
			h := newHost(t)
			defer h.close()
			h.broken["image busybox"] = fmt.Errorf("it is not here: %w", errdefs.ErrNotFound)
			obj := newPod(corev1.RestartPolicyNever, "c")
			obj.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
			h.workers.Do(lasting(obj, "1h"), []duty.Action{launchOf("c", 0)})
			h.wantFailure(t, duty.ErrImageNeverPull, `Container image "busybox" is not present with pull policy of Never`)
		},
		"no more pods than Parallel are worked on at a time": func(t *testing.T) {
			h := newHost(t, func(h *host, c *Config) {
				c.Parallel = 3
				c.Steps = []Step{{
					Name: "slow",
					SetUp: func(context.Context, *corev1.Pod, *Sandbox) error {
						h.mu.Lock()
						h.busy++
						h.most = max(h.most, h.busy)
						h.mu.Unlock()
						time.Sleep(time.Second)
						h.mu.Lock()
						h.busy--
						h.mu.Unlock()
						return nil
					},
					TearDown: func(context.Context, types.UID) error { return nil },
				}}
			})
			defer h.close()
			for i := range 10 {
				obj := newPod(corev1.RestartPolicyNever, "c")
				obj.UID = types.UID(fmt.Sprint(i))
				h.workers.Do(lasting(obj, "1h"), []duty.Action{launchOf("c", 0)})
			}
			time.Sleep(10 * time.Second)
			_, batches := h.take()
			if h.most != 3 || len(batches) != 10 {
				t.Errorf("%d at a time, %d reports", h.most, len(batches))
			}
		},
		"a step that waits for another pod lets it be worked on": func(t *testing.T) {
			gone := make(chan struct{})
			h := newHost(t, func(h *host, c *Config) {
				c.Parallel = 1
				c.Steps = []Step{{
					Name: "devices",
					SetUp: func(_ context.Context, p *corev1.Pod, s *Sandbox) error {
						if p.UID == "next" {
							s.Yield(func() { <-gone })
						}
						return nil
					},
					TearDown: func(context.Context, types.UID) error { close(gone); return nil },
				}}
			})
			defer h.close()
			first, next := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			next.UID = "next"
			h.workers.Do(first, []duty.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(next, []duty.Action{launchOf("c", 0)})
			h.want(t, nil, nil)
			h.workers.Do(first, []duty.Action{{Kind: duty.TearDown}})
			if did, _ := h.take(); !slices.Contains(did, "Start c/0") {
				t.Errorf("did %q", did)
			}
		},
	} {
		t.Run(rule, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// The measurement of a pod that goes, or of a daemon that ends, is not waited for, however long it would take.
func TestMeasurementsForNobodyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tornDown := 0
		h := newHost(t, func(_ *host, c *Config) {
			c.Steps = []Step{{
				Name: "volumes",
				Measure: func(ctx context.Context, _ *corev1.Pod) string {
					<-ctx.Done()
					return ""
				},
				TearDown: func(context.Context, types.UID) error { tornDown++; return nil },
			}}
		})
		gone, stays := newPod(corev1.RestartPolicyNever, "c"), newPod(corev1.RestartPolicyNever, "c")
		gone.UID, stays.UID = "gone", "stays"
		for _, obj := range []*corev1.Pod{gone, stays} {
			h.workers.Do(obj, []duty.Action{{Kind: duty.Measure}})
		}
		synctest.Wait()
		h.workers.Do(gone, []duty.Action{{Kind: duty.TearDown}})
		synctest.Wait()
		if tornDown != 1 {
			t.Errorf("%d were torn down", tornDown)
		}
		began := time.Now()
		h.close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

func TestChecksOfAPodDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		h := newHost(t, func(_ *host, c *Config) {
			c.Steps = []Step{{
				Name: "volumes",
				Refresh: func(context.Context, *corev1.Pod) error {
					did = append(did, "refresh")
					time.Sleep(time.Second)
					return nil
				},
				Measure: func(context.Context, *corev1.Pod) string {
					did = append(did, "measure")
					time.Sleep(time.Second)
					return ""
				},
				TearDown: func(context.Context, types.UID) error { did = append(did, "tear down"); return nil },
			}}
		})
		defer h.close()
		obj := newPod(corev1.RestartPolicyNever, "c")
		more := func() {
			for range 1000 {
				h.workers.Do(obj, []duty.Action{{Kind: duty.Refresh}, {Kind: duty.Measure}})
			}
		}
		h.workers.Do(obj, []duty.Action{{Kind: duty.Refresh}, {Kind: duty.Measure}})
		time.Sleep(time.Minute)
		synctest.Wait()
		// Actions that come while one is under way may see something it does not, and so one more is carried out.
		h.workers.Do(obj, []duty.Action{{Kind: duty.Refresh}})
		synctest.Wait()
		more()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"refresh", "measure", "refresh", "refresh", "measure"}; !slices.Equal(did, want) {
			t.Errorf("%d actions, want %q", len(did), want)
		}
		// A pod that is being torn down is not looked at any more.
		did = nil
		h.workers.Do(obj, []duty.Action{{Kind: duty.Refresh}})
		synctest.Wait()
		more()
		h.workers.Do(obj, []duty.Action{{Kind: duty.TearDown}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"refresh", "tear down"}; !slices.Equal(did, want) {
			t.Errorf("%d actions, want %q", len(did), want)
		}
	})
}
