package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/thread"
)

// placesHere returns where something is mounted in the calling thread's mount namespace, in the order of paths.
func placesHere() (all []string, err error) {
	mounted, err := mountlist.Get(nil)
	for _, m := range mounted {
		all = append(all, m.Mountpoint)
	}
	slices.Sort(all)
	return all, err
}

// TestShowHost: the host's files are shown in another mount namespace than the host's, without what is mounted for containers, and
// the host has nothing of it.
func TestShowHost(t *testing.T) {
	newBed(t, "crun") // skips without root
	dir := t.TempDir()
	h := &protocol.Host{At: filepath.Join(dir, "host"), Without: []string{filepath.Join(dir, "own")}}
	for _, name := range []string{"host", "own", "own/a b", "other", "rootfs"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	mounts := []string{"own/a b", "other"}
	for _, name := range mounts {
		must(t, unix.Mount("tmpfs", filepath.Join(dir, name), "tmpfs", 0, ""))
		defer unix.Unmount(filepath.Join(dir, name), unix.MNT_DETACH)
	}
	// What is mounted in that is at a place to which the path leads elsewhere, as where its user has put a symlink in the way.
	for _, name := range []string{"own/a b/x/l/other", "own/a b/x"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		must(t, unix.Mount("tmpfs", filepath.Join(dir, name), "tmpfs", 0, ""))
	}
	must(t, os.Symlink(dir, filepath.Join(dir, "own/a b/x/l")))
	l, err := newLauncher("", 0)
	must(t, err)
	if err := l.showHost(h); err == nil || !strings.Contains(err.Error(), "in its own mount namespace") {
		t.Errorf("in the host's own: %v", err)
	}
	before, err := placesHere()
	must(t, err)
	type seen struct {
		mounts []string
		err    error
	}
	done := make(chan seen)
	thread.Start(func() {
		var s seen
		defer func() { done <- s }()
		if s.err = unix.Unshare(unix.CLONE_FS); s.err != nil {
			return
		}
		if s.err = l.enter(&launchThread{}, launch{rootfs: filepath.Join(dir, "rootfs")}); s.err != nil {
			return
		}
		if s.err = l.showHost(h); s.err != nil {
			return
		}
		if s.mounts, s.err = placesHere(); s.err != nil {
			return
		}
		if s.err = linkHost(h, filepath.Join(dir, "rootfs")); s.err != nil {
			return
		}
		own := *h
		if own.Own = []string{"bin"}; os.Remove(filepath.Join(dir, "rootfs", "bin")) == nil {
			s.err = linkHost(&own, filepath.Join(dir, "rootfs"))
			if _, err := os.Lstat(filepath.Join(dir, "rootfs", "bin")); err == nil {
				t.Error("what the container has of its own is a symlink of the host's")
			}
			_ = os.Symlink("usr/bin", filepath.Join(dir, "rootfs", "bin"))
		}
		// Twice it would show what it shows already.
		if err := l.showHost(h); err == nil || !strings.Contains(err.Error(), "is not empty") {
			s.err = err
			t.Errorf("where something is: %v", err)
		}
	})
	s := <-done
	must(t, s.err)
	has := func(name string) bool { return slices.Contains(s.mounts, h.At+filepath.Join(dir, name)) }
	if !slices.Contains(s.mounts, h.At) || !has("other") || has("own/a b") || has("own/a b/x/l/other") {
		t.Errorf("it shows %q", s.mounts)
	}
	if !slices.Contains(s.mounts, filepath.Join(dir, "other")) {
		t.Error("what is mounted elsewhere is gone")
	}
	if slices.Contains(s.mounts, filepath.Join(dir, "own/a b")) == false {
		t.Error("what is mounted for containers is not where it was")
	}
	links, err := os.ReadDir("/")
	must(t, err)
	for _, e := range links {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		want, _ := os.Readlink("/" + e.Name())
		if got, err := os.Readlink(filepath.Join(dir, "rootfs", e.Name())); err != nil || got != want {
			t.Errorf("%s leads to %q, %v", e.Name(), got, err)
		}
	}
	after, err := placesHere()
	must(t, err)
	after = slices.DeleteFunc(after, func(m string) bool { return !strings.HasPrefix(m, dir) })
	before = slices.DeleteFunc(before, func(m string) bool { return !strings.HasPrefix(m, dir) })
	if !slices.Equal(before, after) {
		t.Errorf("the host has %q, and had %q", after, before)
	}
	if entries, err := os.ReadDir(h.At); err != nil || len(entries) > 0 {
		t.Errorf("the host's own directory has %v, %v", entries, err)
	}
}
