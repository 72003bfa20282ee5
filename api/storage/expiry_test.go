package storage

import (
	"context"
	"time"

	"github.com/jobd/jobd/store"
)

// expire deletes the objects whose time is over, as the daemon does, and returns when the next one's is; zero when none
// expires.
func expire(ctx context.Context, s *store.Store, now time.Time) (next time.Time, err error) {
	err = s.Update(ctx, func(tx *store.Tx) error {
		var due []string
		tx.Expiring(func(o store.Object) bool {
			at := time.Unix(o.Expires, 0)
			if at.After(now) {
				next = at
				return false
			}
			due = append(due, o.Key)
			return true
		})
		for _, key := range due {
			tx.Delete(key)
		}
		return nil
	})
	return next, err
}
