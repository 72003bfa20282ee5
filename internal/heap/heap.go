// Package heap keeps things so that the first of them is at hand: container/heap for elements that know their order and
// their place, without the methods that each such type would repeat.
package heap

// Element is something that can be in a heap of its type.
type Element[T any] interface {
	// Before reports whether the element comes before another.
	Before(T) bool
	// Moved tells the element where in the heap it is, which Remove and Fix ask for.
	Moved(to int)
}

// Heap has the first of its elements at 0. Below the element at i are those at 2*i+1 and 2*i+2, which do not come before it.
// The zero value is empty.
type Heap[T Element[T]] []T

// Push adds an element.
func (h *Heap[T]) Push(x T) {
	*h = append(*h, x)
	h.up(len(*h)-1, x)
}

// Pop removes the first element of a heap that is not empty.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove removes the element at i.
func (h *Heap[T]) Remove(i int) T {
	var none T
	end := len(*h) - 1
	removed, last := (*h)[i], (*h)[end]
	(*h)[end] = none // what it points to may be freed
	*h = (*h)[:end]
	if i < end {
		h.put(i, last)
	}
	return removed
}

// Fix puts the element at i where it belongs after it has changed.
func (h Heap[T]) Fix(i int) { h.put(i, h[i]) }

// put puts x at i, or above or below it, where it belongs.
func (h Heap[T]) put(i int, x T) {
	if i > 0 && x.Before(h[(i-1)/2]) {
		h.up(i, x)
	} else {
		h.down(i, x)
	}
}

func (h Heap[T]) up(i int, x T) {
	for i > 0 {
		above := (i - 1) / 2
		if !x.Before(h[above]) {
			break
		}
		h.set(i, h[above])
		i = above
	}
	h.set(i, x)
}

func (h Heap[T]) down(i int, x T) {
	for {
		below := 2*i + 1
		if below >= len(h) {
			break
		}
		if other := below + 1; other < len(h) && h[other].Before(h[below]) {
			below = other
		}
		if !h[below].Before(x) {
			break
		}
		h.set(i, h[below])
		i = below
	}
	h.set(i, x)
}

func (h Heap[T]) set(i int, x T) {
	h[i] = x
	x.Moved(i)
}
