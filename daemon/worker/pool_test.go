package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/simulated"
)

// host is a runtime with images and steps whose failures can be chosen; it records what was done with them.
type host struct {
	*simulated.Runtime
	workers *Pool

	mu      sync.Mutex
	log     []string                 // what the workers did
	batches [][]pod.Observation      // what they reported
	pull    map[string]time.Duration // how long an image takes; no entry: it is here
	broken  map[string]error         // by "SetUp net", "Start c", "Spec c", "image"
	doubts  string                   // what every spec is made with
	refuse  map[string]string        // what the OCI runtime says instead of starting a container, by its name
	during  map[string]func()        // called while a container is being started, by its name
	slow    time.Duration            // how long a start takes after the process has begun to run
	busy    int                      // pods worked on now
	most    int
}

func newHost(t *testing.T, options ...func(*host, *Config)) *host {
	h := &host{Runtime: simulated.New(), pull: map[string]time.Duration{}, broken: map[string]error{}}
	config := Config{Runtime: h, Images: h, Spec: h, Report: h.report}
	for _, o := range options {
		o(h, &config)
	}
	h.workers = New(config)
	return h
}

func (h *host) close() {
	h.workers.Close()
	_ = h.Runtime.Close()
}

func (h *host) note(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	h.log = append(h.log, line)
	return h.broken[line]
}

func (h *host) breaks(what string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken[what] = err
}

func (h *host) report(list []pod.Observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches = append(h.batches, list)
}

func (h *host) Ensure(ctx context.Context, ref string, policy corev1.PullPolicy, _ []corev1.Secret, progress func(string)) (runtime.Image, error) {
	h.mu.Lock()
	d, slow := h.pull[ref]
	err := h.broken["image "+ref]
	h.mu.Unlock()
	if slow {
		progress("resolving")
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return runtime.Image{}, ctx.Err()
		}
		progress("done")
	}
	return runtime.Image{Name: ref, ID: "sha256:" + ref}, err
}

func (h *host) Spec(_ context.Context, in SpecInput) (*specs.Spec, error) {
	if err := h.broken["Spec "+in.Container.Name]; err != nil {
		return nil, err
	}
	if h.doubts != "" {
		in.Warn("DNSConfigForming", h.doubts)
	}
	return simulated.Spec(in.Pod, in.Container.Name), nil
}

func (h *host) Start(ctx context.Context, c runtime.Container) (runtime.Status, error) {
	if err := h.note("Start %s/%d", c.Name, c.Attempt); err != nil {
		return runtime.Status{}, err
	}
	h.mu.Lock()
	words, during := h.refuse[c.Name], h.during[c.Name]
	h.mu.Unlock()
	if during != nil {
		during()
	}
	if words != "" {
		return runtime.Status{ID: c.ID, PodUID: c.PodUID, Name: c.Name, Attempt: c.Attempt, State: runtime.Exited, ExitCode: 128, StartError: words}, nil
	}
	if h.slow > 0 {
		if status, err := h.Runtime.Start(ctx, c); err != nil {
			return status, err
		}
		time.Sleep(h.slow)
	}
	return h.Runtime.Start(ctx, c)
}

func (h *host) Remove(ctx context.Context, id string) error {
	if held, _ := h.Containers(ctx); slices.ContainsFunc(held, func(s runtime.Status) bool { return s.ID == id }) {
		if err := h.note("Remove %s", id); err != nil {
			return err
		}
	}
	return h.Runtime.Remove(ctx, id)
}

// steps are steps of these names.
func (h *host) steps(names ...string) (steps []Step) {
	for _, name := range names {
		steps = append(steps, Step{
			Name: name, Reason: "FailedMount",
			SetUp: func(_ context.Context, _ *corev1.Pod, s *Sandbox) error {
				s.IPs = []string{"10.0.0.7"}
				return h.note("SetUp %s", name)
			},
			TearDown: func(context.Context, types.UID) error { return h.note("TearDown %s", name) },
		})
	}
	return steps
}

