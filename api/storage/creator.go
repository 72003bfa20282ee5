package storage

import (
	"context"
	"slices"
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

// created are the prefixes of the keys of what the history of Jobs says the creators of: Jobs, and what starts Jobs.
var created = []string{"jobs.batch/", "cronjobs.batch/", "jobsets.jobset.x-k8s.io/"}

// noteCreator stores who creates a Job, or what starts Jobs, for the history of Jobs.
func noteCreator(ctx context.Context, tx *store.Tx, o store.Object) {
	if !slices.ContainsFunc(created, func(prefix string) bool { return strings.HasPrefix(o.Key, prefix) }) {
		return
	}
	if who, ok := request.UserFrom(ctx); ok {
		tx.Put(store.Object{Key: CreatorKey(o.Key), UID: o.UID, Value: []byte(who.GetName())})
	}
}
