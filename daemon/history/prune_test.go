package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// prune calls Prune until all is done, each time in a transaction of its own.
func (r *rig) prune(now time.Time, n int) {
	r.t.Helper()
	for calls, done := 0, false; !done; calls++ {
		if calls == 10_000 {
			r.t.Fatal("Prune finds no end")
		}
		must(r.t, r.store.Update(context.Background(), func(tx *store.Tx) (err error) {
			done, err = r.log.Prune(transaction{tx}, now, n)
			return err
		}))
	}
}

// Who ends few Jobs keeps them, however many somebody else ends, also when jobd is started anew between, and when a part
// of the history is of a jobd that wrote no shares.
func TestNobodyPushesOutWhatOthersHave(t *testing.T) {
	for _, c := range []struct {
		name   string
		others int // Jobs of others among the first 256
		old    bool
		names  func(i int) string // of the namespaces that write most
		want   int                // Jobs of others that stay
	}{
		{"one namespace", 20, false, func(int) string { return "loud" }, 20},
		{"two of them", 20, false, func(i int) string { return fmt.Sprint("loud", i%2) }, 20},
		{"blocks without shares", 20, true, func(int) string { return "loud" }, 20},
		{"nobody else", 0, false, func(int) string { return "loud" }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := rand.New(rand.NewPCG(1, 2))
			limits := Limits{1e6 * time.Hour, 300 << 10}
			r := newRig(t, limits)
			var want []string
			var some []wire.Job
			for i := range 6000 {
				j := random(source, i)
				j.Namespace = c.names(i)
				if i < c.others*10 && i%10 == 0 {
					j.Namespace = "quiet"
					want = append(want, j.UID)
				}
				if some = append(some, j); len(some) == 10 {
					r.append(some...)
					some = nil
				}
				if i == 3000 {
					if c.old {
						r.dropShares()
					}
					r.open(limits)
				}
				if i%100 == 99 {
					r.prune(begin, 3)
				}
			}
			slices.Reverse(want)
			quiet, _ := r.read(wire.Query{Namespace: "quiet"})
			if got := uids(quiet); len(want) != c.want || !slices.Equal(got, want) {
				t.Errorf("%d Jobs of the quiet namespace, want %d", len(got), len(want))
			}
			all, _ := r.read(wire.Query{})
			if size := size(r.log.blocks) + size(r.log.pending); size > limits.Size || size < limits.Size/2 {
				t.Errorf("%d bytes of %d", size, limits.Size)
			}
			if !slices.IsSortedFunc(all, func(a, b wire.Job) int { return b.Ended.Compare(a.Ended.Time) }) || len(all) < 500 {
				t.Errorf("%d Jobs, not the last first", len(all))
			}
			loud := all[:len(all)-len(quiet)]
			if first, last := loud[len(loud)-1].Ended, loud[0].Ended; last.Sub(first.Time) > 2*time.Duration(len(loud))*time.Second {
				t.Errorf("%d Jobs of the loud from %v to %v: there are gaps", len(loud), first, last)
			}
		})
	}
}

// A page goes on where it was, though Jobs between were removed and their blocks joined.
func TestPagesOverWhatIsPruned(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, Limits{1e6 * time.Hour, 200 << 10})
	for i := range 4000 {
		j := random(source, i)
		if j.Namespace = "loud"; i%50 == 0 {
			j.Namespace = "quiet"
		}
		r.append(j)
	}
	read := func(next string) (page []wire.Job, after string) {
		must(t, r.store.View(func(s *store.Snapshot) (err error) {
			page, after, err = Read(s, wire.Query{Namespace: "quiet", Limit: 10, Continue: next})
			return err
		}))
		return page, after
	}
	want, _ := r.read(wire.Query{Namespace: "quiet"})
	got, next := read("")
	before := len(r.log.blocks)
	r.prune(begin, 1000)
	if after := len(r.log.blocks); after >= before {
		t.Errorf("%d blocks, %d before", after, before)
	}
	for next != "" {
		var page []wire.Job
		page, next = read(next)
		got = append(got, page...)
	}
	if len(want) != 80 || !slices.Equal(uids(got), uids(want)) {
		t.Errorf("%d Jobs, want %d", len(got), len(want))
	}
	r.prune(begin.Add(2e6*time.Hour), 1000)
	if left, _ := r.read(wire.Query{}); len(left) != 0 {
		t.Errorf("%d Jobs are left after their time", len(left))
	}
}

// A damaged block is nobody's: it goes first, and stops nothing.
func TestPruneOfADamagedBlock(t *testing.T) {
	source := rand.New(rand.NewPCG(5, 6))
	r := newRig(t, Limits{1e6 * time.Hour, 60 << 10})
	for i := range 1500 {
		r.append(random(source, i))
	}
	damaged := r.log.blocks[2].key
	must(t, r.store.Update(context.Background(), func(tx *store.Tx) error {
		o, _ := tx.Get(damaged)
		tx.Put(store.Object{Key: damaged, Value: o.Value[:len(o.Value)/4]})
		return nil
	}))
	r.prune(begin, 1000)
	if slices.ContainsFunc(r.log.blocks, func(p piece) bool { return p.key == damaged }) {
		t.Error("the damaged block is still there")
	}
	if left, _ := r.read(wire.Query{}); len(left) == 0 {
		t.Error("nothing is left")
	}
}

func TestLevel(t *testing.T) {
	for _, c := range []struct {
		held  []int64
		limit int64
		want  int64
	}{
		{nil, 10, 10},
		{[]int64{100}, 10, 10},
		{[]int64{100, 1}, 10, 9},
		{[]int64{100, 100}, 10, 5},
		{[]int64{1, 2, 3, 100}, 10, 4},
		{[]int64{3, 3, 3}, 10, 1},
		{[]int64{5}, 0, 0},
	} {
		held := map[string]int64{}
		for i, bytes := range c.held {
			held[fmt.Sprint(i)] = bytes
		}
		got := level(held, c.limit)
		sum := int64(0)
		for _, bytes := range held {
			sum += min(bytes, got)
		}
		if sum > c.limit || len(c.held) < 3 && got != c.want || len(c.held) == 4 && got != c.want {
			t.Errorf("level(%v, %d) = %d, want %d", c.held, c.limit, got, c.want)
		}
	}
}

func uids(jobs []wire.Job) (all []string) {
	for _, j := range jobs {
		all = append(all, j.UID)
	}
	return all
}

// dropShares makes the blocks those of a jobd that wrote no shares.
func (r *rig) dropShares() {
	must(r.t, r.store.Update(context.Background(), func(tx *store.Tx) error {
		for _, p := range r.log.blocks {
			o, _ := tx.Get(p.key)
			b, err := openBlock(o.Value)
			if err != nil {
				return err
			}
			head := len(o.Value) - len(b.lines)
			lines := b.lines[8+binary.LittleEndian.Uint32(b.lines[4:]):]
			old := newPiece(blocks, p.first, make([]wire.Job, p.jobs), head+len(lines))
			old.ended = p.ended
			old.key = fmt.Sprintf("%s/%016x-%x-%x-%x", blocks, old.first, old.jobs, old.ended, old.size)
			tx.Delete(p.key)
			tx.Put(store.Object{Key: old.key, Value: slices.Concat(o.Value[:head], lines)})
		}
		return nil
	}))
}
