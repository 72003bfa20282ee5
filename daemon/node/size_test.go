package node

import (
	"testing"
	"unsafe"
)

// A byte here is 150 kB with 100,000 pods on the node, with the room that the collector needs; these are classes of Go's allocator.
func TestPodsAreSmall(t *testing.T) {
	for _, c := range []struct {
		name     string
		is, most uintptr
	}{
		{"a pod", unsafe.Sizeof(Pod{}), 80},
		{"a pod on the node", unsafe.Sizeof(bound{}), 24},
		{"a place in the queue", unsafe.Sizeof(waiter{}), 64}, // a cache line
	} {
		if c.is > c.most {
			t.Errorf("%s takes %d bytes, want no more than %d: what few have, or many have in common, belongs behind a pointer", c.name, c.is, c.most)
		}
	}
}
