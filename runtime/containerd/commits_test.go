package containerd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// What may be delayed is committed with the next change that does not wait, or alone after a while.
func TestDelayedCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches atomic.Int32
		c := &commits{update: func(f func(*bbolt.Tx) error) error { batches.Add(1); return f(nil) }}
		var committed atomic.Int32
		do := func(context.Context) error { committed.Add(1); return nil }
		begin := time.Now()
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if err := c.runLater(t.Context(), do); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := committed.Load(); n != 0 {
			t.Errorf("%d changes did not wait", n)
		}
		if err := c.run(t.Context(), do); err != nil {
			t.Error(err)
		}
		group.Wait()
		if n, b := committed.Load(), batches.Load(); n != 4 || b != 1 || time.Since(begin) != 0 {
			t.Errorf("%d changes in %d commits after %v", n, b, time.Since(begin))
		}
		if err := c.runLater(t.Context(), do); err != nil {
			t.Error(err)
		}
		if b, took := batches.Load(), time.Since(begin); b != 2 || took != batchDelay {
			t.Errorf("alone: %d commits after %v", b, took)
		}
	})
}
