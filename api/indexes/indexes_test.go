package indexes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIndexLists(t *testing.T) {
	for _, tc := range []struct{ list, want, err string }{
		{"", "[]", ""},
		{"1,3-5,7", "[{1 1} {3 5} {7 7}]", ""},
		{"1-2-3", "", `the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'`},
		{"a", "", `cannot convert string to integer for index: "a"`},
		{"1,", "", `cannot convert string to integer for index: ""`},
		{"-1", "", `cannot convert string to integer for index: ""`},
		{"10", "", `too large index: "10"`},
		{"3-11", "", `too large index: "11"`},
		{"99999999999", "", `cannot convert string to integer for index: "99999999999"`},
		{"2,2", "", "non-increasing order, previous: 2, current: 2"},
		{"4-3", "", "non-increasing order, previous: 4, current: 3"},
		{"1-3,2", "", "non-increasing order, previous: 3, current: 2"},
	} {
		t.Run(tc.list, func(t *testing.T) {
			got, err := Parse(tc.list, 10)
			if err != nil && err.Error() != tc.err || err == nil && tc.err != "" {
				t.Errorf("%v, want %q", err, tc.err)
			}
			if err == nil && fmt.Sprint(got) != tc.want {
				t.Errorf("%v, want %s", got, tc.want)
			}
		})
	}
}

// A list written from any set of indexes is read as that set.
func TestIndexListsAgreeWithSets(t *testing.T) {
	set := rapid.SliceOfNDistinct(rapid.Int32Range(0, 40), 0, 30, rapid.ID[int32])
	write := func(indexes []int32) string {
		var parts []string
		for i := 0; i < len(indexes); {
			j := i
			for j+1 < len(indexes) && indexes[j+1] == indexes[j]+1 {
				j++
			}
			if j > i {
				parts = append(parts, fmt.Sprintf("%d-%d", indexes[i], indexes[j]))
			} else {
				parts = append(parts, fmt.Sprint(indexes[i]))
			}
			i = j + 1
		}
		return strings.Join(parts, ",")
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := set.Draw(t, "a"), set.Draw(t, "b")
		slices.Sort(a)
		slices.Sort(b)
		x, errA := Parse(write(a), 41)
		y, errB := Parse(write(b), 41)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if Count(x) != int64(len(a)) {
			t.Fatalf("%d indexes of %d", Count(x), len(a))
		}
		want, common := int32(0), false
		for _, i := range a {
			if slices.Contains(b, i) {
				want, common = i, true
				break
			}
		}
		if got, ok := FirstCommon(x, y); ok != common || got != want {
			t.Fatalf("first common %d %v, want %d %v", got, ok, want, common)
		}
	})
}

func TestHas(t *testing.T) {
	list := []Interval{{1, 1}, {3, 5}}
	for i, want := range []bool{false, true, false, true, true, true, false} {
		if Has(list, int32(i)) != want || Has(nil, int32(i)) {
			t.Errorf("index %d", i)
		}
	}
}

func TestEachRun(t *testing.T) {
	for given, want := range map[string]int{"": 0, "1": 1, "1,3-5": 2, "0-9,11,13-14": 3, "x,3-1,-2,5-": 0} {
		got := 0
		if EachRun(given, func(_, _ int32) { got++ }); got != want {
			t.Errorf("%q: %d runs, not %d", given, got, want)
		}
	}
}

// The indexes that two lists leave are those that a look at each of them finds, as the status of a Job has them.
func TestOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(0, 40).Draw(t, "completions")
		var a, b []Interval
		var want []int32
		for i := range n {
			switch rapid.IntRange(0, 2).Draw(t, "of") {
			case 0:
				a = append(a, Interval{i, i})
			case 1:
				b = append(b, Interval{i, i})
			default:
				want = append(want, i)
			}
		}
		left := Others(n, a, b)
		var got []int32
		EachRun(Text(left), func(first, last int32) {
			for i := first; i <= last; i++ {
				got = append(got, i)
			}
		})
		if !slices.Equal(got, want) || Count(left) != int64(len(want)) {
			t.Errorf("of %d beside %v and %v: %v as %q, want %v", n, a, b, left, Text(left), want)
		}
	})
	for want, list := range map[string][]Interval{"": nil, "1": {{1, 1}}, "1,2": {{1, 2}}, "1-3,5": {{1, 3}, {5, 5}}} {
		if got := Text(list); got != want {
			t.Errorf("%v is %q", list, got)
		}
	}
}
