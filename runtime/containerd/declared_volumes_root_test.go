package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/untrusted"
	"github.com/jobd/jobd/testdata/images"
)

// declaring imports an image of two layers that declares volumes.
func (r *rig) declaring(t *testing.T, places ...string) {
	t.Helper()
	lower, upper := images.NewTree(), images.NewTree()
	lower.Busybox("/bin")
	lower.Text("/data/seed", 0o640, "from below\n")
	lower.Text("/data/hidden", 0o644, "below\n")
	upper.Text("/data/hidden", 0o644, "above\n")
	upper.Dir("/data", 0o1777)
	upper.Link("/data/out", "/etc/passwd")
	upper.Text("/other/seed", 0o644, "of another\n")
	upper.Link("/linked", "/other")
	upper.Link("/escape", "../../../../../../etc")
	upper.Text("/file", 0o644, "a file\n")
	config := v1.Config{Volumes: map[string]struct{}{}}
	for _, place := range places {
		config.Volumes[place] = struct{}{}
	}
	img, err := images.FromLayers(config, []string{"declaring"}, lower, upper)
	if err != nil {
		t.Fatal(err)
	}
	r.image = r.importImage(t, img)
}

// What an image declares to be a volume is a directory of the host with what the image has there, and can be written to on a
// read-only root.
func TestDeclaredVolumes(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		r.declaring(t, "/data/", "/none/there", "relative", "/mine", "/linked", "/escape")
		p := pod("u1", `
			cat /data/seed /data/hidden; readlink /data/out; stat -c %a /data /data/seed
			echo w > /data/written && echo w > /none/there/w && echo w > /relative/w && echo written
			cat /linked/seed; ls /escape; touch /x 2>/dev/null || echo read-only
			grep -c ' /data ' /proc/mounts; grep -q 'overlay /data' /proc/mounts || echo no overlay; ls /mine`)
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr(true)}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mine", MountPath: "/mine"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "mine", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		want := "from below\nabove\n/etc/passwd\n1777\n640\nwritten\nof another\n" +
			"group\nhostname\nhosts\npasswd\nresolv.conf\nread-only\n1\nno overlay"
		status, log := r.run(t, p)
		if status.ExitCode != 0 || log != want {
			t.Errorf("got %+v, log\n%s\nwant\n%s", status, log, want)
		}
		dir, place := r.volumes.LeftDeclared(p, "main", 0, "/data/written")
		content, err := untrusted.Read(dir, "written", untrusted.Beneath, 100)
		if string(content) != "w\n" || err != nil || place != "/data" {
			t.Errorf("what it has left: %q, %v, %q", content, err, place)
		}
		if used, err := r.volumes.DeclaredUsage(t.Context(), "u1", "main", 0); err != nil || used.Inodes < 10 {
			t.Errorf("uses %+v", used)
		}

		// The next attempt has its own, and what was before is gone.
		if _, err := r.volumes.Declared(context.Background(), p, &p.Spec.Containers[0], 1, r.image.Config.Volumes, nil, oci.Files{}); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(r.config.Root, "pods/u1/volumes/declared/*")); len(left) != 1 ||
			filepath.Base(left[0]) != "main.1" {
			t.Errorf("left: %v", left)
		}
		if err := r.volumes.TearDown(context.Background(), "u1"); err != nil {
			t.Error(err)
		}
	})
}

func TestFillingADeclaredVolumeAgain(t *testing.T) {
	r := newRig(t, "")
	r.declaring(t, "/data")
	c := r.container(t, pod("u1", "cat /data/seed; ls /data"), "main")
	dir := filepath.Join(r.config.Root, "pods/u1/volumes/declared/main.0/0")
	if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o600); err != nil { // by a daemon that was killed
		t.Fatal(err)
	}
	r.start(t, c)
	if status := r.wait(t, c.ID); status.ExitCode != 0 || output(t, c.LogPath) != "from below\nhidden\nout\nseed" {
		t.Errorf("got %+v, log %q", status, output(t, c.LogPath))
	}
	if err := os.Remove(filepath.Join(dir, "seed")); err != nil { // by the container
		t.Fatal(err)
	}
	r.start(t, c) // a start in doubt is repeated
	if _, err := os.Stat(filepath.Join(dir, "seed")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the container has removed is there again: %v", err)
	}
	if err := r.volumes.TearDown(context.Background(), "u1"); err != nil {
		t.Error(err)
	}
}

func TestADeclaredVolumeAtAFileIsAnError(t *testing.T) {
	r := newRig(t, "")
	r.declaring(t, "/file")
	c := r.container(t, pod("u1", "true"), "main")
	if _, err := r.Start(context.Background(), c); err == nil || !strings.Contains(err.Error(), "/file: the image has a file there") {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(r.Remove(context.Background(), c.ID), r.volumes.TearDown(context.Background(), "u1")); err != nil {
		t.Error(err)
	}
}
