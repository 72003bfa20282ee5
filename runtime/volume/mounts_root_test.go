package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// aHome is a directory of the host in which something is mounted, as a user can by FUSE, at a place below dir.
func aHome(t *testing.T, place string, flags uintptr) (home string) {
	t.Helper()
	home, err := os.MkdirTemp("/var/tmp", "jobd-test.")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(home, place)
	if err := errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", flags, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(UnmountBelow(home), os.RemoveAll(home)); err != nil {
			t.Error(err)
		}
	})
	return home
}

// Whose home is mounted for a pod puts a symlink in the way to what is mounted in it, once the kernel has said where that is. Only the
// pod's mounts go, and what is mounted in them: nothing of the host.
func TestUnmountingLeadsNowhereElse(t *testing.T) {
	v := newVolumes(t)
	home, host := aHome(t, "a/data", 0), aHome(t, "data", 0)
	v.node.HostPaths = allowing(home)
	if _, err := setUp(v, podWith(hostPath(home, corev1.HostPathUnset), corev1.VolumeMount{MountPath: "/m"})); err != nil {
		t.Fatal(err)
	}
	before, err := mountPoints(v.state)
	if err != nil || len(before) != 2 {
		t.Fatalf("for the pod there is %v, %v", before, err)
	}
	// It is renamed while the pod is removed, all the time.
	if err := os.Symlink(host, filepath.Join(home, "b")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(home, "a"), unix.AT_FDCWD, filepath.Join(home, "b"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 50 {
		if err := v.TearDown(context.Background(), "uid"); err != nil {
			t.Error(err)
		}
		if _, err := setUp(v, podWith(hostPath(home, corev1.HostPathUnset), corev1.VolumeMount{MountPath: "/m"})); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-stopped
	if mounted, err := isMountPoint(filepath.Join(host, "data")); err != nil || !mounted {
		t.Errorf("a mount of the host is gone: %v", err)
	}
	if left, err := mountPoints(home); err != nil || len(left) != 1 {
		t.Errorf("in the home there is %v, %v", left, err)
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Error(err)
	}
	if left, err := mountPoints(v.state); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Several mounts at one place go all.
func TestUnmountWhatIsMountedTwice(t *testing.T) {
	dir := aHome(t, "a", 0)
	if err := unix.Mount("tmpfs", filepath.Join(dir, "a"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := UnmountBelow(dir); err != nil {
		t.Error(err)
	}
	if left, err := mountPoints(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// What the host forbids on a mount, a pod cannot do on its mount of that: crun would allow it. Else a user of the host had by
// /proc/PID/root what a file system of theirs says are devices.
func TestRestrictionsOfTheHostsMounts(t *testing.T) {
	v := newVolumes(t)
	home := aHome(t, "in", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	if err := os.MkdirAll(filepath.Join(home, "in", "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	readOnly := aHome(t, "in", 0)
	if err := unix.Mount("", filepath.Join(readOnly, "in"), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	const all = "nodev noexec nosuid"
	for name, c := range map[string]struct{ path, sub, want string }{
		"the mount itself":             {path: home + "/in", want: all},
		"a directory in it":            {path: home + "/in/dir", want: all},
		"a subPath that leads to it":   {path: home, sub: "in", want: all},
		"a subPath that leads into it": {path: home, sub: "in/dir", want: all},
		"what it is in":                {path: home, want: ""}, // it keeps its own options there
		"for reading only":             {path: readOnly + "/in", want: "ro"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, list := range []HostPaths{nil, allowing(home + "," + readOnly)} {
				v.node.HostPaths = list
				got, err := setUp(v, podWith(hostPath(c.path, corev1.HostPathUnset), corev1.VolumeMount{MountPath: "/m", SubPath: c.sub}))
				if err != nil {
					t.Fatal(err)
				}
				kept := slices.DeleteFunc(slices.Sorted(slices.Values(got[0].Options)), func(o string) bool {
					return !slices.Contains([]string{"ro", "nosuid", "nodev", "noexec"}, o)
				})
				if strings.Join(kept, " ") != c.want {
					t.Errorf("with the list %v the options are %q, want %q", list, got[0].Options, c.want)
				}
				if err := v.TearDown(context.Background(), "uid"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A thousand mounts in a home, as a user can have by FUSE, are not mounted once more for each volume that shows it.
func TestMountsInPathsOfTheHostAreBounded(t *testing.T) {
	v := newVolumes(t)
	home := aHome(t, "0", 0)
	v.node.HostPaths = allowing(home)
	for i := range 100 {
		at := filepath.Join(home, "many", strconv.Itoa(i))
		if err := errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, "")); err != nil {
			t.Fatal(err)
		}
	}
	pod := podWith(hostPath(home, corev1.HostPathUnset), corev1.VolumeMount{MountPath: "/m"})
	if _, err := setUp(v, pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers[0].VolumeMounts[0].SubPath = "many"
	if _, err := setUp(v, pod); err != nil {
		t.Fatal(err)
	}
	const words = " mounts are in it"
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/n", SubPath: "."})
	if _, err := setUp(v, pod); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("by a subPath: %v", err)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "w", VolumeSource: hostPath(filepath.Join(home, "many"), corev1.HostPathUnset)})
	if _, err := setUp(v, pod); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("by another volume: %v", err)
	}
	if left, err := mountPoints(v.state); err != nil || len(left) > 256 {
		t.Errorf("there are %d, %v", len(left), err)
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Error(err)
	}
}

// What a user mounts in the home later is not mounted once more for each volume that shows it, where the host's mounts are shared.
func TestMountsOfTheHostDoNotSpread(t *testing.T) {
	v := newVolumes(t)
	home := aHome(t, "shared", 0)
	if err := unix.Mount("", filepath.Join(home, "shared"), "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	v.node.HostPaths = allowing(home)
	later := filepath.Join(home, "shared", "later")
	if err := os.Mkdir(later, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sub  string
		mode corev1.MountPropagationMode
		want int
	}{
		"by default":         {want: 1},
		"by a subPath":       {sub: "later", want: 2},
		"if a pod wants it":  {mode: corev1.MountPropagationHostToContainer, want: 2},
		"for whoever has it": {mode: corev1.MountPropagationNone, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			mount := corev1.VolumeMount{MountPath: "/m", SubPath: c.sub}
			if c.mode != "" {
				mount.MountPropagation = &c.mode
			}
			if _, err := setUp(v, podWith(hostPath(filepath.Join(home, "shared"), corev1.HostPathUnset), mount)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", later, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			if got, err := mountPoints(v.state); err != nil || len(got) != c.want {
				t.Errorf("the pod has %d mounts, want %d: %v", len(got), c.want, err)
			}
			if err := errors.Join(v.TearDown(context.Background(), "uid"), unix.Unmount(later, 0)); err != nil {
				t.Error(err)
			}
		})
	}
}