// take returns what was done and reported since the last call, as text.
func (h *host) take() (did, batches []string) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.batches {
		var words []string
		for _, o := range b {
			words = append(words, o.String())
		}
		batches = append(batches, strings.Join(words, ", "))
	}
	did, h.log, h.batches = h.log, nil, nil
	return did, batches
}

func (h *host) want(t *testing.T, did, batches []string) {
	t.Helper()
	gotDid, got := h.take()
	if !slices.Equal(gotDid, did) {
		t.Errorf("did %q, want %q", gotDid, did)
	}
	if !slices.Equal(got, batches) {
		t.Errorf("reported %q, want %q", got, batches)
	}
}

func lasting(obj *corev1.Pod, d string) *corev1.Pod {
	obj.Annotations = map[string]string{simulated.Duration: d}
	pod.Apply(obj, &pod.Issued{}, nil, epoch)
	return obj
}

const hookTime = 5 * time.Second

// hooked gives a container of a pod a postStart hook that takes hookTime.
func hooked(obj *corev1.Pod, name string) *corev1.Pod {
	c := podspec.Find(&obj.Spec, name)
	c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
		Sleep: &corev1.SleepAction{Seconds: int64(hookTime / time.Second)},
	}}
	return obj
}

func launchOf(container string, attempt int) pod.Action {
	return pod.Action{Kind: pod.Launch, Container: container, Attempt: attempt}
}

