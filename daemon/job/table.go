package job

import (
	"iter"
	"maps"
	"slices"
)

// fewPods is how many pods a table holds without a map. A map takes some two hundred bytes for the single pod that most Jobs
// have.
const fewPods = 8

// table holds pods by a key. The zero value is empty.
type table[K comparable] struct {
	few  []row[K]   // in no order; empty if there is a map
	many map[K]*pod // nil while few are enough
}

type row[K comparable] struct {
	key K
	pod *pod
}

func (t *table[K]) len() int { return len(t.few) + len(t.many) }

func (t *table[K]) find(key K) int {
	return slices.IndexFunc(t.few, func(r row[K]) bool { return r.key == key })
}

// get returns the pod with that key, nil if there is none.
func (t *table[K]) get(key K) *pod {
	if t.many != nil {
		return t.many[key]
	}
	if at := t.find(key); at >= 0 {
		return t.few[at].pod
	}
	return nil
}

// set puts a pod in the place of the one that has that key, if there is one.
func (t *table[K]) set(key K, p *pod) {
	if t.many == nil {
		if at := t.find(key); at >= 0 {
			t.few[at].pod = p
			return
		}
		if len(t.few) < fewPods {
			t.few = append(t.few, row[K]{key, p})
			return
		}
		t.many = make(map[K]*pod, 2*fewPods)
		for _, r := range t.few {
			t.many[r.key] = r.pod
		}
		t.few = nil
	}
	t.many[key] = p
}

func (t *table[K]) remove(key K) {
	if t.many != nil {
		if delete(t.many, key); len(t.many) == 0 {
			t.many = nil // with the memory of the most that it has held
		}
		return
	}
	if at := t.find(key); at >= 0 {
		t.few = slices.Delete(t.few, at, at+1)
	}
}

// all returns the pods in no order.
func (t *table[K]) all() iter.Seq[*pod] {
	if t.many != nil {
		return maps.Values(t.many)
	}
	return func(yield func(*pod) bool) {
		for _, r := range t.few {
			if !yield(r.pod) {
				return
			}
		}
	}
}
