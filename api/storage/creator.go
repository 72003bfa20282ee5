package storage

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/store"
)

// CreatorPrefix begins the keys under which it is stored who has created an object. Clients do not see it: an annotation
// could be changed by everybody who may change the object.
const CreatorPrefix = "creators."

// CreatorKey returns the key under which the name of the user is stored who has created an object, with the UID of that
// object. The daemon removes it when the object is gone.
func CreatorKey(key string) string { return CreatorPrefix + key }

// noteCreator stores who creates a Job or a CronJob, for the history of Jobs.
func noteCreator(ctx context.Context, tx *store.Tx, o store.Object) {
	if !strings.HasPrefix(o.Key, "jobs.batch/") && !strings.HasPrefix(o.Key, "cronjobs.batch/") {
		return
	}
	if who, ok := request.UserFrom(ctx); ok {
		tx.Put(store.Object{Key: CreatorKey(o.Key), UID: o.UID, Value: []byte(who.GetName())})
	}
}
