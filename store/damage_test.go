package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// damaged returns a database that has been written to and closed.
func damaged(t *testing.T) (path string, version uint64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jobd.db")
	s := openAt(t, path, Options{NoSync: true})
	for i := range 200 {
		version = put(t, s, fmt.Sprintf("a/%d", i%150), strings.Repeat("v", 500), "owner")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, version
}

// used is how much of a file bolt has written; what is behind it is reserved.
func used(t *testing.T, path string) int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(strings.TrimRight(string(b), "\x00")))
}

func TestATruncatedFileIsAnError(t *testing.T) {
	for _, part := range []float64{0, 0.01, 0.1, 0.5, 0.9} {
		t.Run(fmt.Sprintf("%.0f%% left", part*100), func(t *testing.T) {
			path, _ := damaged(t)
			if err := os.Truncate(path, int64(part*float64(used(t, path)))); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, Options{})
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestATornPage writes garbage over one page after the other. Opening fails with a clear error, or the check finds it, or
// nothing that counts was there: then everything is.
func TestATornPage(t *testing.T) {
	path, version := damaged(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	size := (int(used(t, path)) + page - 1) / page * page
	refused, found, harmless := 0, 0, 0
	for at := 0; at < size; at += page {
		torn := append([]byte(nil), whole[:size]...)
		for i := at + page/2; i < at+page; i++ {
			torn[i] ^= 0xa5
		}
		path := fmt.Sprintf("%s.%d", path, at/page) // bolt keeps a file locked over which it has panicked
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(whole))); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("page %d: %v", at/page, err)
			}
			refused++
			continue
		}
		switch err := s.Check(); {
		case errors.Is(err, ErrCorrupt):
			found++
		case err != nil:
			t.Errorf("page %d: %v", at/page, err)
		default:
			harmless++
			expectWhole(t, s, at/page, version)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("torn pages: %d refused, %d found by the check, %d not in use", refused, found, harmless)
	if refused == 0 || found == 0 {
		t.Error("damage has no effect: the test is wrong")
	}
}

func expectWhole(t *testing.T, s *Store, page int, version uint64) {
	t.Helper()
	err := s.View(func(sn *Snapshot) error {
		if n := sn.Count("a/"); n != 150 || sn.Version() != version {
			t.Errorf("page %d: silently lost: %d objects at version %d", page, n, sn.Version())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestATornMetaPageIsRecoveredFrom(t *testing.T) {
	path, version := damaged(t)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The last commit was not finished: its meta page is torn, and the one before it counts.
	for page := range 2 {
		_, whole := damagedMeta(t, f, page)
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("meta page %d: %v", page, err)
		}
		if got := s.Version(); got != version && got != version-1 {
			t.Errorf("meta page %d: version %d, want %d or the one before", page, got, version)
		}
		mustCheck(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(whole, int64(page*os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
	}
	_ = f.Close()
}

func damagedMeta(t *testing.T, f *os.File, page int) (n int, whole []byte) {
	t.Helper()
	whole = make([]byte, 128)
	at := int64(page * os.Getpagesize())
	if _, err := f.ReadAt(whole, at); err != nil {
		t.Fatal(err)
	}
	n, err := f.WriteAt(make([]byte, 40), at+40)
	if err != nil {
		t.Fatal(err)
	}
	return n, whole
}

func TestReadingADamagedValueIsAnErrorOfTheTransaction(t *testing.T) {
	path, _ := damaged(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := strings.ReplaceAll(string(b), "vvvv", "vvvw")
	if err := os.WriteFile(path, []byte(flipped), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, Options{})
	err = s.View(func(sn *Snapshot) error { sn.Get("a/1"); return nil })
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("view: %v", err)
	}
	err = s.Update(t.Context(), func(tx *Tx) error { tx.Put(Object{Key: "a/1"}); return nil })
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("update: %v", err)
	}
	put(t, s, "another", "goes on")
	if err := s.Check(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("check: %v", err)
	}
}

func TestAFileOfAnotherKindIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("hello\n", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
