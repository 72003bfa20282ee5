package volume

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a container mounts inside a volume that it sees read-only has its place there before the volume is mounted, and keeps it when
// the files of the volume change.
func TestMountPointsInAVolumeOfFiles(t *testing.T) {
	for _, c := range []struct {
		rule            string
		mount           corev1.VolumeMount // of the volume "other", which has the file "key", or of "scratch", an emptyDir
		dir, file, none string             // what there is in the volume of files
	}{
		{"a directory", corev1.VolumeMount{Name: "scratch", MountPath: "/v/nested"}, "nested", "", ""},
		{"a directory below one that is missing", corev1.VolumeMount{Name: "scratch", MountPath: "/v/x/y/"}, "x/y", "", ""},
		{"a directory in one of the files", corev1.VolumeMount{Name: "scratch", MountPath: "/v/sub/nested"}, "sub/nested", "", ""},
		{"a file", corev1.VolumeMount{Name: "other", MountPath: "/v/nested", SubPath: "key"}, "", "nested", ""},
		{"a file below a directory that is missing", corev1.VolumeMount{Name: "other", MountPath: "/v/x/y", SubPath: "key"}, "x", "x/y", ""},
		{"a file in place of one of the volume's", corev1.VolumeMount{Name: "other", MountPath: "/v/a", SubPath: "key"}, "", "a", ""},
		{"beside the volume", corev1.VolumeMount{Name: "scratch", MountPath: "/vnested"}, "", "", "nested"},
		{"around the volume", corev1.VolumeMount{Name: "scratch", MountPath: "/"}, "", "a", "v"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := newVolumes(t)
			have := &objects{
				configMaps: map[string]map[string]string{"c": {"a": "1", "b": "2"}}, secrets: map[string]map[string][]byte{"s": {"key": nil}},
			}
			v.node.Objects = have
			p := podWith(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: named("c"), Items: []corev1.KeyToPath{{Key: "a", Path: "a"}, {Key: "b", Path: "sub/b"}},
			}}, corev1.VolumeMount{MountPath: "/v"})
			p.Spec.Volumes = append(p.Spec.Volumes,
				corev1.Volume{Name: "other", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, c.mount)
			mounts, err := setUp(v, p)
			if err != nil {
				t.Fatal(err)
			}
			check := func() {
				t.Helper()
				in := func(path string) string { return filepath.Join(mounts[0].Source, path) }
				if info, err := os.Stat(in(c.dir)); err != nil || !info.IsDir() {
					t.Errorf("no directory %s: %v", c.dir, err)
				}
				if info, err := os.Stat(in(c.file)); c.file != "" && (err != nil || !info.Mode().IsRegular()) {
					t.Errorf("no file %s: %v", c.file, err)
				}
				if _, err := os.Lstat(in(c.none)); c.none != "" && err == nil {
					t.Errorf("there is %s", c.none)
				}
			}
			check()
			if c.rule == "a directory in one of the files" {
				return // these are all new when they change
			}
			have.configMaps["c"]["a"] = "3"
			if err := v.Refresh(p); err != nil {
				t.Fatal(err)
			}
			check()
			if got, err := os.ReadFile(filepath.Join(mounts[0].Source, "a")); err != nil || string(got) != "3" {
				t.Errorf("the file is %q, %v", got, err)
			}
		})
	}
}

// A place in an emptyDir that other containers write to is found without following what leads out of it.
func TestMountPointsInAnEmptyDir(t *testing.T) {
	v, outside := newVolumes(t), t.TempDir()
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/v", ReadOnly: true})
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "w", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "w", MountPath: "/v/way/in"})
	whole, err := v.SetUp(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(whole["main"][0].Source, "way")
	if err := os.Symlink(outside, way); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Within(p, &p.Spec.Containers[0], whole["main"]); err == nil {
		t.Error("a symlink leads out of the volume")
	}
	if _, err := os.Lstat(filepath.Join(outside, "in")); err == nil {
		t.Error("a directory was made outside of the volume")
	}
	if err := os.Remove(way); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Within(p, &p.Spec.Containers[0], whole["main"]); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(way, "in")); err != nil || !info.IsDir() {
		t.Error(err)
	}
}
