package hold_test

import (
	"testing"
	"time"

	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/store"
)

func TestChain(t *testing.T) {
	play(t, "what waits for what", func(t *testing.T, w *controltest.World) {
		w.Create(after("last", "train,never:any", "1m", "0"))
		w.Create(after("train", "prep,fetch", "1m", "0"))
		w.Create(after("fetch", "prep", "1m", "1"))
		w.Create(plain("prep", "1h", "0"))
		time.Sleep(time.Second)
		chain := func(name string) (chain []picture.Link) {
			j := w.Job(name)
			if err := w.Store.View(func(s *store.Snapshot) (err error) { chain, err = hold.Chain(s, j); return err }); err != nil {
				t.Fatal(err)
			}
			return chain
		}
		want := []picture.Link{
			{Name: "train", For: "last", When: "ok", State: "Waiting"},
			{Name: "prep", For: "train", When: "ok", State: "Running", Depth: 1},
			{Name: "fetch", For: "train", When: "ok", State: "Waiting", Depth: 1},
			{Name: "prep", For: "fetch", When: "ok", State: "Running", Depth: 2},
			{Name: "never", For: "last", When: "any"},
		}
		got := chain("last")
		if len(got) != len(want) {
			t.Fatalf("%+v", got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%+v, want %+v", got[i], want[i])
			}
		}
		if got := chain("prep"); got != nil {
			t.Errorf("%+v", got)
		}
	})
}
