package worker

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/inspection"
)

// A task that hangs lets others go on, but there is a bound to how many may hang: each costs the machine something.
func TestSlotsAreLentToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, all = 2, 20
		limit := newLimiter(slots)
		var begun, ended atomic.Int32
		end := make(chan struct{})
		for range all {
			limit.Go("team", func(s *slot) {
				begun.Add(1)
				s.Hold(func() { <-end })
				ended.Add(1)
			})
		}
		for _, step := range []struct {
			ends int
			want int32
		}{{0, lendingFactor * slots}, {1, lendingFactor*slots + 1}, {3, lendingFactor*slots + 4}} {
			for range step.ends {
				end <- struct{}{}
			}
			time.Sleep(100 * patience)
			if got := begun.Load(); got != step.want {
				t.Errorf("%d have begun, want %d", got, step.want)
			}
		}
		close(end)
		synctest.Wait()
		if begun.Load() != all || ended.Load() != all {
			t.Errorf("%d of %d have begun, %d have ended", begun.Load(), all, ended.Load())
		}
		if limit.free != slots || limit.lendable != lendingFactor*slots || len(limit.lenders) > 0 {
			t.Errorf("at the end: %d free, %d to be lent, %d lenders", limit.free, limit.lendable, len(limit.lenders))
		}
	})
}

// A task that waits for something else lends its slot without a bound: it costs nothing.
func TestWhoYieldsDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 50
		limit := newLimiter(1)
		var begun atomic.Int32
		end := make(chan struct{})
		for range all {
			limit.Go("team", func(s *slot) {
				s.Hold(func() {
					begun.Add(1)
					s.Yield(func() { <-end })
				})
			})
		}
		synctest.Wait()
		if begun.Load() != all {
			t.Errorf("%d have begun", begun.Load())
		}
		close(end)
		synctest.Wait()
		if limit.free != 1 || limit.lendable != lendingFactor {
			t.Errorf("at the end: %d free, %d to be lent", limit.free, limit.lendable)
		}
	})
}

// However many functions of one tenant hang, those of others begin, and get on at once while the first few of them do not hang as well.
func TestWhoHangsDoesNotKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 16
		limit := newLimiter(slots)
		end := make(chan struct{})
		hang := func(s *slot) { s.Hold(func() { <-end }) }
		for range 200 {
			limit.Go("a", hang)
		}
		time.Sleep(time.Hour)
		for range 20 {
			limit.Go("b", hang)
		}
		time.Sleep(time.Hour)
		_, _, tenants := limit.figures()
		if want := (inspection.Tenant{Namespace: "a", Lent: lendingFactor * slots, Waiting: 200 - lendingFactor*slots}); tenants[0] != want {
			t.Errorf("who hangs has %+v, want %+v", tenants[0], want)
		}
		if b := tenants[1]; b.Held+b.Lent < slots/2 || b.Held+b.Lent == slots {
			t.Errorf("the next one has %+v", b)
		}
		began := time.Now()
		for range 10 {
			ended := make(chan struct{})
			limit.Go("c", func(s *slot) { s.Hold(func() {}); close(ended) })
			<-ended
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the pods of a third have waited for %v", took)
		}
		close(end)
	})
}

// Who comes late with little waits for one function of a tenant with thousands, and not for all of them.
func TestWhoComesLateIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := newLimiter(2)
		for range 1000 {
			limit.Go("a", func(s *slot) { s.Hold(func() { time.Sleep(time.Second) }) })
		}
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		ended := make(chan struct{})
		limit.Go("b", func(s *slot) { s.Hold(func() { time.Sleep(time.Second) }); close(ended) })
		<-ended
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		for waits := 1; waits > 0; time.Sleep(time.Second) {
			_, waits, _ = limit.figures()
		}
		if took := time.Since(began); took > 501*time.Second {
			t.Errorf("those that are alone took %v", took)
		}
	})
}

