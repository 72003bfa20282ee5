package job

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[int32]
		want := map[int32]*pod{}
		keys := rapid.Int32Range(0, rapid.SampledFrom([]int32{3, fewPods, 3 * fewPods}).Draw(t, "most"))
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, p := keys.Draw(t, "key"), &pod{}
				got.set(key, p)
				want[key] = p
			},
			"remove": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				got.remove(key)
				delete(want, key)
			},
			"empty": func(*rapid.T) {
				for key := range want {
					got.remove(key)
				}
				clear(want)
			},
			"": func(t *rapid.T) {
				if got.len() != len(want) {
					t.Fatalf("it has %d pods, want %d", got.len(), len(want))
				}
				for key := range int32(3*fewPods + 1) {
					if got.get(key) != want[key] {
						t.Fatalf("another pod at %d", key)
					}
				}
				all := map[*pod]bool{}
				for p := range got.all() {
					if all[p] || !slices.Contains(slices.Collect(maps.Values(want)), p) {
						t.Fatal("a pod comes twice, or is not there")
					}
					all[p] = true
				}
				if len(all) != len(want) {
					t.Fatalf("%d pods come, want %d", len(all), len(want))
				}
				if got.many != nil && len(got.few) > 0 || len(want) == 0 && got.many != nil {
					t.Fatal("it keeps more than it needs")
				}
			},
		})
	})
}
