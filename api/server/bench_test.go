package server

import (
	"path/filepath"
	"testing"

	"github.com/jobd/jobd/store"
)

func BenchmarkNew(b *testing.B) {
	db, err := store.Open(filepath.Join(b.TempDir(), "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for b.Loop() {
		s, err := New(Config{Store: db})
		if err != nil {
			b.Fatal(err)
		}
		s.stop()
	}
}
