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

// smallDisk mounts a file system of a few megabytes, which needs root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a tmpfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}

func TestAFullDisk(t *testing.T) {
	dir := smallDisk(t, "24m")
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

// Others fill the disk to the last byte, and the database goes on: its reserve takes what is new, and once that is half
// used up the history is cut, so that what changes again and again takes no more.
func TestAReserveOutlastsAFullDisk(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) { outlastAFullDisk(t, smallDisk(t, "24m"), 3000) })
	// It takes long over each commit while it is full.
	t.Run("btrfs", func(t *testing.T) { outlastAFullDisk(t, smallBtrfs(t), 200) })
}

// smallBtrfs mounts a small Btrfs that compresses.
func smallBtrfs(t *testing.T) string {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	dir := t.TempDir()
	file, at := filepath.Join(dir, "disk"), filepath.Join(dir, "mounted")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"truncate", "-s", "200M", file}, {"mkfs.btrfs", "-q", file}, {"mount", "-o", "loop", file, at}, {"chattr", "+c", at},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs a Btrfs: %s: %v %s", strings.Join(command, " "), err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return at
}

func outlastAFullDisk(t *testing.T, dir string, changes int) {
	t.Helper()
	s := openAt(t, filepath.Join(dir, "jobd.db"), Options{Reserve: 8 << 20})
	t.Cleanup(func() { _ = s.Close() })
	if copiesOnWrite(s.path) {
		t.Error("the database is not written in place")
	}
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	value := []byte(strings.Repeat("x", 10_000))
	for i := range changes {
		put(t, s, fmt.Sprintf("a/%d", i%20), string(value))
	}
	mustCheck(t, s)
	before, after, err := s.Compact(t.Context())
	if err == nil {
		t.Errorf("compacted from %d to %d bytes on a full disk", before, after)
	}
	if err := os.Remove(ballast.Name()); err != nil {
		t.Fatal(err)
	}
	ballast.Close()
	if _, _, err := s.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if copiesOnWrite(s.path) {
		t.Error("the database is not written in place since it was compacted")
	}
	put(t, s, "b", string(value))
	mustCheck(t, s)
}
