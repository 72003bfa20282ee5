package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "jobd.db"), o)
}

func openAt(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t testing.TB, s *Store, key, value string, owners ...string) uint64 {
	t.Helper()
	var version uint64
	err := s.Update(context.Background(), func(tx *Tx) error {
		version = tx.Put(Object{Key: key, UID: "uid-" + key, Owners: owners, Value: []byte(value)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func remove(t testing.TB, s *Store, key string) uint64 {
	t.Helper()
	var version uint64
	err := s.Update(context.Background(), func(tx *Tx) error {
		version, _ = tx.Delete(key)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func get(t testing.TB, s *Store, key string) (value string, ok bool) {
	t.Helper()
	err := s.View(func(sn *Snapshot) error {
		var o Object
		o, ok = sn.Get(key)
		value = string(o.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return value, ok
}

func mustCheck(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// describe makes changes comparable at a glance.
func describe(changes []Change) []string {
	var out []string
	for _, c := range changes {
		what := "put"
		if c.Deleted {
			what = "delete"
		}
		line := fmt.Sprintf("%d %s %s=%s@%d", c.Version, what, c.Object.Key, c.Object.Value, c.Object.Version)
		if c.Previous != nil {
			line += fmt.Sprintf(" was %s@%d", c.Previous.Value, c.Previous.Version)
		}
		out = append(out, line)
	}
	return out
}

func TestKey(t *testing.T) {
	if got := Key("jobs.batch", "default", "pi"); got != "jobs.batch/default/pi" {
		t.Error(got)
	}
	if got := Key("namespaces", "", "default"); got != "namespaces/default" {
		t.Error(got)
	}
}

func TestWhatIsPutIsRead(t *testing.T) {
	s := openTest(t, Options{})
	if s.Version() == 0 {
		t.Error("an empty store has version 0, which means any version to clients")
	}
	v := put(t, s, "pods/a/x", "one", "job-1", "job-2")
	err := s.View(func(sn *Snapshot) error {
		o, ok := sn.Get("pods/a/x")
		if !ok || string(o.Value) != "one" || o.UID != "uid-pods/a/x" || o.Version != v || !slices.Equal(o.Owners, []string{"job-1", "job-2"}) {
			t.Errorf("got %+v, %v", o, ok)
		}
		if sn.Version() != v || s.Version() != v {
			t.Errorf("versions %d, %d, want %d", sn.Version(), s.Version(), v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, s)
}

func TestAFailingTransactionLeavesNothingAndUsesNoVersion(t *testing.T) {
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	before := s.Version()
	failure := errors.New("changed my mind")
	err := s.Update(t.Context(), func(tx *Tx) error {
		tx.Put(Object{Key: "a", Value: []byte("2")})
		tx.Put(Object{Key: "b", Value: []byte("2")})
		tx.Delete("a")
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if v, _ := get(t, s, "a"); v != "1" {
		t.Errorf("a is %q", v)
	}
	if _, ok := get(t, s, "b"); ok {
		t.Error("b is there")
	}
	if v := put(t, s, "c", "1"); v != before+1 {
		t.Errorf("version %d after %d", v, before)
	}
	mustCheck(t, s)
}

func TestAPanicIsTheCallersAlone(t *testing.T) {
	s := openTest(t, Options{})
	func() {
		defer func() {
			if r := recover(); r != "mine" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = s.Update(t.Context(), func(tx *Tx) error { tx.Put(Object{Key: "a"}); panic("mine") })
	}()
	ended := make(chan struct{})
	go func() { // what t.FailNow does
		defer close(ended)
		_ = s.Update(t.Context(), func(tx *Tx) error { tx.Put(Object{Key: "a"}); runtime.Goexit(); return nil })
	}()
	<-ended
	if _, ok := get(t, s, "a"); ok {
		t.Error("a is there")
	}
	put(t, s, "b", "1")
	mustCheck(t, s)
}

func TestAKeyThatCannotBeStoredFailsItsTransactionOnly(t *testing.T) {
	s := openTest(t, Options{})
	for name, o := range map[string]Object{
		"empty key":  {},
		"long key":   {Key: strings.Repeat("k", 5000)},
		"long owner": {Key: "k", Owners: []string{strings.Repeat("o", 5000)}},
	} {
		err := s.Update(t.Context(), func(tx *Tx) error { tx.Put(o); return nil })
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	put(t, s, "owner with separators", "1", "a\x00b", "")
	mustCheck(t, s)
}

func TestTxSeesItsOwnWritesByGetOnly(t *testing.T) {
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	err := s.Update(t.Context(), func(tx *Tx) error {
		v := tx.Put(Object{Key: "b", Value: []byte("2")})
		if o, ok := tx.Get("b"); !ok || string(o.Value) != "2" || o.Version != v {
			t.Errorf("b is %+v", o)
		}
		if _, ok := tx.Delete("a"); !ok {
			t.Error("a was not there")
		}
		if _, ok := tx.Get("a"); ok {
			t.Error("a is still there")
		}
		if _, ok := tx.Delete("a"); ok {
			t.Error("a was there twice")
		}
		var keys []string
		tx.Range("", "", func(o Object) bool { keys = append(keys, o.Key); return true })
		if !slices.Equal(keys, []string{"a"}) || tx.Count("") != 1 {
			t.Errorf("range shows %v", keys)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryPutOfATransactionIsAChange(t *testing.T) {
	s := openTest(t, Options{})
	first := s.Version()
	err := s.Update(t.Context(), func(tx *Tx) error {
		tx.Put(Object{Key: "job", Value: []byte("interim")})
		tx.Put(Object{Key: "job", Value: []byte("final")})
		tx.Delete("job")
		tx.Put(Object{Key: "job", Value: []byte("again")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	changes, at, err := s.Cursor(first, "").Next(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"2 put job=interim@2", "3 put job=final@3 was interim@2", "4 delete job=final@3 was final@3", "5 put job=again@5"}
	if got := describe(changes); !slices.Equal(got, want) || at != 5 {
		t.Errorf("at %d:\n%s", at, strings.Join(got, "\n"))
	}
	mustCheck(t, s)
}

func TestOwned(t *testing.T) {
	s := openTest(t, Options{})
	put(t, s, "pods/1", "", "job")
	put(t, s, "pods/2", "", "job", "other")
	put(t, s, "pods/3", "", "jo")
	owned := func(uid string) (keys []string) {
		err := s.View(func(sn *Snapshot) error {
			sn.Owned(uid, "", "", func(key string) bool { keys = append(keys, key); return true })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	if got := owned("job"); !slices.Equal(got, []string{"pods/1", "pods/2"}) {
		t.Errorf("job owns %v", got)
	}
	put(t, s, "pods/1", "", "other")
	remove(t, s, "pods/2")
	if got := owned("job"); got != nil {
		t.Errorf("job still owns %v", got)
	}
	if got := owned("other"); !slices.Equal(got, []string{"pods/1"}) {
		t.Errorf("other owns %v", got)
	}
	mustCheck(t, s)
}

func TestWritersThatWaitShareACommit(t *testing.T) {
	s := openTest(t, Options{})
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 50 {
				put(t, s, fmt.Sprintf("k/%d/%d", w, i), "v")
			}
		})
	}
	wg.Wait()
	err := s.View(func(sn *Snapshot) error {
		if n := sn.Count("k/"); n != 16*50 {
			t.Errorf("%d objects", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Version(), uint64(FirstVersion+16*50); got != want {
		t.Errorf("version %d, want %d", got, want)
	}
	mustCheck(t, s)
}

func TestUpdateDoesNotWaitForItsTurnForEver(t *testing.T) {
	s := openTest(t, Options{})
	running, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.Update(t.Context(), func(tx *Tx) error { close(running); <-release; return nil })
	}()
	<-running
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := s.Update(ctx, func(tx *Tx) error { t.Error("ran"); return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(release)
}

func TestAfterCloseEverythingSaysSo(t *testing.T) {
	s := openTest(t, Options{})
	waiting := make(chan error)
	go func() {
		_, _, err := s.Cursor(s.Version(), "").Next(context.Background(), 1)
		waiting <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{
		"cursor":  <-waiting,
		"view":    s.View(func(*Snapshot) error { return nil }),
		"update":  s.Update(t.Context(), func(*Tx) error { return nil }),
		"check":   s.Check(),
		"again":   func() error { _, _, err := s.Cursor(0, "").Next(t.Context(), 1); return err }(),
		"compact": func() error { _, _, err := s.Compact(t.Context()); return err }(),
	}
	for what, err := range errs {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
