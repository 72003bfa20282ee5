package image

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shares
		var ends []func()
		for n := range maxPulls {
			end, err := s.take(t.Context(), "hostile", fmt.Sprint("slow ", n), func() { t.Error("it waits") })
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		// A pull that is under way is joined, others wait.
		join, err := s.take(t.Context(), "hostile", "slow 0", func() { t.Error("a pull that is joined waits") })
		if err != nil {
			t.Fatal(err)
		}
		var begun atomic.Int64
		for range 3 {
			go func() {
				end, err := s.take(t.Context(), "hostile", "another", func() {})
				if err != nil {
					t.Error(err)
					return
				}
				begun.Add(1)
				t.Cleanup(end)
			}()
		}
		synctest.Wait()
		if begun.Load() > 0 {
			t.Error("a pull beyond the share does not wait")
		}
		for _, tenant := range []string{"other", ""} {
			end, err := s.take(t.Context(), tenant, "another", func() { t.Errorf("%q waits for others", tenant) })
			if err != nil {
				t.Fatal(err)
			}
			end()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.take(ctx, "hostile", "one that is given up", func() {}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		ends[0]()
		synctest.Wait()
		if begun.Load() > 0 {
			t.Error("one of two has left a pull, and its place is taken")
		}
		join()
		synctest.Wait()
		if begun.Load() != 3 {
			t.Errorf("%d of 3 who want the same pull have begun", begun.Load())
		}
		for _, end := range ends[1:] {
			end()
		}
	})
}

// Nobody has more than its share, nobody waits for others, and nothing is left in the end.
func TestSharesOfTenants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			var s shares
			type taken struct {
				tenant string
				cancel context.CancelFunc
				end    func()
				failed bool
			}
			var all []*taken
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				if len(all) > 0 && rapid.IntRange(0, 2).Draw(rt, "ends") == 0 {
					n := rapid.IntRange(0, len(all)-1).Draw(rt, "which")
					one := all[n]
					all = append(all[:n:n], all[n+1:]...)
					one.cancel()
					synctest.Wait()
					if one.end != nil {
						one.end()
					}
				} else {
					one := &taken{tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "tenant")}
					pull := fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "pull"))
					var ctx context.Context
					ctx, one.cancel = context.WithCancel(t.Context())
					go func() {
						end, err := s.take(ctx, one.tenant, pull, func() {})
						one.end, one.failed = end, err != nil
					}()
					all = append(all, one)
				}
				synctest.Wait()
				for name, of := range s.of {
					if len(of.running) > maxPulls || len(of.waiting) > 0 && len(of.running) < maxPulls {
						rt.Fatalf("%s: %d pulls, %d wait", name, len(of.running), len(of.waiting))
					}
				}
			}
			for _, one := range all {
				one.cancel()
			}
			synctest.Wait()
			for _, one := range all {
				if one.end != nil {
					one.end()
				}
			}
			synctest.Wait()
			if len(s.of) > 0 {
				rt.Fatalf("%d shares are left", len(s.of))
			}
		})
	})
}
