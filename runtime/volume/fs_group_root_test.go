package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// TestFSGroupOfPrograms proves that a program that sets its group does not do so with a group that it is given later.
func TestFSGroupOfPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for name, mode := range map[string]uint32{"program": 0o6755, "own": 0o2755} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "own" {
			if err := os.Chown(path, -1, 1234); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	for name, want := range map[string]uint32{"program": 0o775, "own": 0o2775} {
		if err := groupOwns(at, name, 1234); err != nil {
			t.Fatal(err)
		}
		var is unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &is); err != nil || is.Gid != 1234 || is.Mode&0o7777 != want {
			t.Errorf("%s: group %d, mode %o, %v; want mode %o", name, is.Gid, is.Mode&0o7777, err, want)
		}
	}
}

// oneClaim is a claim whose volume is a directory.
type oneClaim string

func (c oneClaim) Claimed(*corev1.Pod, *corev1.Volume) (*corev1.PersistentVolume, error) {
	pv := &corev1.PersistentVolume{}
	pv.Spec.Local = &corev1.LocalVolumeSource{Path: string(c)}
	return pv, nil
}

func (oneClaim) Attach(context.Context, string, string) (string, error) {
	return "", errors.ErrUnsupported
}
func (oneClaim) HoldDevice(string, string) error { return errors.ErrUnsupported }
func (oneClaim) Release(string) error            { return nil }

// TestFSGroupOfAClaimIsAppliedOnce: a restart of the daemon, or a container that is added, repeats the set-up.
func TestFSGroupOfAClaimIsAppliedOnce(t *testing.T) {
	v := newVolumes(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v.node.Claims = oneClaim(dir)
	p := podWith(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
		corev1.VolumeMount{MountPath: "/data"})
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(1234))}
	has := func(group, mode uint32) {
		t.Helper()
		if _, err := v.SetUp(t.Context(), p, ""); err != nil {
			t.Fatal(err)
		}
		var is unix.Stat_t
		if err := unix.Stat(file, &is); err != nil || is.Gid != group || is.Mode&0o7777 != mode {
			t.Errorf("group %d, mode %o, %v; want %d, %o", is.Gid, is.Mode&0o7777, err, group, mode)
		}
	}
	has(1234, 0o660)
	// What a container does.
	asItLikes := func() error { return errors.Join(os.Chown(file, -1, 4321), os.Chmod(file, 0o400)) }
	if err := asItLikes(); err != nil {
		t.Fatal(err)
	}
	has(4321, 0o400)
	v.node.Epoch = "another"
	has(1234, 0o660)
	if err := errors.Join(v.TearDown(context.Background(), "uid"), asItLikes()); err != nil {
		t.Fatal(err)
	}
	has(1234, 0o660)
}
