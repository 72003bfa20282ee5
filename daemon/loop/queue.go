package loop

// Queue holds each key once, in the order in which the keys were added.
type Queue[K comparable] struct {
	has   map[K]struct{} // those in order
	order []K
}

// NewQueue makes an empty queue.
func NewQueue[K comparable]() *Queue[K] { return &Queue[K]{has: map[K]struct{}{}} }

// Add adds a key, unless it is there already.
func (q *Queue[K]) Add(key K) {
	if _, ok := q.has[key]; !ok {
		q.has[key] = struct{}{}
		q.order = append(q.order, key)
	}
}

// Len returns the number of keys.
func (q *Queue[K]) Len() int { return len(q.order) }

// Take removes the oldest key and returns it; false if there is none.
func (q *Queue[K]) Take() (key K, ok bool) {
	if len(q.order) == 0 {
		q.order = nil // what is left of it holds memory
		return key, false
	}
	key, q.order = q.order[0], q.order[1:]
	delete(q.has, key)
	return key, true
}

// Settle calls settle with the oldest key, if there is one, and reports whether there was.
func (q *Queue[K]) Settle(settle func(K) error) (bool, error) {
	key, ok := q.Take()
	if !ok {
		return false, nil
	}
	return true, settle(key)
}
