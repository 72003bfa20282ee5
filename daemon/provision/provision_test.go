package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// volumes are volumes whose owner "slow" waits until the end.
type volumes struct{ did chan string }

func (v volumes) Provision(ctx context.Context, made Volume) (Provisioned, error) {
	return Provisioned{Path: "/" + made.Name}, v.do(ctx, "create "+made.Name, made.Owner == "slow")
}

func (v volumes) Expand(ctx context.Context, name string, size int64) error {
	return v.do(ctx, fmt.Sprintf("expand %s to %d", name, size), false)
}

func (v volumes) Delete(ctx context.Context, name string) error {
	return v.do(ctx, "delete "+name, strings.HasPrefix(name, "endless"))
}

func (v volumes) do(ctx context.Context, what string, slow bool) error {
	if slow {
		<-ctx.Done()
		return ctx.Err()
	}
	v.did <- what
	return nil
}

func TestNoOwnerTakesAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		did := make(chan string, 100)
		nudges := make(chan struct{}, 100)
		w := New(volumes{did}, func() { nudges <- struct{}{} })
		for i := range 20 {
			w.Do(Task{Create, Volume{Name: fmt.Sprint("slow-", i), Owner: "slow"}})
		}
		synctest.Wait()
		w.Do(Task{Create, Volume{Name: "other", Owner: "other", Size: 1}})
		w.Do(Task{Delete, Volume{Name: "gone", Owner: "slow"}})
		synctest.Wait()
		got := []string{<-did, <-did}
		slices.Sort(got)
		if want := []string{"create other", "delete gone"}; !slices.Equal(got, want) {
			t.Errorf("done: %q, want %q", got, want)
		}
		if results := w.Take(); len(results) != 2 || len(nudges) != 2 || w.Done() {
			t.Errorf("results %+v, %d nudges", results, len(nudges))
		}
		w.Close()
		if w.Done() {
			t.Errorf("what was cut off has results: %+v", w.Take())
		}
	})
}

// Volumes that never come to an end of their files are deleted in turn with those of others, however many owners have some.
func TestEndlessDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		did := make(chan string, 100)
		w := New(volumes{did}, func() {})
		for i := range 20 {
			w.Do(Task{Delete, Volume{Name: fmt.Sprint("endless-", i), Owner: fmt.Sprint("slow-", i%4)}})
		}
		synctest.Wait()
		w.Do(Task{Delete, Volume{Name: "other", Owner: "other"}})
		time.Sleep(6 * deleteTurn) // it is behind those that came before, four at a time
		synctest.Wait()
		if len(did) != 1 || !w.Done() {
			t.Errorf("%d of others are deleted", len(did))
		}
		if results := w.Take(); len(results) != 1 || results[0].Err != nil {
			t.Errorf("results %+v", results)
		}
		w.Close()
	})
}

func TestTasksOfOneVolumeAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		did := make(chan string, 100)
		w := New(volumes{did}, func() {})
		defer w.Close()
		for _, task := range []Task{
			{Create, Volume{Name: "a", Size: 1}}, {Create, Volume{Name: "a", Size: 1}}, // asked for twice
			{Expand, Volume{Name: "a", Size: 2}}, {Delete, Volume{Name: "a"}}, {Create, Volume{Name: "a", Size: 3}},
		} {
			w.Do(task)
		}
		synctest.Wait()
		close(did)
		var got []string
		for what := range did {
			got = append(got, what)
		}
		if want := []string{"create a", "expand a to 2", "delete a", "create a"}; !slices.Equal(got, want) {
			t.Errorf("done: %q, want %q", got, want)
		}
		for _, r := range w.Take() {
			if r.Err != nil || (r.Op == Create) != (r.Path == "/a") {
				t.Errorf("result %+v", r)
			}
		}
	})
}

// failing are volumes of a full disk.
type failing struct{ Simulated }

var errFull = errors.New("full")

func (failing) Provision(context.Context, Volume) (Provisioned, error) { return Provisioned{}, errFull }

func TestFailuresAreResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(failing{}, func() {})
		defer w.Close()
		w.Do(Task{Create, Volume{Name: "a"}})
		synctest.Wait()
		if got := w.Take(); len(got) != 1 || !errors.Is(got[0].Err, errFull) || got[0].Volume.Name != "a" {
			t.Errorf("results %+v", got)
		}
	})
}
