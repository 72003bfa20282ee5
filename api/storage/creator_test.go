package storage

import (
	"context"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// A POST creates an object, and so does the update that server-side apply makes of an object that is not there.
func TestCreatorIsKnownHoweverAJobIsMade(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
	jobs := New(s, scheme.StorageCodec, "/jobs.batch", func() runtime.Object { return &batchv1.Job{} })
	as := func(name string) context.Context {
		return request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
	}
	apply := func(ctx context.Context, key string) error {
		return jobs.GuaranteedUpdate(ctx, key, &batchv1.Job{}, true, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			j := obj.(*batchv1.Job)
			j.Namespace, j.Name, j.UID = "default", "applied", "uid-applied"
			j.Generation++
			return j, nil
		}), nil)
	}
	posted := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "posted", UID: "uid-posted"}}
	for _, err := range []error{
		jobs.Create(as("alice"), "/jobs.batch/default/posted", posted, &batchv1.Job{}, 0),
		apply(as("bob"), "/jobs.batch/default/applied"),
		apply(as("carol"), "/jobs.batch/default/applied"), // who changes it has not created it
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = s.View(func(sn *store.Snapshot) error {
		for name, want := range map[string]string{"posted": "alice", "applied": "bob"} {
			o, _ := sn.Get(CreatorKey("jobs.batch/default/" + name))
			if string(o.Value) != want || o.UID != "uid-"+name {
				t.Errorf("%s was created by %q (%s)", name, o.Value, o.UID)
			}
		}
		return nil
	})
}
