// Package gpus watches the cards of NVIDIA that pods may request: who else uses them, so that pods do not get those, and how much pods
// use of theirs.
//
// What nvidia-smi says comes in (runtime/nvidia), and which pods have which devices (runtime/devices). It looks every few seconds while
// a pod that requests devices waits or runs, and when somebody asks; else nothing runs. What it finds is told to the devices and to the
// control loop, which waits for none of this.
package gpus

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/cards"
	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/nvidia"
)

const (
	// period is the time between two looks.
	period = 5 * time.Second
	// timeout is how long nvidia-smi may take. Without persistence mode it wakes every card up.
	timeout = 20 * time.Second
	// fresh is how old an answer may be for somebody who asks.
	fresh = 3 * time.Second
)

// Options are what a Watcher needs.
type Options struct {
	Devices *devices.Devices
	// Ask runs nvidia-smi.
	Ask func(ctx context.Context) (*nvidia.Report, error)
	// Owner says whose a process is.
	Owner func(pid int) nvidia.Owner
	// MIGMinors is the file that says which MIG devices the files of the driver are for.
	MIGMinors string
	Logger    *slog.Logger
}

// Watcher watches the cards. Its methods may be called from any goroutine.
type Watcher struct {
	o Options

	mu      sync.Mutex
	wanted  bool
	closed  bool
	cancel  context.CancelFunc // of what runs; nil while nothing does
	running sync.WaitGroup
	now     view
	pods    map[string]*used // by UID

	turn chan struct{} // empty while somebody looks
}

// view is what is known.
type view struct {
	report *nvidia.Report // nil before the first answer
	caps   map[int]instance
	uses   []use
	tried  time.Time
	err    error // of the last look
}

// New makes a Watcher, which does nothing yet.
func New(o Options) *Watcher {
	w := &Watcher{o: o, pods: map[string]*used{}, turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

// Moved reports whether Kinds may return something else than at its last call.
func (w *Watcher) Moved() bool { return w.o.Devices.Moved() }

// Kinds returns the kinds of devices of which the amount does not say everything.
func (w *Watcher) Kinds() map[corev1.ResourceName]cards.Devices {
	kinds := map[corev1.ResourceName]cards.Devices{}
	for _, s := range w.o.Devices.States() {
		k := cards.Devices{Shared: s.Shared, Replicas: int64(s.Replicas)}
		for _, d := range s.Devices {
			pods := make(map[types.UID]int64, len(d.Pods))
			for uid, shares := range d.Pods {
				pods[types.UID(uid)] = int64(shares)
			}
			k.All = append(k.All, cards.Device{Pods: pods, Used: d.Used})
		}
		kinds[s.Kind] = k
	}
	return kinds
}

// Wanted says whether pods that request devices wait or run. It does not block.
func (w *Watcher) Wanted(wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = wanted
	if !wanted || w.cancel != nil || w.closed || len(w.o.Devices.Cards()) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.running.Go(func() { w.run(ctx) })
}

// Close ends what runs.
func (w *Watcher) Close() error {
	w.mu.Lock()
	w.closed = true
	if w.cancel != nil {
		w.cancel()
	}
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// run looks as long as somebody wants devices. What is known then is soon of no use.
func (w *Watcher) run(ctx context.Context) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		_ = w.Look(ctx, 0)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if w.rests() {
			return
		}
	}
}

// rests reports whether nobody wants devices any more; then nobody knows who uses them before the next look.
func (w *Watcher) rests() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted {
		return false
	}
	w.cancel()
	w.cancel = nil
	clear(w.pods)
	w.o.Devices.SetUsed(nil)
	return true
}

// Look asks nvidia-smi, unless it has done so within that time. When it does not answer, what was known before stays, without the
// processes that have ended.
func (w *Watcher) Look(ctx context.Context, within time.Duration) error {
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	before := w.view()
	if time.Since(before.tried) < within {
		return before.err
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now := view{report: before.report, caps: before.caps, tried: time.Now()}
	report, err := w.o.Ask(asking)
	if ctx.Err() != nil {
		return ctx.Err() // nobody wants to know any more
	}
	if now.err = err; err != nil {
		now.uses = still(before.uses, w.o.Owner)
	} else {
		text, _ := os.ReadFile(w.o.MIGMinors) // there is none without such devices
		now.report, now.caps = report, minors(string(text))
		now.uses = usesOf(report, w.o.Devices.Cards(), now.caps, w.o.Owner)
	}
	w.say(before.err, now.err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
	if w.cancel == nil { // nobody would tell when it is so no more
		return now.err
	}
	if err == nil {
		w.measure(before)
	}
	w.o.Devices.SetUsed(foreign(now.uses))
	return now.err
}

// foreign returns the devices that are kept from pods.
func foreign(uses []use) map[string]bool {
	devices := map[string]bool{}
	for i := range uses {
		if uses[i].foreign() {
			devices[uses[i].device] = true
		}
	}
	return devices
}

// say logs that nvidia-smi does not answer, or does so again, once.
func (w *Watcher) say(before, now error) {
	switch {
	case now != nil && before == nil:
		w.o.Logger.Warn("cannot see who uses the GPUs: as far as nothing is known, they count as free", "error", now)
	case now == nil && before != nil:
		w.o.Logger.Info("who uses the GPUs can be seen again")
	}
}

func (w *Watcher) view() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}
