package persistent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const otherPod = "5d0c7c1b-70a6-4b7c-8b69-0f1f0c9a3f11"

// letGo does what a container can do to a device of which it has a node, be it for reading only.
func letGo(t *testing.T, path string) {
	t.Helper()
	d, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.IoctlSetInt(int(d.Fd()), unix.LOOP_CLR_FD, 0), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// fileOf returns the file that a loop device shows; empty if none.
func fileOf(t *testing.T, device string) string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(file), "\n")
}

// heldBy returns how many devices are held for the pods of a daemon.
func heldBy(t *testing.T, v *Volumes) (n int) {
	t.Helper()
	if err := eachHolder(v.holders(), func(device, uint64) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func attachFor(t *testing.T, v *Volumes, name, pod string) string {
	t.Helper()
	path, err := v.Attach(t.Context(), name, pod)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A device stays what it is for as long as a pod has it, whatever the pod does, and goes with the last one.
func TestDeviceStaysForItsPods(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	spec := Spec{Name: "pvc-4", Type: Loop, Mode: Block, Size: 8 * mib}
	provision(t, v, spec)
	image := filepath.Join(v.dir(spec.Name), imageFile)
	at := attachFor(t, v, spec.Name, testPod)
	for _, pod := range []string{testPod, otherPod, testPod} { // again, as for each container
		if again := attachFor(t, v, spec.Name, pod); again != at {
			t.Fatalf("at %s, then at %s", at, again)
		}
	}
	if n := heldBy(t, v); n != 2 {
		t.Fatalf("%d holders of 2 pods", n)
	}
	shows := func(want string) {
		t.Helper()
		if got := fileOf(t, at); got != want {
			t.Fatalf("%s shows %q, want %q", at, got, want)
		}
	}
	letGo(t, at)
	shows(image)

	// What it shows may have been moved, too.
	d, err := openLoop(loopNumber(t, at))
	if err != nil {
		t.Fatal(err)
	}
	moved := unix.LoopInfo64{Offset: mib, Sizelimit: mib}
	if err := errors.Join(unix.IoctlLoopSetStatus64(int(d.Fd()), &moved), d.Close()); err != nil {
		t.Fatal(err)
	}
	attachFor(t, v, spec.Name, testPod)
	if is, err := os.Open(at); err != nil {
		t.Fatal(err)
	} else if size, err := is.Seek(0, 2); err != nil || size != 8*mib {
		t.Errorf("it shows %d bytes, %v", size, err)
	} else {
		is.Close()
	}

	if err := v.Release(testPod); err != nil {
		t.Fatal(err)
	}
	shows(image)
	letGo(t, at)
	shows(image)
	if err := errors.Join(v.Detach(t.Context(), spec.Name), v.Delete(t.Context(), spec.Name)); err != nil {
		t.Fatal(err)
	}
	if file := fileOf(t, at); !strings.HasSuffix(file, "(deleted)") {
		t.Errorf("it shows %q", file)
	}
	for range 2 {
		if err := v.Release(otherPod); err != nil {
			t.Fatal(err)
		}
	}
	shows("")
	if n := heldBy(t, v); n != 0 {
		t.Errorf("%d holders are left", n)
	}
	if _, err := v.Attach(t.Context(), spec.Name, testPod); !errdefs.IsNotFound(err) {
		t.Errorf("attach: %v", err)
	}
}

func loopNumber(t *testing.T, path string) int {
	t.Helper()
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil {
		t.Fatal(err)
	}
	return int(unix.Minor(is.Rdev))
}

// The host's devices are kept too, and are the host's again afterwards; nothing that is not jobd's is let go of.
func TestDeviceOfTheHostStays(t *testing.T) {
	v := open(t, t.TempDir())
	image := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 8*mib)); err != nil {
		t.Fatal(err)
	}
	d, err := attachLoop(image)
	if err != nil {
		t.Skip(err)
	}
	at := d.Name()
	// Somebody else's device on this one.
	theirs, err := attachLoop(at)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for range 2 {
		if err := v.HoldDevice(at, testPod); err != nil {
			t.Fatal(err)
		}
	}
	letGo(t, at)
	d.Close()
	if err := Clean(filepath.Dir(v.root), filepath.Dir(v.state)); err != nil {
		t.Fatal(err)
	}
	if n := heldBy(t, v); n != 0 {
		t.Errorf("%d holders are left", n)
	}
	if fileOf(t, theirs.Name()) != at || fileOf(t, at) != image {
		t.Errorf("%s shows %q, and %s %q", theirs.Name(), fileOf(t, theirs.Name()), at, fileOf(t, at))
	}
	for name, err := range map[string]error{
		"a file": v.HoldDevice(image, testPod), "no pod": v.HoldDevice(at, ""), "a long pod": v.HoldDevice(at, strings.Repeat("a", 64)),
		"release of no pod": v.Release(""),
	} {
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that ends at any step leaves nothing that Clean, or the end of the pod, cannot put right.
func TestCleanReleasesDevices(t *testing.T) {
	root, state := t.TempDir(), t.TempDir()
	needRoot(t)
	v, err := New(root, state)
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Name: "pvc-5", Type: Loop, Mode: Block, Size: 8 * mib}
	provision(t, v, spec)
	d, err := attachLoop(filepath.Join(v.dir(spec.Name), imageFile))
	if err != nil {
		t.Fatal(err)
	}
	d.Close() // killed before it was held
	if names := attachedFiles(root); len(names) > 0 {
		t.Errorf("left are %v", names)
	}
	attachFor(t, v, spec.Name, testPod)
	if err := Clean(root, state); err != nil {
		t.Fatal(err)
	}
	if names := attachedFiles(root); len(names) > 0 || heldBy(t, v) > 0 {
		t.Errorf("left are %v, and %d holders", names, heldBy(t, v))
	}
}
