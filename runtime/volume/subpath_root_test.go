package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSubPath(t *testing.T) {
	v := newVolumes(t)
	dir := t.TempDir()
	for path, target := range map[string]string{"out": "/etc", "up": "../..", "in": "real", "abs": dir + "/real"} {
		if err := os.Symlink(target, filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "real", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "real", "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sub string
		refused   bool
		sees      string // a file in it
	}{
		{"a directory", "real", false, "file"},
		{"a file", "real/file", false, ""},
		{"a symlink that stays inside", "in", false, "file"},
		{"what is missing is made", "new/er/dir", false, ""},
		{"a symlink to elsewhere", "out", true, ""},
		{"below a symlink to elsewhere", "out/ssl", true, ""},
		{"a symlink upwards", "up", true, ""},
		{"an absolute symlink, even to the inside", "abs", true, ""},
		{"upwards by itself", "../x", true, ""},
		{"upwards in the middle", "real/../../x", true, ""},
		{"an absolute path", "/etc", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer v.TearDown(context.Background(), "uid")
			p := podWith(hostPath(dir, corev1.HostPathDirectory), corev1.VolumeMount{MountPath: "/m", SubPath: c.sub})
			mounts, err := setUp(v, p)
			if c.refused {
				if err == nil || !strings.Contains(err.Error(), "not within volume path") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if again, err := setUp(v, p); err != nil || again[0].Source != mounts[0].Source {
				t.Errorf("set up again: %v", err)
			}
			if _, err := os.Stat(filepath.Join(mounts[0].Source, c.sees)); err != nil {
				t.Error(err)
			}
		})
	}
	if content, err := os.ReadFile(filepath.Join(dir, "real", "file")); err != nil || string(content) != "content" {
		t.Errorf("the host's own file went with the pod: %v", err)
	}
}

func TestSubPathIsWhatAnInitContainerHasMade(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/file", SubPath: "file"})
	whole, err := v.SetUp(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(whole["main"][0].Source+"/file", []byte("made"), 0o600); err != nil {
		t.Fatal(err)
	}
	mounts, err := v.Within(p, &p.Spec.Containers[0], whole["main"])
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(mounts[0].Source); string(content) != "made" {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestSubPathOfAContainerStartedAgainIsWhatIsThereThen(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/m", SubPath: "sub"})
	whole, err := v.SetUp(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(whole["main"][0].Source, "sub")
	start := func() string {
		t.Helper()
		mounts, err := v.Within(p, &p.Spec.Containers[0], whole["main"])
		if err != nil {
			t.Fatal(err)
		}
		return mounts[0].Source
	}
	write := func(path, content string) {
		t.Helper()
		fresh := path + ".new" // so that it is another file
		if err := errors.Join(os.WriteFile(fresh, []byte(content), 0o600), os.Rename(fresh, path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, content := range []string{"one", "two"} {
		write(sub, content)
		if got, err := os.ReadFile(start()); string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := errors.Join(os.Remove(sub), os.Mkdir(sub, 0o700)); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(sub, "file"), "three")
	for range 2 {
		if got, err := os.ReadFile(filepath.Join(start(), "file")); string(got) != "three" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Fatal(err)
	}
	if left, err := mountPoints(v.state); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestSubPathsThatAreTheSameAreMountedOnce(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/m"})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = nil
	for i, sub := range []string{"a", "b", "a", "./a", "a/", "b/../a", "a/c", "", "b"} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: fmt.Sprint("/m", i), SubPath: sub, ReadOnly: i == 2})
	}
	for range 2 { // starts
		mounts, err := setUp(v, p)
		if err != nil {
			t.Fatal(err)
		}
		for i, first := range []int{0, 1, 0, 0, 0, 0, 6, 7, 1} {
			if mounts[i].Source != mounts[first].Source || mounts[i].Destination != fmt.Sprint("/m", i) {
				t.Errorf("%d is %+v, %d is %+v", i, mounts[i], first, mounts[first])
			}
		}
		if got := mounts[2].Options; got[len(got)-1] != "ro" {
			t.Errorf("options %v", got)
		}
		if shown, err := mountPoints(v.statePod("uid")); err != nil || len(shown) != 3 {
			t.Errorf("%d mounts of the host, %v", len(shown), err)
		}
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Error(err)
	}
}
