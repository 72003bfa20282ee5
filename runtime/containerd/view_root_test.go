package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/testdata/images"
)

// What is in layers has neither setuid programs nor devices where it is looked at, by a mount that has no place.
func TestAViewIsOfNoUseToOthers(t *testing.T) {
	needRoot(t)
	state, dir := t.TempDir(), t.TempDir()
	var layers []string
	for _, name := range []string{"upper", "lower"} {
		layer := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(layer, "of-"+name), 0o755); err != nil {
			t.Fatal(err)
		}
		layers = append(layers, layer)
	}
	if err := os.MkdirAll(layout.State(state).Containerd(), 0o711); err != nil {
		t.Fatal(err)
	}
	for how, open := range map[string]func() (*os.File, error){
		"of this kernel":     func() (*os.File, error) { return openView(state, layers, nil) },
		"of an older kernel": func() (*os.File, error) { return placedView(state, layers, nil) },
	} {
		view, err := open()
		if err != nil {
			t.Errorf("%s: %v", how, err)
			continue
		}
		defer view.Close()
		for _, name := range []string{"of-upper", "of-lower"} {
			if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d/%s", view.Fd(), name)); err != nil {
				t.Errorf("%s: %v", how, err)
			}
		}
		var is unix.Statfs_t
		if err := unix.Fstatfs(int(view.Fd()), &is); err != nil {
			t.Fatal(err)
		}
		if want := int64(unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC); is.Flags&want != want {
			t.Errorf("%s: flags %#x, want %#x", how, is.Flags, want)
		}
		var at unix.Statx_t
		if err := unix.Statx(int(view.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &at); err != nil {
			t.Fatal(err)
		}
		mounted, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return i.ID != int(at.Mnt_id), false })
		if err != nil || len(mounted) > 0 {
			t.Errorf("%s: it is at a place: %v, %v", how, mounted, err)
		}
	}
	if is, err := os.Stat(viewsDir(state)); err != nil || is.Mode().Perm() != 0o700 {
		t.Errorf("others may pass through the places of views: %v, %v", is.Mode(), err)
	}
}

// While images are unpacked, containers of them start, and files of ended ones are read, no user of the host gets at a mount of what
// they have made: each is out of reach, or has no setuid programs and no devices.
func TestNobodyReachesAMountOfImages(t *testing.T) {
	r := newRig(t, "")
	open := filepath.Dir(r.config.Root)
	if err := os.Chmod(open, 0o755); err != nil { // as /var/lib is
		t.Fatal(err)
	}
	var end atomic.Bool
	found := make(chan []string)
	go func() {
		var all []string
		for !end.Load() {
			for _, m := range reachable(t, r.config.State, r.config.Root) {
				if !slices.Contains(all, m) {
					all = append(all, m)
				}
			}
		}
		found <- all
	}()
	lowest := images.NewTree()
	lowest.Busybox("/bin")
	for i := range 10 {
		second := images.NewTree()
		second.Text("/etc/passwd", 0o644, "app:x:77:78::/:/bin/sh\n")
		second.Dir("/tmp", 0o1777)
		second.Text("/data/file", 0o644, fmt.Sprint(i))
		name := fmt.Sprintf("docker.io/library/volume:%d", i)
		made, err := images.FromLayers(v1.Config{Cmd: []string{"sh"}, Volumes: map[string]struct{}{"/data": {}}}, []string{name}, lowest, second)
		if err != nil {
			t.Fatal(err)
		}
		r.image = r.importImage(t, made)
		c := r.container(t, pod(fmt.Sprint("u", i), "cat /data/file; echo x >/tmp/x"), "main")
		c.Spec.Process.User.Username = "app" // whom only the image knows
		r.start(t, c)
		if r.wait(t, c.ID); output(t, c.LogPath) != fmt.Sprint(i) {
			t.Errorf("log %q", output(t, c.LogPath))
		}
		if err := r.WithFiles(t.Context(), c.ID, func(root string) error {
			_, err := os.Stat(filepath.Join(root, "tmp/x"))
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	end.Store(true)
	if all := <-found; len(all) > 0 {
		t.Errorf("within reach of others:\n%s", strings.Join(all, "\n"))
	}
}

// reachable lists the mounts below some directories that everybody can pass through to, and whose setuid programs or devices count.
func reachable(t *testing.T, dirs ...string) (out []string) {
	mounts, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(i.Mountpoint, dir+"/") }), false
	})
	if err != nil {
		t.Error(err)
	}
	for _, m := range mounts {
		options := strings.Split(m.Options, ",")
		if slices.Contains(options, "nosuid") && slices.Contains(options, "nodev") {
			continue
		}
		passable := true
		for dir := filepath.Dir(m.Mountpoint); dir != "/"; dir = filepath.Dir(dir) {
			if is, err := os.Stat(dir); err != nil || is.Mode()&1 == 0 {
				passable = false
			}
		}
		if passable {
			out = append(out, m.Mountpoint)
		}
	}
	return out
}
