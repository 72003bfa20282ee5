package answers

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// shelfIdle is for how long what nobody looks at is remembered, and shelfSize how many pods or Jobs of all are, some 40 to 100 bytes each:
	// those of what nobody has looked at for longest go first.
	shelfIdle = time.Minute
	shelfSize = 300_000
	shelfMost = 50
)

// shelf keeps what was drawn of objects that somebody looks at, by their UIDs.
type shelf[T any] struct {
	mu    sync.Mutex
	all   map[types.UID]*kept[T]
	sweep *time.Timer // runs while anything is kept
}

type kept[T any] struct {
	of   *T
	used time.Time
	size int
}

// get returns what is kept of an object, or what is made of it now, and forgets what nobody looks at.
func (s *shelf[T]) get(uid types.UID, make func() *T) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.all[uid]
	if k == nil {
		if s.all == nil {
			s.all = map[types.UID]*kept[T]{}
		}
		k = &kept[T]{of: make()}
		s.all[uid] = k
	}
	k.used = now
	s.forget(now)
	if s.sweep == nil {
		s.sweep = time.AfterFunc(shelfIdle, s.forgetIdle)
	}
	return k.of
}

// grown notes how much is kept of an object.
func (s *shelf[T]) grown(uid types.UID, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.all[uid]; k != nil {
		k.size = size
	}
}

func (s *shelf[T]) forgetIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	if s.sweep = nil; len(s.all) > 0 {
		s.sweep = time.AfterFunc(shelfIdle, s.forgetIdle)
	}
}

func (s *shelf[T]) forget(now time.Time) {
	var uids []types.UID
	for uid := range s.all {
		uids = append(uids, uid)
	}
	slices.SortFunc(uids, func(a, b types.UID) int {
		return cmp.Or(s.all[b].used.Compare(s.all[a].used), cmp.Compare(a, b))
	})
	size := 0
	for i, uid := range uids {
		k := s.all[uid]
		size += k.size
		if i > 0 && (size > shelfSize || i >= shelfMost) || now.Sub(k.used) >= shelfIdle {
			delete(s.all, uid)
		}
	}
}
