package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/runas"
)

// runningAs is a namespace with a list whose pods run as a user.
type runningAs struct {
	allowing
	user runas.Identity
}

func (r runningAs) RunAs(string) (*runas.Identity, error) { return &r.user, nil }

// What root could pass through, and the user cannot, is not mounted for the user.
func TestHostPathsAsAUser(t *testing.T) {
	v := newVolumes(t)
	base, err := os.MkdirTemp("/var/tmp", "jobd-test.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	user := runas.Identity{UID: 54321, Groups: []uint32{54322, 54323}}
	for dir, of := range map[string]struct {
		uid, gid int
		mode     os.FileMode
	}{
		"": {0, 0, 0o755}, "home": {54321, 54322, 0o700}, "others": {54324, 54324, 0o700}, "others/open": {54324, 54324, 0o777}, "group": {0, 54323, 0o750},
		"group/in": {0, 0, 0o755}, "closed": {0, 0, 0o755},
	} {
		path := filepath.Join(base, dir)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, of.uid, of.gid), os.Chmod(path, of.mode)); err != nil {
			t.Fatal(err)
		}
	}
	v.node.HostPaths = runningAs{allowing(base + "/home," + base + "/others," + base + "/group," + base + "/closed"), user}
	for _, c := range []struct {
		path  string
		kind  corev1.HostPathType
		sub   string
		wrong string
		made  string
	}{
		{path: "/home"},
		{path: "/group"},
		{path: "/group/in"},
		{path: "/others"}, // which is listed, and shows nothing
		{path: "/others/open", wrong: "permission denied"},
		{path: "/others", sub: "open", wrong: "permission denied"},
		{path: "/home/a/b", kind: corev1.HostPathDirectoryOrCreate, made: "/home/a"},
		{path: "/home/file", kind: corev1.HostPathFileOrCreate, made: "/home/file"},
		{path: "/home", sub: "c/d", made: "/home/c/d"},
		{path: "/closed/a", kind: corev1.HostPathDirectoryOrCreate, wrong: "permission denied"},
		{path: "/closed/f", kind: corev1.HostPathFileOrCreate, wrong: "permission denied"},
		{path: "/closed", sub: "a", wrong: "permission denied"},
	} {
		t.Run(c.path+" "+c.sub, func(t *testing.T) {
			pod := podWith(hostPath(base+c.path, c.kind), corev1.VolumeMount{MountPath: "/m", SubPath: c.sub})
			_, err := setUp(v, pod)
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
			if c.made != "" {
				info, err := os.Stat(base + c.made)
				if err != nil {
					t.Fatal(err)
				}
				if is := info.Sys().(*syscall.Stat_t); is.Uid != user.UID || is.Gid != user.Groups[0] {
					t.Errorf("what was made is of %d:%d", is.Uid, is.Gid)
				}
			}
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, made := range []string{"/closed/a", "/closed/f"} {
		if _, err := os.Stat(base + made); err == nil {
			t.Errorf("%s was made", made)
		}
	}
	// The daemon itself is as before.
	if err := os.WriteFile(base+"/others/root", nil, 0o600); err != nil {
		t.Error(err)
	}
}
