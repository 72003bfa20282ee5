package multimap

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is set in turn, both sides say the same, and nothing is left of what was removed.
func TestBothSidesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := NewTwoWay[int, string](), map[int][]string{}
		small := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			key, values := rapid.IntRange(0, 3).Draw(t, "key"), rapid.SliceOfN(small, 0, 3).Draw(t, "values")
			x.Set(key, values...)
			model[key] = values
		}
		for key := range 4 {
			if !slices.Equal(x.Values(key), model[key]) {
				t.Errorf("the values of %d are %v, want %v", key, x.Values(key), model[key])
			}
		}
		left := map[string]bool{}
		for _, value := range []string{"a", "b", "c"} {
			var want []int
			for key := range 4 {
				if slices.Contains(model[key], value) {
					want = append(want, key)
				}
			}
			if got := slices.Sorted(maps.Keys(x.Keys(value))); !slices.Equal(got, want) {
				t.Errorf("the keys of %s are %v, want %v", value, got, want)
			}
			left[value] = len(want) > 0
		}
		for value := range x.keys {
			if !left[value] {
				t.Errorf("%s is held for nobody", value)
			}
		}
	})
}
