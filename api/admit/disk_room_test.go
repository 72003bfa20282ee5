package admit

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jobd/jobd/store"
)

// TestFull: the control loop is told at once, by what was measured beside it.
func TestFull(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(context.Background(), func(tx *store.Tx) error {
		for i := range 70 {
			tx.Put(store.Object{Key: store.Key("configmaps", "one", fmt.Sprint(i)), Value: make([]byte, 1<<20)})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	left.Store(100 << 20)
	d := &DiskRoom{Store: s, Space: func() (int64, int64, error) { return left.Load(), 1 << 30, nil }}
	d.Full("one")
	for end := time.Now().Add(time.Minute); d.Full("one") == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not full")
		}
	}
	if err := d.Full("one"); !strings.Contains(err.Error(), "the namespace one has more than 64 MiB") {
		t.Error(err)
	}
	if err := d.Full("two"); err != nil {
		t.Error(err)
	}
	left.Store(200 << 20)
	if err := d.Full("one"); err != nil {
		t.Errorf("with room for it: %v", err)
	}
}