func stopOf(container string, attempt int, signal syscall.Signal) pod.Action {
	return pod.Action{Kind: pod.Stop, Container: container, Attempt: attempt, Signal: signal}
}

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
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.want(t, []string{"SetUp volumes", "SetUp net", "Start a/0", "Start b/0"},
				[]string{"SetUp, Pulled a/0, Started a/0, Pulled b/0, Started b/0"})
		},
		"a container that ends at once is reported with its start": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "0s"), []pod.Action{launchOf("c", 0)})
			_, batches := h.take()
			if all := strings.Join(batches, ", "); !strings.HasPrefix(all, "SetUp, Pulled c/0, Started c/0") || strings.Count(all, "Exited c/0") != 1 {
				t.Errorf("reported %q", batches)
			}
		},
		"an exit is reported by itself": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1m"), []pod.Action{launchOf("c", 0)})
			h.take()
			time.Sleep(time.Minute)
			h.want(t, nil, []string{"Exited c/0"})
		},
		"a restart removes the attempt before, and sets up nothing anew": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyOnFailure, "c"), "1s")
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			time.Sleep(2 * time.Second)
			h.take()
			h.workers.Do(obj, []pod.Action{launchOf("c", 1)})
			h.want(t, []string{"Remove u.c.0", "Start c/1"}, []string{"Pulled c/1, Started c/1"})
		},
		"a pull is reported at once, and holds up neither what is done nor other pods": func(t *testing.T) {
			h := newHost(t, func(h *host, c *Config) { c.Parallel = 1 })
			defer h.close()
			obj := newPod(corev1.RestartPolicyNever, "a", "b")
			obj.Spec.Containers[1].Image = "big"
			h.pull["big"] = time.Minute
			h.workers.Do(lasting(obj, "1h"), []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			_, batches := h.take()
			slices.Sort(batches)
			if fmt.Sprint(batches) != "[Pulling b/0 SetUp, Pulled a/0, Started a/0]" {
				t.Errorf("reported %q", batches)
			}
			other := newPod(corev1.RestartPolicyNever, "c")
			other.UID = "other"
			h.workers.Do(lasting(other, "1h"), []pod.Action{launchOf("c", 0)})
			h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, Started c/0"})
			time.Sleep(time.Minute)
			h.want(t, []string{"Start b/0"}, []string{"Pulled b/0, Started b/0"})
		},
		"a container waits for the postStart hook of the one before, which is shown as running only then": func(t *testing.T) {
			h := newHost(t, func(h *host, c *Config) { c.Parallel = 1 })
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b", "c"), "b"), "1h")
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0), launchOf("c", 0)})
			h.want(t, []string{"Start a/0", "Start b/0"}, []string{"SetUp, Pulled a/0, Started a/0, Pulled b/0"})
			other := newPod(corev1.RestartPolicyNever, "d")
			other.UID = "other"
			h.workers.Do(lasting(other, "1h"), []pod.Action{launchOf("d", 0)})
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
			h.workers.Do(lasting(obj, "1h"), []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			synctest.Wait()
			if o := h.batches[1][1]; o.Check != pod.PostStart || o.OK || !o.Verdict {
				t.Errorf("reported %+v", o)
			}
			h.want(t, []string{"Start a/0", "Start b/0"},
				[]string{"SetUp, Pulled a/0", "Started a/0, Checked a/0", "Pulled b/0, Started b/0"})
		},
		"and when its container ends during the hook": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1s")
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			time.Sleep(time.Second)
			h.want(t, []string{"Start b/0"}, []string{"Started a/0, Exited a/0", "Pulled b/0, Started b/0"})
		},
		"a stop of the pod ends the hook, and reaches the container": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1h")
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			h.workers.Do(obj, []pod.Action{stopOf("a", 0, term), stopOf("b", 0, term)})
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
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			h.workers.Do(obj, []pod.Action{{Kind: pod.TearDown}})
			if did, batches := h.take(); !slices.Equal(did, []string{"Remove u.a.0"}) || !slices.Contains(batches, "TornDown") {
				t.Errorf("did %q, reported %q", did, batches)
			}
		},
		"a daemon that ends during a hook leaves the hook, and what waits for it, to the next one": func(t *testing.T) {
			h := newHost(t)
			obj := lasting(hooked(newPod(corev1.RestartPolicyNever, "a", "b"), "a"), "1h")
			both := []pod.Action{launchOf("a", 0), launchOf("b", 0)}
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
		"a launch that was asked for twice is done once": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
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
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.want(t, []string{"SetUp volumes", "SetUp net"}, []string{"SetUpFailed a/0, SetUpFailed b/0"})
			h.breaks("SetUp net", nil)
			h.workers.Do(obj, []pod.Action{launchOf("a", 0)})
			h.want(t, []string{"SetUp volumes", "SetUp net", "Start a/0"}, []string{"SetUp, Pulled a/0, Started a/0"})
		},
		"tear-down undoes the steps in reverse, and again until it succeeds": func(t *testing.T) {
			h := newHost(t, withSteps)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1s")
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			time.Sleep(2 * time.Second)
			h.take()
			h.breaks("TearDown volumes", errors.New("busy"))
			h.workers.Do(obj, []pod.Action{{Kind: pod.TearDown}})
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
			h.workers.Do(newPod(corev1.RestartPolicyNever, "c"), []pod.Action{{Kind: pod.TearDown}})
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
			h.workers.Do(lasting(obj, "1h"), []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.take()
			h.workers.Do(obj, []pod.Action{{Kind: pod.TearDown}})
			did, batches := h.take()
			if !slices.Contains(did, "Remove u.a.0") || !slices.Contains(batches, "TornDown") {
				t.Errorf("did %q, reported %q", did, batches)
			}
			if held, _ := h.Containers(t.Context()); len(held) != 0 {
				t.Errorf("holds %v", held)
			}
		},
		"a signal ends a container": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(obj, []pod.Action{stopOf("c", 0, term)})
			h.want(t, nil, []string{"Exited c/0"})
			h.workers.Do(obj, []pod.Action{stopOf("c", 0, term)})
			h.want(t, nil, nil)
		},
		"a stop calls off a launch that waits for its image": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.pull["busybox"] = time.Hour
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(obj, []pod.Action{stopOf("c", 0, term)})
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
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.want(t, nil, nil)
			h.workers.Do(obj, []pod.Action{stopOf("c", 0, term)})
			h.want(t, nil, []string{"Dropped c/0"})
		},
		"nothing is remembered of a container that did not start": func(t *testing.T) {
			h := newHost(t, func(_ *host, c *Config) {
				c.LogPath = func(_ *corev1.Pod, container string, attempt int) string { return "/nothing" }
			})
			defer h.close()
			h.breaks("Start c/0", errors.New("no room"))
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			obj.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, StartFailed c/0"})
			if len(h.workers.tails) != 0 {
				t.Errorf("remembers %v", h.workers.tails)
			}
			h.breaks("Start c/0", nil)
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(obj, []pod.Action{{Kind: pod.TearDown}})
			h.take()
			if len(h.workers.tails) != 0 {
				t.Errorf("remembers %v", h.workers.tails)
			}
		},
		"a stop reaches a container that has started, before the others of its launch have": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "a", "b"), "1h")
			h.during = map[string]func(){"b": func() { h.workers.Do(obj, []pod.Action{stopOf("a", 0, term)}) }}
			h.workers.Do(obj, []pod.Action{launchOf("a", 0), launchOf("b", 0)})
			h.want(t, []string{"Start a/0", "Start b/0"}, []string{"SetUp, Pulled a/0, Started a/0, Pulled b/0, Started b/0", "Exited a/0"})
		},
		"a stop reaches a container that is being started": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
			h.during = map[string]func(){"c": func() { h.workers.Do(obj, []pod.Action{stopOf("c", 0, term)}) }}
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, Started c/0", "Exited c/0"})
		},
		"a kill of a container that nobody knows reports it as lost": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []pod.Action{stopOf("c", 0, kill)})
			h.want(t, nil, []string{"Lost c/0"})
		},
		"what a spec is made without is reported before its start": func(t *testing.T) {
			h := newHost(t)
			defer h.close()
			h.doubts = "some nameservers have been omitted"
			h.workers.Do(newPod(corev1.RestartPolicyNever, "c"), []pod.Action{launchOf("c", 0)})
			synctest.Wait()
			h.mu.Lock()
			seen := slices.Concat(h.batches...)
			h.mu.Unlock()
			doubted := func(o pod.Observation) bool { return o.What == pod.Doubted }
			started := func(o pod.Observation) bool { return o.What == pod.Started }
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
				"image busybox": pod.ErrImagePull, "Spec c": pod.CreateContainerConfig, "Start c/0": pod.CreateContainer,
			} {
				h := newHost(t)
				h.broken[what] = errors.New("no")
				h.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []pod.Action{launchOf("c", 0)})
				h.wantFailure(t, reason, "no")
				h.close()
			}
			bare := newHost(t)
			defer bare.close()
			bare.broken["Spec c"] = fmt.Errorf("container c: %w", oci.ErrNoCommand)
			bare.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []pod.Action{launchOf("c", 0)})
			bare.wantFailure(t, pod.CreateContainer, "container c: no command specified")
			full := newHost(t)
			defer full.close()
			const words = "crun: mkdir `/work`: No space left on device"
			full.refuse = map[string]string{"c": words}
			full.workers.Do(lasting(newPod(corev1.RestartPolicyNever, "c"), "1h"), []pod.Action{launchOf("c", 0)})
			full.wantFailure(t, pod.CreateContainer, words)
			h := newHost(t)
			defer h.close()
			h.broken["image busybox"] = fmt.Errorf("it is not here: %w", errdefs.ErrNotFound)
			obj := newPod(corev1.RestartPolicyNever, "c")
			obj.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
			h.workers.Do(lasting(obj, "1h"), []pod.Action{launchOf("c", 0)})
			h.wantFailure(t, pod.ErrImageNeverPull, `Container image "busybox" is not present with pull policy of Never`)
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
				h.workers.Do(lasting(obj, "1h"), []pod.Action{launchOf("c", 0)})
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
			h.workers.Do(first, []pod.Action{launchOf("c", 0)})
			h.take()
			h.workers.Do(next, []pod.Action{launchOf("c", 0)})
			h.want(t, nil, nil)
			h.workers.Do(first, []pod.Action{{Kind: pod.TearDown}})
			if did, _ := h.take(); !slices.Contains(did, "Start c/0") {
				t.Errorf("did %q", did)
			}
		},
		"a failed container without a message shows the end of its log, where it may": func(t *testing.T) {
			dir := t.TempDir()
			h := newHost(t, func(_ *host, c *Config) {
				c.LogPath = func(_ *corev1.Pod, container string, attempt int) string {
					return filepath.Join(dir, container, fmt.Sprintf("%d.log", attempt))
				}
			})
			defer h.close()
			obj := newPod(corev1.RestartPolicyNever, "c")
			obj.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			obj = lasting(obj, "1m")
			obj.Annotations[simulated.ExitCode] = "1"
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			h.take()
			if err := os.WriteFile(filepath.Join(dir, "c", "0.log"), []byte("2026-01-01T00:00:00.000000000Z stdout F one\n2026-01-01T00:00:00.000000000Z stderr F two\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := h.batches[0][0].Status.Message; got != "one\ntwo\n" {
				t.Errorf("message is %q", got)
			}
		},
		"it does so even if it has ended before its start is over": func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "0.log")
			h := newHost(t, func(h *host, c *Config) {
				h.slow = time.Minute
				c.LogPath = func(*corev1.Pod, string, int) string { return log }
			})
			defer h.close()
			if err := os.WriteFile(log, []byte("2026-01-01T00:00:00.000000000Z stdout F why\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1s")
			obj.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			obj.Annotations[simulated.ExitCode] = "1"
			h.workers.Do(obj, []pod.Action{launchOf("c", 0)})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for _, o := range h.batches[0] {
				if o.What == pod.Exited && o.Status.Message != "why\n" {
					t.Errorf("message is %q", o.Status.Message)
				}
			}
		},
	} {
		t.Run(rule, func(t *testing.T) { synctest.Test(t, test) })
	}
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
				Measure:  func(*corev1.Pod) string { did = append(did, "measure"); time.Sleep(time.Second); return "" },
				TearDown: func(context.Context, types.UID) error { did = append(did, "tear down"); return nil },
			}}
		})
		defer h.close()
		obj := newPod(corev1.RestartPolicyNever, "c")
		more := func() {
			for range 1000 {
				h.workers.Do(obj, []pod.Action{{Kind: pod.Refresh}, {Kind: pod.Measure}})
			}
		}
		h.workers.Do(obj, []pod.Action{{Kind: pod.Refresh}, {Kind: pod.Measure}})
		time.Sleep(time.Minute)
		synctest.Wait()
		// Actions that come while one is under way may see something it does not, and so one more is carried out.
		h.workers.Do(obj, []pod.Action{{Kind: pod.Refresh}})
		synctest.Wait()
		more()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"refresh", "measure", "refresh", "refresh", "measure"}; !slices.Equal(did, want) {
			t.Errorf("%d actions, want %q", len(did), want)
		}
		// A pod that is being torn down is not looked at any more.
		did = nil
		h.workers.Do(obj, []pod.Action{{Kind: pod.Refresh}})
		synctest.Wait()
		more()
		h.workers.Do(obj, []pod.Action{{Kind: pod.TearDown}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"refresh", "tear down"}; !slices.Equal(did, want) {
			t.Errorf("%d actions, want %q", len(did), want)
		}
	})
}

