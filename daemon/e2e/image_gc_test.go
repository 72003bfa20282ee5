package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/registry"
)

// busyboxWith returns a busybox image that is a different one for each content.
func busyboxWith(t *testing.T, content string) v1.Image {
	t.Helper()
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Text("/content", 0o644, content)
	image, err := images.New(tree, v1.Config{Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// noise returns content that does not compress.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

func onePod(name, image, command string) string {
	return fmt.Sprintf(
		`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: %q, command: [sh, -c, %q]}]}}`,
		name, image, command,
	)
}

func succeeded(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }
func runs(p *corev1.Pod) bool      { return p.Status.Phase == corev1.PodRunning }

// An image that no pod uses is removed after its time; one that a pod runs, or that was imported by hand, stays.
func TestImagesGoByAge(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{})
	used, _ := r.Push(t, busyboxWith(t, "used"), "used:1")
	idle, _ := r.Push(t, busyboxWith(t, "idle"), "idle:1")
	d := start(t, "--minimum-image-ttl-duration", "1s", "--image-maximum-gc-age", "2s")
	d.apply(onePod("used", used, "sleep 1000"))
	d.apply(onePod("idle", idle, "true"))
	d.podUntil("idle", "has succeeded", succeeded)
	d.eventually("the idle image is gone, and the Node shows the others", func() error {
		if list := d.jobctl("image", "list"); strings.Contains(list, idle) || !strings.Contains(list, used) || !strings.Contains(list, "busybox:1.36") {
			return fmt.Errorf("images:\n%s", list)
		}
		list, err := d.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if shown := fmt.Sprint(list.Items[0].Status.Images); strings.Contains(shown, idle) || !strings.Contains(shown, used) ||
			!strings.Contains(shown, "busybox:1.36") {
			return fmt.Errorf("the Node has %s", shown)
		}
		return nil
	})
	d.podUntil("used", "runs", runs)
	if out := d.jobctl("exec", "used", "--", "cat", "/content"); out != "used" {
		t.Errorf("the running pod reads %q", out)
	}
	// An image that was removed is pulled again when it is wanted.
	d.apply(onePod("again", idle, "true"))
	d.podUntil("again", "has succeeded", succeeded)
}

// smallDisk returns a directory on a file system of its own, of that many megabytes.
func smallDisk(t *testing.T, megabytes int, options ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "jobd-e2e-disk.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, strings.Join(append(options, "mode=0755", "size="+strconv.Itoa(megabytes)+"m"), ",")); err != nil {
		t.Skip("needs a tmpfs: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill leaves that many megabytes of a disk free.
func fill(t *testing.T, dir string, leave int) {
	t.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	size := int64(disk.Bavail)*disk.Bsize - int64(leave)<<20
	f, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		t.Fatal(err)
	}
}

// A pod whose image does not fit on the disk gets it once unused images are gone.
func TestImagesGoWhenTheDiskIsFull(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{})
	old, _ := r.Push(t, busyboxWith(t, "old"+noise(20<<20)), "old:1")
	fresh, _ := r.Push(t, busyboxWith(t, "new"+noise(16<<20)), "new:1")
	disk := smallDisk(t, 256)
	d := startIn(t, disk, "--minimum-image-ttl-duration", "0s", "--image-gc-high-threshold", "85", "--image-gc-low-threshold", "50", "--eviction-hard", "")
	d.apply(onePod("old", old, "true"))
	d.podUntil("old", "has succeeded", succeeded)
	fill(t, disk, 12)
	d.apply(onePod("full", fresh, "true"))
	d.eventually("the old image has gone", func() error {
		if list := d.jobctl("image", "list"); strings.Contains(list, old) {
			return fmt.Errorf("images:\n%s", list)
		}
		return nil
	})
	d.apply(onePod("new", fresh, "true"))
	d.podUntil("new", "has succeeded", succeeded)
	// The rest of the disk holds no images: it stays too full, now for the second time.
	d.apply(onePod("again", old, "true"))
	d.eventually("events say what was wrong", func() error {
		events := d.jobctl("get", "events")
		for _, want := range []string{"no space left on device", "FreeDiskSpaceFailed", "ImageGCFailed"} {
			if !strings.Contains(events, want) {
				return fmt.Errorf("none says %q:\n%s", want, events)
			}
		}
		return nil
	})
}
