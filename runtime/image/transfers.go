package image

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jobd/jobd/runtime"
)

// transfers are the pulls and imports that are under way.
type transfers struct {
	mu      sync.Mutex
	running map[*transfer]struct{}
}

// begin adds a transfer, and returns what removes it.
func (t *transfers) begin(one *transfer) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		t.running = map[*transfer]struct{}{}
	}
	t.running[one] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, one)
	}
}

// Transfers returns how far the pulls and imports are that are under way, by the names of their images.
func (i *Images) Transfers() []runtime.Transfer {
	i.transfers.mu.Lock()
	defer i.transfers.mu.Unlock()
	list := make([]runtime.Transfer, 0, len(i.transfers.running))
	for t := range i.transfers.running {
		list = append(list, t.describe())
	}
	slices.SortFunc(list, func(a, b runtime.Transfer) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// restart forgets what was counted for credentials with which nothing was given.
func (t *transfer) restart() {
	for _, n := range []*atomic.Int64{&t.received, &t.total, &t.layers, &t.layersDone, &t.indexes} {
		n.Store(0)
	}
}

func (t *transfer) describe() runtime.Transfer {
	out := runtime.Transfer{
		Name: t.name, Import: t.isImport, Engine: t.engine, Bytes: t.received.Load(), TotalBytes: t.total.Load(),
		Layers: int(t.layersDone.Load()), TotalLayers: int(t.layers.Load()),
	}
	if out.TotalBytes > 0 { // the registry sends more than what is fetched: its answers to questions
		out.Bytes = min(out.Bytes, out.TotalBytes)
	}
	return out
}
