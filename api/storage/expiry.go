package storage

import (
	"context"
	"time"

	"github.com/jobd/jobd/store"
)

// expireBatch bounds how many objects one transaction deletes.
const expireBatch = 500

func (s *Storage) expires(ttl uint64) int64 {
	if ttl == 0 {
		return 0
	}
	return s.now().Add(time.Duration(ttl) * time.Second).Unix()
}

// ttl is how many seconds an object has left; at least one while it is there, 0 when it does not expire.
func (s *Storage) ttl(o store.Object) int64 {
	if o.Expires == 0 {
		return 0
	}
	return max(o.Expires-s.now().Unix(), 1)
}

// Expire deletes the objects whose time is over, of all resources, and returns when the next one's is; zero when none
// expires.
func Expire(ctx context.Context, s *store.Store, now time.Time) (next time.Time, err error) {
	for {
		var due []string
		err := s.View(func(sn *store.Snapshot) error {
			due, next = expired(sn, now)
			return nil
		})
		if err != nil || len(due) == 0 {
			return next, err
		}
		err = s.Update(ctx, func(tx *store.Tx) error {
			// Looked up anew: an object may have been given more time since.
			due, _ := expired(tx.Snapshot, now)
			for _, key := range due {
				tx.Delete(key)
			}
			return nil
		})
		if err != nil {
			return time.Time{}, err
		}
	}
}

func expired(sn *store.Snapshot, now time.Time) (due []string, next time.Time) {
	sn.Expiring(func(o store.Object) bool {
		at := time.Unix(o.Expires, 0)
		if at.After(now) {
			next = at
			return false
		}
		due = append(due, o.Key)
		return len(due) < expireBatch
	})
	return due, next
}
