// Package multimap holds relations of many to many in memory. It touches nothing else; its types serve one goroutine at a
// time, or are guarded by whoever has them.
package multimap

// Map has a set of values for each key. A key without values is not in it.
type Map[K, V comparable] map[K]map[V]struct{}

// Add adds a value of a key, if it is not there.
func (m Map[K, V]) Add(key K, value V) {
	if m[key] == nil {
		m[key] = map[V]struct{}{}
	}
	m[key][value] = struct{}{}
}

// Remove removes a value of a key, if it is there.
func (m Map[K, V]) Remove(key K, value V) {
	if delete(m[key], value); len(m[key]) == 0 {
		delete(m, key)
	}
}

// TwoWay is looked up from both sides: it has the values of each key, and the keys of each value.
type TwoWay[K, V comparable] struct {
	values map[K][]V
	keys   Map[V, K]
}

// NewTwoWay returns one without keys.
func NewTwoWay[K, V comparable]() *TwoWay[K, V] {
	return &TwoWay[K, V]{map[K][]V{}, Map[V, K]{}}
}

// Set gives a key these values instead of those that it has; none removes it. The values belong to the TwoWay from now on.
func (t *TwoWay[K, V]) Set(key K, values ...V) {
	for _, v := range t.values[key] {
		t.keys.Remove(v, key)
	}
	if len(values) == 0 {
		delete(t.values, key)
		return
	}
	t.values[key] = values
	for _, v := range values {
		t.keys.Add(v, key)
	}
}

// Values returns the values of a key, which belong to the TwoWay.
func (t *TwoWay[K, V]) Values(key K) []V { return t.values[key] }

// Keys returns the keys that have a value, which belong to the TwoWay.
func (t *TwoWay[K, V]) Keys(value V) map[K]struct{} { return t.keys[value] }
