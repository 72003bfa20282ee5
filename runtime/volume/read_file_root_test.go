package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
)

func TestReadFileOfAPod(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/data"})
	mounts, err := v.SetUp(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := mounts["main"][0].Source
	secret := filepath.Join(t.TempDir(), "secret")
	for path, content := range map[string]string{
		secret: "secret", filepath.Join(dir, "plain"): "plain", filepath.Join(dir, "large"): strings.Repeat("x", maxEnvFile+1),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "dir"), 0o700), os.Symlink("../plain", filepath.Join(dir, "dir", "link")),
		os.Symlink(secret, filepath.Join(dir, "out")), os.Symlink("../../../../../../../../../../"+secret, filepath.Join(dir, "up")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"plain": "plain", "dir/link": "plain", "large": "", "out": "", "up": "", "pipe": "", "dir": "", "plain/x": "", "none": "",
	} {
		content, err := v.ReadFile(p, "v", path)
		if (err == nil) != (want != "") || string(content) != want {
			t.Errorf("%s: %q, %v", path, content, err)
		}
		if missing := path == "none" || path == "plain/x"; errdefs.IsNotFound(err) != missing {
			t.Errorf("%s is missing: %v, but %v", path, missing, err)
		}
	}
	if _, err := v.ReadFile(p, "other", "plain"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("another volume: %v", err)
	}
}
