package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFullDisk needs root to mount a small file system.
func TestAFullDisk(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a tmpfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	s := openAt(t, filepath.Join(dir, "jobd.db"), Options{HistoryBytes: 1 << 20})
	t.Cleanup(func() { _ = s.Close() }) // before the umount
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("x", 100_000))
	written := 0
	var err error
	for ; err == nil && written < 1000; written++ {
		err = s.Update(t.Context(), func(tx *Tx) error {
			tx.Put(Object{Key: fmt.Sprintf("a/%d", written), Value: value})
			return nil
		})
	}
	written--
	if !errors.Is(err, ErrFull) {
		t.Fatalf("after %d objects: %v", written, err)
	}
	before := s.Version()
	if err := s.View(func(sn *Snapshot) error {
		if n := sn.Count("a/"); n != written {
			t.Errorf("%d objects, %d were durable", n, written)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	mustCheck(t, s)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if v := put(t, s, "large", string(value)); v != before+1 {
		t.Errorf("version %d after %d", v, before)
	}
	mustCheck(t, s)
}
