package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podInMemory sets up what a pod has in memory, and returns the places.
func podInMemory(t testing.TB, v *Volumes, uid string) (places []string) {
	t.Helper()
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, corev1.VolumeMount{MountPath: "/m"})
	p.UID = types.UID(uid)
	shm, err := v.SharedMemory(uid)
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := setUp(v, p)
	if err != nil {
		t.Fatal(err)
	}
	return []string{shm, mounts[0].Source}
}

// TestTearDownOfMemory: what is mounted, or still used, in a pod's memory goes as well, and nothing that was mounted there is emptied.
func TestTearDownOfMemory(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, place, other string){
		"nothing else": func(*testing.T, string, string) {},
		"files": func(t *testing.T, place, _ string) {
			write(t, filepath.Join(place, "dir", "file"))
		},
		"a mount in it": func(t *testing.T, place, other string) {
			write(t, filepath.Join(place, "dir", "file"))
			if err := unix.Mount(other, filepath.Join(place, "dir"), "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
		},
		"a file open": func(t *testing.T, place, _ string) {
			write(t, filepath.Join(place, "file"))
			f, err := os.Open(filepath.Join(place, "file"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, other := newVolumes(t), t.TempDir()
			write(t, filepath.Join(other, "kept"))
			for _, place := range podInMemory(t, v, "uid") {
				use(t, place, other)
			}
			if err := v.TearDown("uid"); err != nil {
				t.Fatal(err)
			}
			if left, err := mountPoints(v.state); len(left) > 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
			if _, err := os.Stat(v.statePod("uid")); !os.IsNotExist(err) {
				t.Errorf("its directory: %v", err)
			}
			if _, err := os.Stat(filepath.Join(other, "kept")); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkTearDown takes down a pod beside others that run: it costs the same, however many they are.
func BenchmarkTearDown(b *testing.B) {
	for _, others := range []int{0, 500} {
		b.Run(fmt.Sprintf("beside=%d", others), func(b *testing.B) {
			v := newVolumes(b)
			for i := range others {
				podInMemory(b, v, fmt.Sprint("other", i))
			}
			for b.Loop() {
				b.StopTimer()
				podInMemory(b, v, "uid")
				b.StartTimer()
				if err := v.TearDown("uid"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func write(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}
