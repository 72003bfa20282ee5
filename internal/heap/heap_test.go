package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type number struct{ value, at int }

func (n *number) Before(m *number) bool { return n.value < m.value }
func (n *number) Moved(to int)          { n.at = to }

// TestAgainstAList holds the heap against the simplest thing that could work.
func TestAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*number]
		var list []*number
		some := func(t *rapid.T) *number {
			if len(list) == 0 {
				t.Skip("it is empty")
			}
			return rapid.SampledFrom(list).Draw(t, "which")
		}
		value := rapid.IntRange(0, 20)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				n := &number{value: value.Draw(t, "value")}
				h.Push(n)
				list = append(list, n)
			},
			"fix": func(t *rapid.T) {
				n := some(t)
				n.value = value.Draw(t, "value")
				h.Fix(n.at)
			},
			"remove": func(t *rapid.T) {
				n := some(t)
				if h.Remove(n.at) != n {
					t.Fatal("it was elsewhere than it was told")
				}
				list = slices.DeleteFunc(list, func(m *number) bool { return m == n })
			},
			"pop": func(t *rapid.T) {
				some(t)
				first := slices.MinFunc(list, func(a, b *number) int { return a.value - b.value })
				n := h.Pop()
				if n.value != first.value {
					t.Fatalf("got %d, want %d", n.value, first.value)
				}
				list = slices.DeleteFunc(list, func(m *number) bool { return m == n })
			},
			"": func(t *rapid.T) {
				if len(h) != len(list) {
					t.Fatalf("%d are there, want %d", len(h), len(list))
				}
				for i, n := range h {
					if n.at != i || i > 0 && n.Before(h[(i-1)/2]) {
						t.Fatalf("%d is at %d, and was told %d", n.value, i, n.at)
					}
				}
			},
		})
	})
}
