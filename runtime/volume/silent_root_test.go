package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Whatever an administrator's pod or a PersistentVolume names, a file system of a user which never answers is not asked.
func TestHostPathsInFileSystemsOfUsers(t *testing.T) {
	v := newVolumes(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	silent := filepath.Join(base, "home", "silent")
	if err := errors.Join(os.MkdirAll(silent, 0o755), os.Symlink(silent, filepath.Join(base, "link"))); err != nil {
		t.Fatal(err)
	}
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { server.Close() }) // which ends every wait for it
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=1000,group_id=1000,allow_other", server.Fd())
	if err := unix.Mount("silent", silent, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(silent, unix.MNT_DETACH) })
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	for _, path := range []string{silent, silent + "/a/b", filepath.Join(base, "link"), filepath.Join(base, "link", "a")} {
		sources := map[string]corev1.VolumeSource{"a local volume": claim}
		for _, kind := range []corev1.HostPathType{
			"", corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFileOrCreate, corev1.HostPathBlockDev,
		} {
			sources[fmt.Sprintf("type %q", kind)] = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: ptr.To(kind)}}
		}
		v.node.Claims = oneClaim(path)
		for name, source := range sources {
			done := make(chan error, 1)
			go func() {
				_, err := v.SetUp(context.Background(), podWith(source, corev1.VolumeMount{MountPath: "/m", ReadOnly: true}), "")
				done <- err
			}()
			select {
			case err := <-done:
				if !errors.Is(err, errdefs.ErrPermissionDenied) {
					t.Errorf("%s, %s: %v", path, name, err)
				}
			case <-time.After(10 * time.Second):
				server.Close()
				t.Fatalf("%s, %s: it is waited for", path, name)
			}
		}
	}
}