// Who has begun and yielded goes on before those of its tenant that have not begun.
func TestWhoHasBegunGoesOnFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := newLimiter(1)
		var order []string
		limit.Go("a", func(s *slot) {
			s.Yield(func() { time.Sleep(time.Second) })
			order = append(order, "begun")
		})
		for range 3 {
			limit.Go("a", func(*slot) {
				time.Sleep(time.Minute)
				order = append(order, "not begun")
			})
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(order) != 4 || order[1] != "begun" {
			t.Errorf("they have ended in the order %q", order)
		}
	})
}

// task is a function of a tenant in TestSlotsAreDividedAmongTenants.
type task struct {
	tenant string
	long   time.Duration
	yields bool
	hangs  bool // until the end
	later  time.Duration
}

// Whatever the functions of some tenants do, nobody has more than its share, no slot is free while somebody may have it, and a
// tenant none of whose functions hangs gets on.
func TestSlotsAreDividedAmongTenants(t *testing.T) {
	tasks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) task {
		long := time.Duration(rapid.IntRange(0, 5000).Draw(t, "milliseconds")) * time.Millisecond
		one := task{tenant: rapid.SampledFrom([]string{"a", "a", "a", "b", "b", "c"}).Draw(t, "tenant"), long: long}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			one.yields = true
		case 1:
			one.hangs = one.tenant == "a"
		}
		if rapid.Bool().Draw(t, "later") {
			one.later = long / 4
		}
		return one
	}), 1, 120)
	rapid.Check(t, func(rt *rapid.T) {
		slots, tasks := rapid.IntRange(1, 5).Draw(rt, "slots"), tasks.Draw(rt, "tasks")
		var err error
		synctest.Test(t, func(*testing.T) { err = divide(slots, tasks) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func divide(slots int, tasks []task) (err error) {
	limit := newLimiter(slots)
	end := make(chan struct{})
	var ended atomic.Int32
	check := func() {
		synctest.Wait()
		err = cmp.Or(err, checkShares(&limit, slots))
	}
	for _, one := range tasks {
		time.Sleep(one.later)
		limit.Go(one.tenant, func(s *slot) {
			s.Hold(func() {
				if time.Sleep(one.long); one.yields {
					s.Yield(func() { time.Sleep(one.long) })
				}
				if one.hangs {
					<-end
				}
			})
			ended.Add(1)
		})
		check()
	}
	for range len(tasks) {
		time.Sleep(10 * time.Second)
		check()
	}
	for _, t := range limit.tenants {
		if t.name != "a" {
			err = cmp.Or(err, fmt.Errorf("%s does not get on: %d held, %d lent, %d wait", t.name, t.held, t.lent, t.waits()))
		}
	}
	close(end)
	time.Sleep(time.Duration(len(tasks)) * 10 * time.Second)
	check()
	if int(ended.Load()) != len(tasks) {
		err = cmp.Or(err, fmt.Errorf("%d of %d have ended", ended.Load(), len(tasks)))
	}
	if limit.free != slots || len(limit.tenants)+len(limit.waiting)+len(limit.lenders) > 0 {
		err = cmp.Or(err, fmt.Errorf("at the end %d are free, %d tenants are known, %d wait, %d slots are to be lent",
			limit.free, len(limit.tenants), len(limit.waiting), len(limit.lenders)))
	}
	return err
}

// checkShares checks what holds at every moment.
func checkShares(l *limiter, slots int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, lent, waiting := 0, 0, 0
	for _, t := range l.tenants {
		held += t.held
		lent += t.lent
		if t.held+t.lent > lendingFactor*slots {
			return fmt.Errorf("%s has %d, and %d lent", t.name, t.held, t.lent)
		}
		if t.waits() > 0 {
			waiting++
			if l.free > 0 && l.mayHave(t) {
				return fmt.Errorf("%d are free while %s waits, which has %d, and %d lent", l.free, t.name, t.held, t.lent)
			}
		}
	}
	if held+l.free != slots || lent+l.lendable != lendingFactor*slots || held+lent != l.out || waiting != len(l.waiting) {
		return fmt.Errorf("%d held and %d free, %d lent and %d to be lent, %d out; %d tenants wait, and %d are known to",
			held, l.free, lent, l.lendable, l.out, waiting, len(l.waiting))
	}
	return nil
}
