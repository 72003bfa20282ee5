package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
			if err := v.TearDown(context.Background(), "uid"); err != nil {
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

// TestTearDownEndsWithTheContext: whoever has a directory of a pod open, from outside or as a process that is left, makes files in it as
// fast as they are removed.
func TestTearDownEndsWithTheContext(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/m"})
	p.UID = "uid"
	mounts, err := setUp(v, p)
	if err != nil {
		t.Fatal(err)
	}
	dir, done := mounts[0].Source, make(chan struct{})
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(dir, name, "first"))
		in, err := unix.Open(filepath.Join(dir, name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if fd, err := unix.Openat(in, fmt.Sprint(i%10_000), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
					unix.Close(fd)
				}
			}
		}()
		defer func() { <-ended; unix.Close(in) }()
	}
	defer close(done)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	err = v.TearDown(ctx, "uid")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
	if err == nil {
		t.Log("it was faster than they were")
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestTearDownForNobody: where the daemon ends, what is left of a pod stays for the next one.
func TestTearDownForNobody(t *testing.T) {
	v := newVolumes(t)
	place := podInMemory(t, v, "uid")[1]
	write(t, filepath.Join(place, "dir", "file"))
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/m"})
	p.UID = "uid"
	mounts, err := setUp(v, p)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(mounts[0].Source, "file"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.TearDown(ended, "uid"); !errors.Is(err, context.Canceled) {
		t.Errorf("for nobody: %v", err)
	}
	if held, err := v.Held(); err != nil || len(held) != 1 {
		t.Errorf("held for the next one: %v, %v", held, err)
	}
	if err := v.TearDown(t.Context(), "uid"); err != nil {
		t.Error(err)
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
				if err := v.TearDown(context.Background(), "uid"); err != nil {
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
