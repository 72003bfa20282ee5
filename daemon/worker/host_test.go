package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/simulated"
)

// host is a runtime with images and steps whose failures can be chosen; it records what was done with them.
type host struct {
	*simulated.Runtime
	workers *Pool

	mu      sync.Mutex
	log     []string                 // what the workers did
	batches [][]duty.Observation     // what they reported
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

func (h *host) report(list []duty.Observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches = append(h.batches, list)
}

func (h *host) Ensure(ctx context.Context, ref string, policy corev1.PullPolicy, _ *runtime.PullSecrets, progress func(string)) (runtime.Image, error) {
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

func launchOf(container string, attempt int) duty.Action {
	return duty.Action{Kind: duty.Launch, Container: container, Attempt: attempt}
}

func stopOf(container string, attempt int, signal syscall.Signal) duty.Action {
	return duty.Action{Kind: duty.Stop, Container: container, Attempt: attempt, Signal: signal}
}

// wantFailure checks what was reported last.
func (h *host) wantFailure(t *testing.T, reason, message string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.batches[len(h.batches)-1]
	if o := last[len(last)-1]; o.What != duty.StartFailed || o.Reason != reason || o.Message != message {
		t.Errorf("got %s %s %q, want %s %q", o, o.Reason, o.Message, reason, message)
	}
}
