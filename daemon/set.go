package daemon

// set holds each key once and gives them back in the order in which they came.
type set[K comparable] struct {
	has   map[K]struct{}
	order []K
}

func newSet[K comparable]() *set[K] { return &set[K]{has: map[K]struct{}{}} }

func (s *set[K]) add(key K) {
	if _, ok := s.has[key]; !ok {
		s.has[key] = struct{}{}
		s.order = append(s.order, key)
	}
}

func (s *set[K]) len() int { return len(s.has) }

// take gives the oldest key and removes it.
func (s *set[K]) take() (key K, ok bool) {
	for len(s.order) > 0 {
		key, s.order = s.order[0], s.order[1:]
		if _, ok := s.has[key]; ok {
			delete(s.has, key)
			return key, true
		}
	}
	s.order = nil
	return key, false
}
