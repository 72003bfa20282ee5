package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func mustNotHaveCopy(t *testing.T, s *Store) {
	t.Helper()
	if _, err := os.Stat(s.compactPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of a compaction is left: %v", err)
	}
}

// What a killed compaction has left would keep as much of the disk as the database itself.
func TestOpenRemovesWhatACompactionLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	if err := os.WriteFile(path+".compact", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, Options{})
	defer s.Close()
	mustNotHaveCopy(t, s)
}

func TestACompactionEndsWithItsClient(t *testing.T) {
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, _, err := s.Compact(ctx); !errors.Is(err, gone) {
		t.Error(err)
	}
	mustNotHaveCopy(t, s)
	put(t, s, "b", "2")
	mustCheck(t, s)
}

func TestCloseEndsACompaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s := openAt(t, path, Options{})
	const objects, bytes = 40, 1 << 20 // more than a transaction of the copy takes
	for i := range objects {
		put(t, s, fmt.Sprintf("a/%d", i), strings.Repeat("x", bytes))
	}
	compacted := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, _, err = s.Compact(context.Background())
		}
		compacted <- err
	}()
	for {
		if _, err := os.Stat(s.compactPath()); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-compacted; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	mustNotHaveCopy(t, s)
	s = openAt(t, path, Options{})
	defer s.Close()
	if v, _ := get(t, s, "a/39"); len(v) != bytes {
		t.Errorf("an object has %d bytes", len(v))
	}
	mustCheck(t, s)
}

// What a compaction finds in its place, for instance after a failed one, is not taken for a part of the copy.
func TestACompactionBeginsAnew(t *testing.T) {
	s := openTest(t, Options{})
	put(t, s, "a", "1")
	for _, left := range []string{"half a copy", ""} {
		if err := os.WriteFile(s.compactPath(), []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Compact(t.Context()); err != nil {
			t.Errorf("with %q: %v", left, err)
		}
		mustNotHaveCopy(t, s)
		mustCheck(t, s)
	}
}

func TestACompactionTakesTheReserveAgain(t *testing.T) {
	s := openTest(t, Options{Reserve: 1 << 20})
	put(t, s, "a", "1")
	if _, _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.reserved.upTo == 0 || s.reserved.short {
		t.Errorf("the new file has %+v", s.reserved)
	}
}
