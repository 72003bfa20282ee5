package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// hanging is a host on which the start of a pod's containers hangs until it is cancelled.
type hanging struct {
	*host
	off map[string]chan struct{} // by container id
}

func newHanging(t *testing.T, pods ...string) *hanging {
	h := &hanging{off: map[string]chan struct{}{}}
	for _, uid := range pods {
		h.off[runtime.ContainerID(uid, "c", 0)] = make(chan struct{})
	}
	h.host = newHost(t, func(inner *host, c *Config) { c.Runtime, c.Parallel = h, 2 })
	return h
}

func (h *hanging) OnExit(f func(runtime.Status)) {}

func (h *hanging) Start(ctx context.Context, c runtime.Container) (runtime.Status, error) {
	h.mu.Lock()
	off, ok := h.off[c.ID]
	h.mu.Unlock()
	if ok {
		select {
		case <-off:
			return runtime.Status{}, errdefs.ErrAborted
		case <-ctx.Done():
			return runtime.Status{}, ctx.Err()
		}
	}
	return h.host.Start(ctx, c)
}

func (h *hanging) CallOff(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if off, ok := h.off[id]; ok {
		delete(h.off, id)
		close(off)
		return nil
	}
	return errdefs.ErrFailedPrecondition
}

func podNamed(uid string) *corev1.Pod {
	obj := newPod(corev1.RestartPolicyNever, "c")
	obj.UID = types.UID(uid)
	return lasting(obj, "1h")
}

func TestStartsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := []string{"a", "b", "c", "d", "e"}
		h := newHanging(t, stuck...)
		defer h.close()
		var pods []*corev1.Pod
		for _, uid := range stuck {
			pods = append(pods, podNamed(uid))
			h.workers.Do(pods[len(pods)-1], []duty.Action{launchOf("c", 0)})
		}
		h.workers.Do(podNamed("other"), []duty.Action{launchOf("c", 0)})
		time.Sleep(3*patience + time.Second)
		h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, Started c/0"})

		if n := h.workers.Stuck(); n != 0 {
			t.Errorf("%d are stuck from the beginning", n)
		}
		time.Sleep(stuckTime)
		synctest.Wait()
		if n := h.workers.Stuck(); n != len(stuck) {
			t.Errorf("%d are stuck", n)
		}
		time.Sleep(10 * stuckTime)
		for _, batch := range h.batches {
			if o := batch[0]; o.Reason != "StuckStep" || !strings.HasPrefix(o.Message, "Stuck in start of container c since 2000-01-01T00:00:0") {
				t.Errorf("reported %s: %s", o.Reason, o.Message)
			}
		}
		_, batches := h.take()
		if !slices.Equal(batches, slices.Repeat([]string{"Stuck"}, len(stuck))) {
			t.Errorf("reported %q", batches)
		}

		// A tear-down and a stop end at once what hangs.
		h.workers.Do(pods[0], []duty.Action{{Kind: duty.TearDown}})
		h.workers.Do(pods[1], []duty.Action{stopOf("c", 0, term)})
		_, batches = h.take()
		slices.Sort(batches)
		if !slices.Equal(batches, []string{"SetUp, Pulled c/0, Dropped c/0", "SetUp, Pulled c/0, Dropped c/0", "TornDown"}) {
			t.Errorf("reported %q", batches)
		}
		if n := h.workers.Stuck(); n != len(stuck)-2 {
			t.Errorf("%d are stuck still", n)
		}
	})
}

func TestStartThatIsCalledOffHasTimeToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanging(t, "a")
		defer h.close()
		obj := podNamed("a")
		h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
		synctest.Wait()
		h.workers.Do(obj, []duty.Action{stopOf("c", 0, term)})
		time.Sleep(patience - time.Millisecond)
		h.want(t, nil, nil)
		time.Sleep(time.Millisecond)
		h.want(t, nil, []string{"SetUp, Pulled c/0, Dropped c/0"})
	})
}

func TestStepThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		h := newHost(t, func(h *host, c *Config) {
			c.Parallel = 1
			c.Steps = []Step{{
				Name: "volumes",
				SetUp: func(_ context.Context, obj *corev1.Pod, s *Sandbox) error {
					if obj.UID == "stuck" {
						// It returns its slot while it waits, and hangs after that.
						s.Yield(func() { time.Sleep(3 * patience) })
						<-goOn
					}
					return nil
				},
				TearDown: func(_ context.Context, uid types.UID) error { return h.note("TearDown %s", uid) },
			}}
		})
		defer h.close()
		h.workers.Do(podNamed("stuck"), []duty.Action{launchOf("c", 0)})
		for i := range 3 {
			time.Sleep(2 * patience)
			h.workers.Do(podNamed(fmt.Sprint(i)), []duty.Action{launchOf("c", 0)})
			time.Sleep(2 * patience)
		}
		if did, _ := h.take(); len(did) != 3 {
			t.Errorf("did %q", did)
		}
		close(goOn)
		h.want(t, []string{"Start c/0"}, []string{"SetUp, Pulled c/0, Started c/0"})
	})
}

// A namespace whose pods all hang in a step keeps those of others waiting no longer than a step may, however many there are.
func TestPodsOfOneNamespaceThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		h := newHost(t, func(h *host, c *Config) {
			c.Parallel = 2
			c.Steps = []Step{{
				Name: "volumes",
				SetUp: func(_ context.Context, obj *corev1.Pod, _ *Sandbox) error {
					if obj.Namespace == "hangs" {
						<-goOn
					}
					return nil
				},
				TearDown: func(_ context.Context, uid types.UID) error { return h.note("TearDown %s", uid) },
			}}
		})
		defer h.close()
		defer close(goOn)
		for i := range 100 {
			obj := podNamed(fmt.Sprint(i))
			obj.Namespace = "hangs"
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
		}
		for i := range 5 {
			h.workers.Do(podNamed(fmt.Sprint("other-", i)), []duty.Action{launchOf("c", 0)})
			time.Sleep(patience + time.Millisecond)
			if did, _ := h.take(); len(did) != 1 {
				t.Errorf("did %q", did)
			}
		}
		is := h.workers.Inspect()
		if len(is.Tenants) != 1 || is.Tenants[0].Namespace != "hangs" || is.Tenants[0].Lent != 2*lendingFactor || is.Tenants[0].Waiting != 100-2*lendingFactor {
			t.Errorf("slots are held by %+v", is.Tenants)
		}
	})
}

// A step that the kernel never returns from does not keep the daemon from ending.
func TestAStepThatHangsDoesNotKeepThePoolOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		h := newHost(t, func(_ *host, c *Config) {
			c.Steps = []Step{{
				Name:     "hangs",
				SetUp:    func(context.Context, *corev1.Pod, *Sandbox) error { <-end; return nil },
				TearDown: func(context.Context, types.UID) error { return nil },
			}}
		})
		h.workers.Do(podNamed("a"), []duty.Action{{Kind: duty.Launch, Container: "c"}})
		synctest.Wait()
		began := time.Now()
		h.workers.Close()
		if took := time.Since(began); took != closeTime {
			t.Errorf("it took %v", took)
		}
		close(end)
		synctest.Wait()
		h.close()
	})
}
