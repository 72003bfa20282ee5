package containerd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"go.etcd.io/bbolt"
)

func TestCommits(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	updates := 0
	c := &commits{update: func(f func(*bbolt.Tx) error) error { updates++; return db.Update(f) }}
	put := func(name string, fails error) error {
		return c.run(context.Background(), func(ctx context.Context) error {
			tx, _ := boltutil.Transaction(ctx)
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
			return fails
		})
	}
	const n = 200
	failure := errors.New("failure")
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			var fails error
			if i%50 == 7 {
				fails = failure
			}
			if err := put(fmt.Sprint(i), fails); !errors.Is(err, fails) {
				t.Errorf("%d: got %v, want %v", i, err, fails)
			}
		})
	}
	group.Wait()
	db.View(func(tx *bbolt.Tx) error {
		for i := range n {
			if there := tx.Bucket([]byte(fmt.Sprint(i))) != nil; there == (i%50 == 7) {
				t.Errorf("%d: there: %v", i, there)
			}
		}
		return nil
	})
	if before := updates; put("alone", nil) != nil || updates != before+1 {
		t.Error("a lone change is one commit")
	}
}
