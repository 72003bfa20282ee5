package store

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheFileIsWrittenAhead asks the file system whether the next pages have been written, and not only reserved, while the
// file grows, and checks that nothing of what is used is overwritten.
func TestTheFileIsWrittenAhead(t *testing.T) {
	s := openTest(t, Options{Reserve: 1 << 20})
	f, err := os.Open(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	value := string(make([]byte, 5000))
	begin := usedSize(s.bolt)
	for i := range 100 {
		put(t, s, fmt.Sprintf("a/%d", i), value)
		if i == 0 {
			continue // bolt has just made the file larger
		}
		// The writer does that after a commit, before it begins anything else.
		if err := s.Update(t.Context(), func(*Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		used := usedSize(s.bolt)
		if at, err := unix.Seek(int(f.Fd()), used, unix.SEEK_DATA); err != nil || at != used {
			t.Fatalf("%d bytes are used, the next that are written are at %d: %v", used, at, err)
		}
	}
	if used := usedSize(s.bolt); used < begin+aheadBytes {
		t.Errorf("the file grew from %d to %d bytes, which shows nothing", begin, used)
	}
	mustCheck(t, s)
}

// A backup that is put in the place of the file, without stopping the daemon first, is not written to.
func TestAnotherFileIsNotWrittenAhead(t *testing.T) {
	s := openTest(t, Options{Reserve: 1 << 20})
	put(t, s, "a", "1")
	other := bytes.Repeat([]byte("x"), 8<<20)
	if err := os.WriteFile(s.path+".other", other, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.path+".other", s.path); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		put(t, s, fmt.Sprintf("a/%d", i), string(make([]byte, 5000)))
	}
	if now, err := os.ReadFile(s.path); err != nil || !bytes.Equal(now, other) {
		t.Errorf("it was changed: %v", err)
	}
}
