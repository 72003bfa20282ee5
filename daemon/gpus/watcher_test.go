package gpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/nvidia"
)

// lab is a machine with two cards, and what nvidia-smi says of them.
type lab struct {
	*Watcher
	asked   atomic.Int64
	moved   atomic.Int64
	answer  atomic.Pointer[nvidia.Report]
	fails   atomic.Bool
	devices *devices.Devices
}

func newLab(t *testing.T, content string) *lab {
	t.Helper()
	dir := t.TempDir()
	if content != "" {
		if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := &lab{}
	var err error
	if l.devices, err = devices.Open(devices.Options{
		Dir: t.TempDir(), SpecDirs: []string{dir}, LookFirst: true, Moved: func() { l.moved.Add(1) }, Logger: slog.New(slog.DiscardHandler),
		Replicas: map[corev1.ResourceName]int{"nvidia.com/gpu": 4},
	}); err != nil {
		t.Fatal(err)
	}
	l.uses()
	l.Watcher = New(Options{
		Devices: l.devices, Logger: slog.New(slog.DiscardHandler),
		Ask: func(context.Context) (*nvidia.Report, error) {
			l.asked.Add(1)
			if l.fails.Load() {
				return nil, errors.New("no driver")
			}
			r := *l.answer.Load()
			r.At = time.Now()
			return &r, nil
		},
		Owner: func(pid int) nvidia.Owner {
			switch {
			case pid >= 1000:
				return nvidia.Owner{Pod: fmt.Sprint("pod-", pid), Started: "x"}
			case pid == 666:
				return nvidia.Owner{Gone: true}
			}
			return nvidia.Owner{User: "carol", Started: "x"}
		},
	})
	return l
}

const twoCards = `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [
{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}, {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}}]}`

// uses says which processes use the first card.
func (l *lab) uses(pids ...int) {
	r := &nvidia.Report{GPUs: []nvidia.GPU{{Index: 0, Minor: 0, Utilization: 50, Memory: 24 << 30}, {Index: 1, Minor: 1, Utilization: 0}}}
	for _, pid := range pids {
		r.GPUs[0].Processes = append(r.GPUs[0].Processes, nvidia.Process{PID: pid, Name: "python", Memory: 1 << 30, GPU: -1, Compute: -1})
	}
	l.answer.Store(r)
}

// used returns which cards are kept from pods.
func (l *lab) used() (cards [2]bool) {
	for i, d := range l.Kinds()["nvidia.com/gpu"].All {
		cards[i] = d.Used
	}
	return cards
}

// TestWatch: somebody looks as long as pods want cards, and no longer, and what is found is told.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoCards)
		defer l.Close()
		expect := func(when string, want [2]bool) {
			t.Helper()
			if got := l.used(); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		time.Sleep(time.Minute)
		if l.asked.Load() != 0 {
			t.Error("it looks though nobody wants a card")
		}
		expect("before anybody has looked", [2]bool{true, true})
		l.uses(7, 1000, 666)
		l.Wanted(true)
		synctest.Wait()
		expect("a program of the host", [2]bool{true, false})
		if !l.Moved() && l.moved.Load() == 0 {
			t.Error("nobody is told")
		}
		l.uses(1000, 666)
		time.Sleep(period + time.Second)
		expect("programs of pods, and one that has ended", [2]bool{})
		l.uses(7)
		time.Sleep(period)
		l.fails.Store(true)
		time.Sleep(2 * period)
		expect("while nvidia-smi fails", [2]bool{true, false})
		if used, looked := l.InUse("nvidia.com/gpu.shared"); !looked || len(used) != 1 || used[0].Processes[0].String() != "pid 7 of carol (python), 1 GB" {
			t.Errorf("%+v", used)
		}
		l.fails.Store(false)
		l.Wanted(true)
		asked := l.asked.Load()
		time.Sleep(20 * period)
		if n := l.asked.Load() - asked; n != 20 {
			t.Errorf("it looks %d times in 20 periods", n)
		}
		l.Wanted(false)
		time.Sleep(2 * period)
		asked = l.asked.Load()
		time.Sleep(time.Hour)
		if l.asked.Load() != asked {
			t.Error("it goes on looking")
		}
		expect("when nobody looks any more", [2]bool{true, true})
	})
}

// TestWatchFails: without an answer the cards count as free.
func TestWatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoCards)
		defer l.Close()
		l.fails.Store(true)
		l.Wanted(true)
		synctest.Wait()
		if got := l.used(); got != [2]bool{} {
			t.Errorf("%v", got)
		}
	})
}

// TestNoCards: where no cards are offered, nobody looks.
func TestNoCards(t *testing.T) {
	l := newLab(t, "")
	l.Wanted(true)
	list, err := l.List(t.Context(), nil)
	if err != nil || len(list.Items) != 0 || l.asked.Load() != 0 || len(l.Kinds()) != 0 {
		t.Errorf("%+v %v, asked %d times", list, err, l.asked.Load())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestOf: what pods have had of cards.
func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoCards)
		defer l.Close()
		pod := func(uid, kind string) *corev1.Pod {
			p := &corev1.Pod{}
			p.UID = types.UID(uid)
			p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceName(kind): resource.MustParse("1")},
			}}}
			return p
		}
		whole, share := pod("pod-1000", "nvidia.com/gpu"), pod("pod-1001", "nvidia.com/gpu.shared")
		l.Wanted(true)
		synctest.Wait()
		if _, err := l.devices.SetUp(t.Context(), whole, func(wait func()) { wait() }); err != nil {
			t.Fatal(err)
		}
		l.uses(1000)
		time.Sleep(2*period + time.Second)
		if got := l.Of(whole); got.Count != 1 || got.Busy != period || got.Peak != 1<<30 {
			t.Errorf("%+v", got)
		}
		if got := l.Of(share); got.Count != 0.25 || got.Busy != 0 || got.Peak != 0 {
			t.Errorf("a share: %+v", got)
		}
		if got := l.Of(pod("x", "example.com/net")); got.Count != 0 {
			t.Errorf("what is no GPU: %+v", got)
		}
		list, err := l.List(t.Context(), func(_ context.Context, uids []types.UID) (map[types.UID]types.NamespacedName, error) {
			return map[types.UID]types.NamespacedName{"pod-1000": {Namespace: "n", Name: "p"}}, nil
		})
		if err != nil || len(list.Items) != 2 || len(list.Items[0].Pods) != 1 || *list.Items[0].Pods[0].MemoryUsed != 1<<30 || list.Items[0].InUse {
			t.Errorf("%+v %v", list, err)
		}
	})
}
