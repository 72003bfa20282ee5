package storage

import (
	"time"

	"github.com/jobd/jobd/store"
)

func (s *Storage) expires(ttl uint64) int64 {
	if ttl == 0 {
		return 0
	}
	return s.now().Add(time.Duration(ttl) * time.Second).Unix()
}

// ttl returns how many seconds an object has left: at least one while it exists, 0 if it does not expire.
func (s *Storage) ttl(o store.Object) int64 {
	if o.Expires == 0 {
		return 0
	}
	return max(o.Expires-s.now().Unix(), 1)
}