// wantFailure checks what was reported last.
func (h *host) wantFailure(t *testing.T, reason, message string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.batches[len(h.batches)-1]
	if o := last[len(last)-1]; o.What != pod.StartFailed || o.Reason != reason || o.Message != message {
		t.Errorf("got %s %s %q, want %s %q", o, o.Reason, o.Message, reason, message)
	}
}

func TestRecover(t *testing.T) {
	// Each pod is stored in one state, and the runtime holds its containers in another.
	runs := func(obj *corev1.Pod) {
		pod.Apply(obj, &pod.Issued{}, []pod.Observation{{UID: obj.UID, What: pod.Started, Container: "c", Status: runtime.Status{StartedAt: epoch}}}, epoch)
	}
	deleted := func(obj *corev1.Pod) {
		at, grace := metav1.NewTime(time.Now().Add(30*time.Second).Truncate(time.Second)), int64(30)
		obj.DeletionTimestamp, obj.DeletionGracePeriodSeconds = &at, &grace
	}
	ended := func(obj *corev1.Pod) {
		runs(obj)
		pod.Apply(obj, &pod.Issued{}, []pod.Observation{{UID: obj.UID, What: pod.Exited, Container: "c"}}, epoch)
	}
	for rule, test := range map[string]struct {
		stored   []func(*corev1.Pod)
		held     string // how long the held container runs; empty: there is none
		rebooted bool
		want     string
		kept     int // containers after it
	}{
		"one that runs still runs":                             {stored: []func(*corev1.Pod){runs}, held: "1h", want: "[]", kept: 1},
		"one that has ended meanwhile has ended":               {stored: []func(*corev1.Pod){runs}, held: "0s", want: "[Exited c/0]", kept: 1},
		"one that was started and is not held is lost":         {stored: []func(*corev1.Pod){runs}, want: "[Lost c/0]"},
		"a start that is not on record is left to Launch":      {held: "1h", want: "[]", kept: 1},
		"but not when the pod is to end":                       {stored: []func(*corev1.Pod){deleted}, held: "1h", want: "[Started c/0]", kept: 1},
		"an end that is not on record, when the pod is to end": {stored: []func(*corev1.Pod){deleted}, held: "0s", want: "[Exited c/0]", kept: 1},
		"what was never started is launched":                   {want: "[]"},
		"a launch in doubt is lost after a reboot":             {rebooted: true, want: "[Lost c/0]"},
		"a pod that has ended is torn down by Next":            {stored: []func(*corev1.Pod){ended}, held: "0s", want: "[]", kept: 1},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				defer h.close()
				obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
				for _, change := range test.stored {
					change(obj)
				}
				if test.held != "" {
					obj := lasting(newPod(corev1.RestartPolicyNever, "c"), test.held)
					_, _ = h.Runtime.Start(t.Context(), runtime.Container{ID: "u.c.0", PodUID: "u", Name: "c", Spec: simulated.Spec(obj, "c")})
				}
				synctest.Wait()
				seen, err := h.workers.Recover(t.Context(), slices.Values([]*corev1.Pod{obj}), test.rebooted)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(seen); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
				synctest.Wait()
				if held, _ := h.Containers(t.Context()); len(held) != test.kept {
					t.Errorf("holds %v", held)
				}
			})
		})
	}
}

func TestRecoverRemovesWhatIsLeftOfPodsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var undone []types.UID
		h := newHost(t, func(_ *host, c *Config) {
			c.Steps = []Step{{
				Name:     "volumes",
				TearDown: func(_ context.Context, uid types.UID) error { undone = append(undone, uid); return nil },
				Held:     func(context.Context) ([]types.UID, error) { return []types.UID{"u", "left"}, nil },
			}}
			c.Parallel = 1
		})
		defer h.close()
		for _, uid := range []string{"gone", "u"} {
			_, _ = h.Runtime.Start(t.Context(), runtime.Container{ID: uid + ".c.0", PodUID: uid, Name: "c", Spec: simulated.Spec(lasting(newPod("", "c"), "1h"), "c")})
		}
		obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1h")
		if _, err := h.workers.Recover(t.Context(), slices.Values([]*corev1.Pod{obj}), false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		slices.Sort(undone)
		if fmt.Sprint(undone) != "[gone left]" {
			t.Errorf("undone for %v", undone)
		}
		if held, _ := h.Containers(t.Context()); len(held) != 1 || held[0].PodUID != "u" {
			t.Errorf("holds %v", held)
		}
	})
}
