package upkeep

import (
	"context"
	"strings"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// DropMemories removes what was remembered of Jobs and CronJobs that are gone, since a crash can come between the two
// removals.
func DropMemories(ctx context.Context, s *store.Store) error {
	return s.Update(ctx, func(tx *store.Tx) error {
		for resource, of := range map[string]string{objects.Memories: objects.Jobs, objects.Schedules: objects.CronJobs} {
			tx.Range(resource+"/", "", func(o store.Object) bool {
				if owner, ok := tx.Get(of + strings.TrimPrefix(o.Key, resource)); !ok || owner.UID != o.UID {
					tx.Delete(o.Key)
				}
				return true
			})
		}
		return nil
	})
}
