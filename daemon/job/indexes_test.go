package job

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plain writes a set as the API documentation describes it.
func plain(set map[int32]bool) string {
	var parts []string
	sorted := slices.Sorted(maps.Keys(set))
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if j >= i+2 {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		} else {
			for k := i; k <= j; k++ {
				parts = append(parts, fmt.Sprint(sorted[k]))
			}
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// largest is the largest index that a Job may have.
const largest = math.MaxInt32 - 1

func TestIndexesBehaveAsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Indexes
		model := map[int32]bool{}
		index := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32Range(1000, 1050), rapid.Int32Range(0, 5000), rapid.Int32Range(largest-3000, largest))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := index.Draw(t, "index")
				if x.Add(i) == model[i] {
					t.Fatalf("Add(%d) was wrong about what was there", i)
				}
				model[i] = true
			},
			"remove": func(t *rapid.T) {
				i := index.Draw(t, "index")
				if x.Remove(i) != model[i] {
					t.Fatalf("Remove(%d) was wrong about what was there", i)
				}
				delete(model, i)
			},
			"add a range": func(t *rapid.T) {
				first := index.Draw(t, "first")
				last := min(first, largest-2500) + rapid.Int32Range(0, 2500).Draw(t, "length")
				x.addRange(first, last)
				for i := first; i <= last; i++ {
					model[i] = true
				}
			},
			"": func(t *rapid.T) {
				if x.Len() != len(model) {
					t.Fatalf("%d indexes, want %d", x.Len(), len(model))
				}
				want := plain(model)
				if got := x.String(); got != want {
					t.Fatalf("%q, want %q", got, want)
				}
				if !x.is(want) || x.is(want+",99999") || want != "" && x.is("") {
					t.Fatalf("%q is not recognised", want)
				}
				if y := ParseIndexes(want, largest+1); !x.Equal(y) || y.String() != want {
					t.Fatalf("%q is read as %q", want, y)
				}
				limit := index.Draw(t, "limit")
				cut := maps.Clone(model)
				maps.DeleteFunc(cut, func(i int32, _ bool) bool { return i >= limit })
				if got := ParseIndexes(want, limit).String(); got != plain(cut) {
					t.Fatalf("%q below %d is %q", want, limit, got)
				}
				from := index.Draw(t, "from")
				missing := from
				for model[missing] {
					missing++
				}
				if got := x.missing(from); got != missing {
					t.Fatalf("first missing from %d: %d, want %d", from, got, missing)
				}
				n := rapid.IntRange(1, 30).Draw(t, "n")
				nth := int32(-1)
				for range n {
					for nth++; model[nth]; nth++ {
					}
				}
				if got := x.nthMissing(n); got != nth {
					t.Fatalf("missing number %d: %d, want %d", n, got, nth)
				}
			},
		})
	})
}

func TestIndexesCountWhatTheyShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x, y Indexes
		shared := map[int32]bool{}
		for _, i := range rapid.SliceOf(rapid.Int32Range(0, 3000)).Draw(t, "x") {
			x.Add(i)
		}
		x.addRange(2048, 2048+rapid.Int32Range(0, 1500).Draw(t, "run"))
		for _, i := range rapid.SliceOf(rapid.Int32Range(0, 4000)).Draw(t, "y") {
			y.Add(i)
			if x.Has(i) {
				shared[i] = true
			}
		}
		if x.common(&y) != len(shared) || y.common(&x) != len(shared) {
			t.Fatalf("%d and %d shared, want %d", x.common(&y), y.common(&x), len(shared))
		}
	})
}

// TestIndexesOfAJobOfVeryMany: they are named in a few characters, and are to take no more to be looked at.
func TestIndexesOfAJobOfVeryMany(t *testing.T) {
	all := ParseIndexes(fmt.Sprintf("0-%d", largest), math.MaxInt32)
	if all.Len() != math.MaxInt32 || !all.Has(largest) || all.missing(0) != math.MaxInt32 || all.nthMissing(3) != math.MaxInt32 {
		t.Errorf("%d indexes, missing %d and %d", all.Len(), all.missing(0), all.nthMissing(3))
	}
	for _, i := range []int32{0, 1 << 30, 1<<30 + 1, 1<<30 + 300, largest - 256, largest} {
		if !all.Remove(i) {
			t.Errorf("%d is not removed", i)
		}
	}
	const want = "1-1073741823,1073741826-1073742123,1073742125-2147483389,2147483391-2147483645"
	if all.String() != want || !all.is(want) || all.Len() != math.MaxInt32-6 || all.nthMissing(4) != 1<<30+300 || all.nthMissing(6) != largest {
		t.Errorf("%d indexes, %s", all.Len(), all)
	}
	if x := ParseIndexes("0,1000000000,1073741823-1073741825", math.MaxInt32); x.common(all) != 2 || all.common(x) != 2 {
		t.Errorf("%d in common", x.common(all))
	}
	if all.Add(0); all.next(0) != 0 || all.next(1<<30) != 1<<30+2 || all.next(largest) != -1 {
		t.Error("next", all.next(0), all.next(1<<30), all.next(largest))
	}
	if all.addRange(5, largest); all.Len() != math.MaxInt32 || all.String() != fmt.Sprintf("0-%d", largest) {
		t.Errorf("%d indexes, %s", all.Len(), all)
	}
}

func TestParseIndexesLeavesOutWhatIsNotWellFormed(t *testing.T) {
	for s, want := range map[string]string{
		"":              "",
		"1,3-5,7":       "1,3-5,7",
		"5-3":           "",
		"x,2":           "2",
		"1-x,2":         "2",
		"-1,2":          "2",
		"1,,2":          "1,2",
		"99999999999,2": "2",
		"1 ,2":          "2",
		"2-3-4,5":       "5",
	} {
		if got := ParseIndexes(s, 100).String(); got != want {
			t.Errorf("%q is read as %q, want %q", s, got, want)
		}
	}
}
