package fairness_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jobd/jobd/daemon/fairness"
)

func at(seconds int64) time.Time { return time.Unix(seconds, 0) }

func TestUseCountsForHalfAfterTheHalfLife(t *testing.T) {
	b := fairness.New(time.Hour)
	b.At(at(1000))
	alice, bob := b.Of("alice"), b.Of("bob")
	b.Charge(alice, 0.5, false)
	b.At(at(1100))
	if used := b.Show(alice).Used; math.Abs(used-50) > 1 {
		t.Errorf("%v used after 100 s of half of the machine", used)
	}
	if alice.Key() <= bob.Key() {
		t.Error("who has used something comes before who has not")
	}
	b.Charge(alice, -0.5, true) // it happens at the next time
	b.At(at(1100))
	used := b.Show(alice).Used
	b.At(at(1100 + 3600))
	if got := b.Show(alice); math.Abs(got.Used-used/2) > 1e-6 || got.Running != 0 {
		t.Errorf("%+v an hour after %v", got, used)
	}
}

func TestWeightsDivideWhatWasUsed(t *testing.T) {
	b := fairness.New(time.Hour)
	b.At(at(1000))
	b.SetShare("alice", 4)
	b.Set(fairness.Account{Name: "alice", Used: 300, At: 1_000_000})
	b.Set(fairness.Account{Name: "bob", Used: 100, At: 1_000_000})
	first := func() string { return b.All(at(1000))[0].Name }
	if got := first(); got != "alice" {
		t.Error(got, "comes first, though alice has used less for her weight")
	}
	b.SetShare("alice", 0)
	if got := first(); got != "bob" {
		t.Error(got, "comes first, though bob has used less")
	}
}

func TestWhatHasDecayedIsForgotten(t *testing.T) {
	b := fairness.New(time.Hour)
	b.At(at(1000))
	u := b.Of("alice")
	u.Pods++
	b.Charge(u, 1, false)
	b.At(at(1100))
	if changed, gone := b.Take(); len(changed) != 1 || changed[0].Name != "alice" || len(gone) > 0 {
		t.Fatalf("%+v %v", changed, gone)
	}
	u.Pods--
	b.Charge(u, -1, true)
	b.At(at(1100))
	if changed, gone := b.Take(); len(changed) != 1 || len(gone) > 0 {
		t.Fatalf("its use is kept, and is now %+v %v", changed, gone)
	}
	b.At(at(40 * 3600))
	b.Decayed()
	if changed, gone := b.Take(); len(changed) > 0 || !slices.Equal(gone, []string{"alice"}) || len(b.All(at(40*3600))) > 0 {
		t.Errorf("%+v %v", changed, gone)
	}
}
