package containerd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestVolumes(t *testing.T) {
	for _, medium := range []corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory} {
		t.Run("emptyDir is shared between containers, medium "+string(medium), func(t *testing.T) {
			ociRuntimes(t, func(t *testing.T, r *rig) {
				p := pod("u1", "cat /data/file; touch /data/seen")
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}}
				writer := corev1.Container{
					Name: "writer",
					Command: []string{
						"sh", "-c",
						"echo shared > /deep/er/file; while [ ! -e /deep/er/seen ]; do sleep 0.02; done; grep ' /deep/er ' /proc/mounts",
					},
				}
				writer.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/deep/er"}}
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
				p.Spec.Containers = append(p.Spec.Containers, writer)
				w := r.container(t, p, "writer")
				r.start(t, w)
				for {
					on := r.config.Root
					if medium == corev1.StorageMediumMemory {
						on = r.config.State
					}
					if info, err := os.Stat(on + "/pods/u1/volumes/emptydir/data/file"); err == nil && info.Size() > 0 {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				status, log := r.run(t, p)
				if status.ExitCode != 0 || log != "shared" {
					t.Errorf("got %+v, log %q", status, log)
				}
				if status := r.wait(t, w.ID); status.ExitCode != 0 || strings.Contains(output(t, w.LogPath), "tmpfs") != (medium != "") {
					t.Errorf("got %+v, log %q", status, output(t, w.LogPath))
				}
				if err := r.volumes.TearDown(context.Background(), "u1"); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("hostPath, read-only and with subPath", func(t *testing.T) {
		ociRuntimes(t, func(t *testing.T, r *rig) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "in"), []byte("host\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := pod("u1", "cat /ro/in; touch /ro/x 2>/dev/null || echo read-only; echo out > /rw/out; echo sub > /sub/out")
			p.Spec.Volumes = []corev1.Volume{{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
				{Name: "h", MountPath: "/ro", ReadOnly: true}, {Name: "h", MountPath: "/rw"}, {Name: "h", MountPath: "/sub", SubPath: "a/b"},
			}
			status, log := r.run(t, p)
			if status.ExitCode != 0 || log != "host\nread-only" {
				t.Errorf("got %+v, log %q", status, log)
			}
			for file, want := range map[string]string{"out": "out\n", "a/b/out": "sub\n"} {
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", file, got, err)
				}
			}
			if err := r.volumes.TearDown(context.Background(), "u1"); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "a/b/out")); err != nil {
				t.Error("the host's own file went with the pod")
			}
		})
	})
}
