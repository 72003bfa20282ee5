package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime"
)

// A container sees the image and nothing of the container that had its layer before.
func TestLayersAreUsedAgain(t *testing.T) {
	r := newRig(t, "")
	const look = "ls -ld / | cut -d' ' -f1,3,4; find / -xdev | sort"
	_, fresh := r.run(t, pod("u0", look))
	for i, spoil := range []string{
		"true", "rm -rf /bin/[a-f]*; mkdir /new; echo x > /new/file; mkfifo /fifo", "chmod 700 /; chown 5:6 /", "rm /etc; mkdir -p /bin/deep/er; ln -s / /link",
	} {
		c := r.container(t, pod(fmt.Sprint("u", i+1), spoil), "main")
		r.start(t, c)
		r.wait(t, c.ID)
		if err := r.Remove(context.Background(), c.ID); err != nil {
			t.Fatal(err)
		}
		r.cleanup.Wait()
		if len(r.server.layers.recycled.free) == 0 {
			t.Errorf("after %q the layer is not kept", spoil)
		}
		if _, got := r.run(t, pod(fmt.Sprint("v", i+1), look)); got != fresh {
			t.Errorf("after %q:\n%s\nwant\n%s", spoil, got, fresh)
		}
	}
}

// Whoever reads the files of a container slowly sees none of the container that comes after it.
func TestALayerThatIsReadIsNotUsedAgain(t *testing.T) {
	r := newRig(t, "")
	first := r.container(t, pod("u1", "mkdir /secret; echo of the first >/secret/first"), "main")
	r.start(t, first)
	r.wait(t, first.ID)
	err := r.WithFiles(t.Context(), first.ID, func(root string) error {
		if err := r.Remove(t.Context(), first.ID); err != nil {
			return err
		}
		r.cleanup.Wait()
		if err := r.WithFiles(t.Context(), first.ID, func(string) error { return nil }); !errdefs.IsNotFound(err) {
			t.Errorf("files of one that is removed: %v", err)
		}
		uid := "v1"
		for i := 2; r.shards.of(uid) != r.shards.of("u1"); i++ {
			uid = fmt.Sprint("v", i)
		}
		second := r.container(t, pod(uid, "mkdir /secret; echo of the second >/secret/second; sleep 100"), "main")
		r.start(t, second)
		for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			var out bytes.Buffer
			if _, err := r.Exec(t.Context(), second.ID, runtime.ExecRequest{Args: []string{"cat", "/secret/second"}, Stdout: &out}); err != nil {
				return err
			}
			if out.String() == "of the second\n" {
				break
			}
			if time.Now().After(late) {
				return errors.New("the second one writes nothing")
			}
		}
		if content, err := os.ReadFile(filepath.Join(root, "secret/second")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the files of the first one have those of the second: %q, %v", content, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The mount points of a container are not created in its layer.
func TestAContainerThatWritesNothingLeavesItsLayerEmpty(t *testing.T) {
	r := newRig(t, "")
	volume, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mounts := func(s *specs.Spec) {
		s.Mounts = append(s.Mounts,
			specs.Mount{Destination: "/new/place", Type: "bind", Source: volume, Options: []string{"rbind"}},
			specs.Mount{Destination: "/new/place/below", Type: "tmpfs", Source: "tmpfs"},
			specs.Mount{Destination: "/new/file", Type: "bind", Source: file, Options: []string{"bind", "ro"}},
			specs.Mount{Destination: "/bin/busybox", Type: "bind", Source: "/bin/busybox", Options: []string{"bind", "ro"}},
		)
	}
	c := r.container(t, pod("u1", "cat /new/file && touch /new/place/x && ls /new/place"), "main", mounts)
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 || output(t, c.LogPath) != "content\nbelow\nx" {
		t.Errorf("%+v: %s", status, output(t, c.LogPath))
	}
	one, ok := r.server.layers.recycled.of(c.ID)
	if !ok {
		t.Fatal("no layer")
	}
	if entries, err := os.ReadDir(filepath.Join(r.server.layers.recycled.dir, one.name, upperDir)); err != nil || len(entries) > 0 {
		t.Errorf("left in the layer: %v, %v", entries, err)
	}
}

// A layer is not lost when it cannot be recorded which container has it.
func TestALayerThatCannotBeTakenIsTakenLater(t *testing.T) {
	r := newRig(t, "")
	if r.server.layers.recycled == nil {
		t.Skip("needs overlayfs")
	}
	r.run(t, pod("u0", "true"))
	r.cleanup.Wait()
	s := r.server.layers.recycled
	c := r.container(t, pod("u1", "true"), "main")
	inTheWay := filepath.Join(s.links, c.ID)
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inTheWay, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before := len(s.free)
	if _, err := r.Start(context.Background(), c); err == nil {
		t.Fatal("started without a note of its layer")
	}
	if len(s.free) != max(before, 1) {
		t.Errorf("%d free layers, before %d", len(s.free), before)
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	r.start(t, c)
	r.wait(t, c.ID)
}

// A layer that is not recycled is recognized by its name, even by a daemon that has not made it.
func TestALayerOfOneContainerGoesWithIt(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "3", upperDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("3 lowest parent", filepath.Join(links, "c")); err != nil {
		t.Fatal(err)
	}
	s, err := openRecycledLayers(nil, dir, links)
	if err != nil {
		t.Fatal(err)
	}
	if one, ok := s.of("c"); !ok || one.name != "3" || s.next != 4 {
		t.Errorf("found %+v, the next is %d", one, s.next)
	}
	if err := s.release(context.Background(), "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "3")); !os.IsNotExist(err) || len(s.free) > 0 {
		t.Errorf("%v, free: %v", err, s.free)
	}
}

// Whoever has obtained the root directory of one container has no access to that of another.
func TestALayerThatOthersMayHoldIsNotUsedAgain(t *testing.T) {
	r := newRig(t, "")
	begin := func() (runtime.Container, string) {
		c := r.container(t, pod("u1", "sleep 1000"), "main")
		c.Alone = false
		return c, fmt.Sprintf("/proc/%d/root", r.start(t, c).PID)
	}
	c, path := begin()
	held, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := r.Remove(context.Background(), c.ID); err != nil {
		t.Fatal(err)
	}
	r.cleanup.Wait()
	_, path = begin()
	_ = held.WriteFile("planted", nil, 0o644) // there may be nothing left to write to
	if _, err := os.Lstat(path + "/planted"); !os.IsNotExist(err) {
		t.Errorf("the next container has what was planted: %v", err)
	}
}

// What a container sets on its root directory with chattr would be inherited by what later ones create there.
func TestALayerWithFlagsIsNotUsedAgain(t *testing.T) {
	dir := t.TempDir()
	upper := filepath.Join(dir, upperDir)
	for _, d := range []string{upper, filepath.Join(dir, workDir)} {
		if err := os.Mkdir(d, layerMode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(upper, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !renew(context.Background(), upper) {
		t.Error("one without flags is not")
	}
	f, err := os.Open(upper)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const synchronous = 0x8 // chattr +S
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|synchronous))
	}
	if err != nil {
		t.Skipf("flags of directories cannot be set here: %v", err)
	}
	if renew(context.Background(), upper) {
		t.Error("one with flags is used again")
	}
}

// A container that is added to a pod may have got hold of the others' files: nobody gets their layers after them.
func TestALayerThatOthersMayHaveSeenIsNotRecycled(t *testing.T) {
	r := newRig(t, "")
	s := r.server.layers.recycled
	if s == nil {
		t.Skip("needs overlayfs")
	}
	main := r.container(t, pod("u1", "while :; do sleep 1; done"), "main")
	r.start(t, main)
	one, ok := s.of(main.ID)
	if !ok || one.shard() == "" {
		t.Fatalf("the layer of one that is alone is not to be recycled: %+v", one)
	}
	added := r.container(t, pod("u1", "true"), "main")
	added.ID, added.Name, added.Alone, added.Joins = "u1.added.0", "added", false, true
	r.start(t, added)
	r.wait(t, added.ID)
	for _, id := range []string{added.ID, main.ID} {
		if err := r.Remove(context.Background(), id); err != nil {
			t.Fatal(err)
		}
	}
	r.cleanup.Wait()
	if len(s.free) > 0 {
		t.Errorf("free: %+v", s.free)
	}
	if _, err := os.Stat(filepath.Join(s.dir, one.name)); !os.IsNotExist(err) {
		t.Errorf("the layer is still there: %v", err)
	}
}
