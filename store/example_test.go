package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/store"
)

// open opens a store in a new directory.
func open() (s *store.Store, done func()) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	s, err = store.Open(filepath.Join(dir, "example.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return s, func() { _ = s.Close(); _ = os.RemoveAll(dir) }
}

// Objects are written in transactions and read in snapshots.
func Example() {
	s, done := open()
	defer done()
	key := store.Key("jobs.batch", "default", "pi")
	err := s.Update(context.Background(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: key, UID: "1", Value: []byte("two pods")})
		tx.Put(store.Object{Key: key, UID: "1", Value: []byte("three pods")}) // a change of its own
		return nil
	})
	fmt.Println("durable:", err == nil, "at version", s.Version())
	err = s.View(func(sn *store.Snapshot) error {
		o, ok := sn.Get(key)
		fmt.Println(o.Key, ok, o.Version, string(o.Value))
		return nil
	})
	fmt.Println(err)
	// Output:
	// durable: true at version 3
	// jobs.batch/default/pi true 3 three pods
	// <nil>
}

// A transaction that fails leaves nothing behind, not even a version.
func ExampleStore_Update() {
	s, done := open()
	defer done()
	before := s.Version()
	err := s.Update(context.Background(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: "pods/default/a", Value: []byte("x")})
		return fmt.Errorf("on second thought, no")
	})
	fmt.Println(err, s.Version() == before)
	// Output: on second thought, no true
}

// A cursor sees every change in order, with the state before it.
func ExampleStore_Cursor() {
	s, done := open()
	defer done()
	ctx := context.Background()
	for _, value := range []string{"Pending", "Running"} {
		_ = s.Update(ctx, func(tx *store.Tx) error {
			tx.Put(store.Object{Key: "pods/default/a", Value: []byte(value)})
			return nil
		})
	}
	_ = s.Update(ctx, func(tx *store.Tx) error { tx.Delete("pods/default/a"); return nil })

	c := s.Cursor(store.FirstVersion, "pods/")
	changes, at, err := c.Next(ctx, 10)
	for _, change := range changes {
		before := "nothing"
		if change.Previous != nil {
			before = string(change.Previous.Value)
		}
		fmt.Printf("%d: %s, before that %s, deleted %t\n", change.Version, change.Object.Value, before, change.Deleted)
	}
	fmt.Println("at", at, err)
	// Output:
	// 2: Pending, before that nothing, deleted false
	// 3: Running, before that Pending, deleted false
	// 4: Running, before that Running, deleted true
	// at 4 <nil>
}
