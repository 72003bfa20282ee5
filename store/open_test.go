package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

func TestADatabaseIsOpenOnceOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s := openAt(t, path, Options{})
	for range 2 {
		_, err := Open(path, Options{})
		var locked *LockedError
		if !errors.As(err, &locked) || locked.PID != os.Getpid() ||
			!strings.Contains(err.Error(), fmt.Sprintf("%s is in use by process %d", path, os.Getpid())) {
			t.Fatalf("got %v", err)
		}
	}
	put(t, s, "a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, Options{})
	if v, _ := get(t, s, "a"); v != "1" {
		t.Errorf("a is %q", v)
	}
}

func TestAStrayToolThatHoldsTheFileIsMet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	if err := openAt(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var locked *LockedError
	if _, err := Open(path, Options{}); !errors.As(err, &locked) {
		t.Fatalf("got %v", err)
	}
}

func TestANewerFormatIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s, err := open(path, Options{}, format+1, map[uint64]migration{format: func(*bolt.Tx) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var newer *FormatError
	if _, err := Open(path, Options{}); !errors.As(err, &newer) || newer.Found != format+1 || newer.Supported != format {
		t.Errorf("got %v", err)
	}
}

func TestMigrationIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s := openAt(t, path, Options{})
	put(t, s, "a", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("out of luck")
	touch := func(name string, err error) migration {
		return func(tx *bolt.Tx) error { return errors.Join(tx.Bucket(bucketMeta).Put([]byte(name), nil), err) }
	}
	_, err := open(path, Options{}, format+2, map[uint64]migration{format: touch("first", nil), format + 1: touch("second", failure)})
	if !errors.Is(err, failure) {
		t.Fatalf("got %v", err)
	}
	s, err = open(path, Options{}, format+2, map[uint64]migration{format + 1: touch("third", nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.View(func(sn *Snapshot) error {
		for name, want := range map[string]bool{"first": true, "second": false, "third": true} {
			if got := sn.meta.Get([]byte(name)) != nil; got != want {
				t.Errorf("%s: %v", name, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := get(t, s, "a"); v != "1" {
		t.Errorf("a is %q", v)
	}
}

func TestAnUnfinishedCreationIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, openAt(t, path, Options{}), "a", "1")
}

func TestADirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "jobd.db")
	if _, err := Open(path, Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestBackup(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "jobd.db"), Options{})
	put(t, s, "a", "1")
	v := put(t, s, "a", "2", "owner")
	var b bytes.Buffer
	if _, err := s.Backup(&b); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "3")
	if err := os.WriteFile(filepath.Join(dir, "copy.db"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := openAt(t, filepath.Join(dir, "copy.db"), Options{})
	if got, _ := get(t, c, "a"); got != "2" || c.Version() != v {
		t.Errorf("a is %q at %d", got, c.Version())
	}
	mustCheck(t, c)
	if changes, _, err := c.Cursor(FirstVersion, "").Next(t.Context(), 9); err != nil || len(changes) != 2 {
		t.Errorf("history of the copy: %v, %v", describe(changes), err)
	}
}

// TestCompactBesideManyWriters has clients write all that there is to write while the file is exchanged again and again.
func TestCompactBesideManyWriters(t *testing.T) {
	for name, cutting := range map[string]bool{"history kept": false, "history cut meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobd.db")
			s := openAt(t, path, Options{NoSync: true, HistoryBytes: 20_000})
			stop := make(chan struct{})
			models := make([]map[string]Object, 4)
			var clients sync.WaitGroup
			for i := range models {
				models[i] = map[string]Object{}
				clients.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), 7))
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						o := Object{Key: fmt.Sprintf("%d/%d", i, r.IntN(50)), UID: "u", Value: fmt.Append(nil, n, strings.Repeat("v", r.IntN(3000)))}
						for range r.IntN(3) {
							o.Owners = append(o.Owners, fmt.Sprintf("owner-%d", r.IntN(5)))
						}
						slices.Sort(o.Owners)
						o.Owners = slices.Compact(o.Owners)
						if r.IntN(2) == 0 {
							o.Expires = int64(1 + r.IntN(5))
						}
						gone := r.IntN(5) == 0
						err := s.Update(t.Context(), func(tx *Tx) error {
							if gone {
								tx.Delete(o.Key)
							} else {
								o.Version = tx.Put(o)
							}
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
						if delete(models[i], o.Key); !gone {
							models[i][o.Key] = o
						}
					}
				})
			}
			for range 20 {
				if cutting {
					clients.Go(func() {
						if err := s.Cut(t.Context(), s.Version()); err != nil {
							t.Error(err)
						}
					})
				}
				before := s.Version()
				if _, _, err := s.Compact(t.Context()); err != nil {
					t.Error(err)
				}
				for s.Version() == before && !t.Failed() {
					time.Sleep(time.Millisecond)
				}
			}
			close(stop)
			clients.Wait()
			mustCheck(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openAt(t, path, Options{})
			mustCheck(t, s)
			for i, model := range models {
				found := 0
				_ = s.View(func(sn *Snapshot) error {
					sn.Range(fmt.Sprintf("%d/", i), "", func(o Object) bool {
						found++
						if want := model[o.Key]; !reflect.DeepEqual(o, want) {
							t.Errorf("%s: version %d expires %d, want version %d expires %d", o.Key, o.Version, o.Expires, want.Version, want.Expires)
						}
						return true
					})
					return nil
				})
				if found != len(model) {
					t.Errorf("client %d: %d objects, want %d", i, found, len(model))
				}
			}
		})
	}
}

func TestCompactGivesSpaceBackWhileOthersReadAndWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s := openAt(t, path, Options{NoSync: true, HistoryBytes: 1})
	const objects = 200
	for i := range objects {
		put(t, s, fmt.Sprintf("a/%d", i), strings.Repeat("x", 100_000))
	}
	for i := range objects - 1 {
		remove(t, s, fmt.Sprintf("a/%d", i))
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				put(t, s, "b", "y")
				get(t, s, "b")
			}
		}
	}()
	before, after, err := s.Compact(t.Context())
	close(stop)
	<-done
	if err != nil || after > before/10 {
		t.Errorf("from %d to %d, %v", before, after, err)
	}
	put(t, s, "c", "z")
	mustCheck(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, Options{})
	for _, key := range []string{"a/199", "b", "c"} {
		if _, ok := get(t, s, key); !ok {
			t.Errorf("%s is gone", key)
		}
	}
}
