package persistent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// testPod has what tests attach.
const testPod = "0f9b1c6e-5f0e-4d7e-9d0a-3c8f2b1a7e55"

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// disk mounts a file system of its own, and returns where.
func disk(t *testing.T, size int64, kind, options string, makeArgs ...string) string {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	image, point := filepath.Join(dir, "disk"), filepath.Join(dir, "mnt")
	if err := errors.Join(os.Mkdir(point, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, size)); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs."+kind, append(makeArgs, "-q", image)...)
	d, err := attachLoop(image)
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	if err := unix.Mount(d.Name(), point, kind, 0, options); errors.Is(err, unix.ENODEV) {
		t.Skipf("the kernel has no %s", kind)
	} else if errors.Is(err, unix.EINVAL) && options+strings.Join(makeArgs, "") != "" {
		t.Skipf("the kernel has no quotas of %s (for ext4: CONFIG_QFMT_V2)", kind)
	} else if err != nil {
		t.Fatalf("mount %s with %q: %v", kind, options, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(point, 0); err != nil {
			t.Error(err)
		}
	})
	return point
}

func open(t *testing.T, root string) *Volumes {
	t.Helper()
	needRoot(t)
	state := t.TempDir()
	v, err := New(root, state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Clean(root, state); err != nil {
			t.Error(err)
		}
	})
	return v
}

func provision(t *testing.T, v *Volumes, spec Spec) Provisioned {
	t.Helper()
	out, err := v.Provision(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func attach(t *testing.T, v *Volumes, name string) string {
	t.Helper()
	path, err := v.Attach(t.Context(), name, testPod)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// fill writes to a file until it must not, as a container's root does, which has no CAP_SYS_RESOURCE, and returns how much
// that was.
func fill(t *testing.T, path string) (int64, error) {
	t.Helper()
	out, err := exec.Command("setpriv", "--bounding-set=-sys_resource", "dd", "if=/dev/zero", "of="+path, "bs=1M",
		"conv=fsync", "count=4096").CombinedOutput()
	info, statErr := os.Stat(path)
	if statErr != nil {
		t.Fatalf("%v\n%s", statErr, out)
	}
	if err != nil {
		err = errors.New(string(out))
	}
	return info.Size(), err
}

func TestCapacityOfADirectory(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, options string
		make          []string
		prepare       func(t *testing.T, point string)
		warning       string
	}{
		"ext4 with quotas": {kind: "ext4", options: "prjquota", make: []string{"-O", "quota,project", "-E", "quotatype=prjquota"}},
		"ext4 with quotas that are not on": {
			kind: "ext4", make: []string{"-O", "quota,project", "-E", "quotatype=prjquota"},
			warning: "is not mounted with the option prjquota",
		},
		"ext4 without quotas":  {kind: "ext4", warning: "tune2fs -O project,quota"},
		"xfs with quotas":      {kind: "xfs", options: "prjquota"},
		"xfs without quotas":   {kind: "xfs", warning: "is not mounted with the option prjquota"},
		"btrfs with quotas":    {kind: "btrfs", prepare: func(t *testing.T, point string) { run(t, "btrfs", "quota", "enable", point) }},
		"btrfs without quotas": {kind: "btrfs", warning: "`btrfs quota enable`"},
	} {
		t.Run(name, func(t *testing.T) {
			root := disk(t, 400*mib, tc.kind, tc.options, tc.make...)
			if tc.prepare != nil {
				tc.prepare(t, root)
			}
			v := open(t, root)
			spec := Spec{Name: "pvc-1", Type: Directory, Size: 20 * mib}
			for range 2 {
				out := provision(t, v, spec)
				if out.Enforced != (tc.warning == "") || !strings.Contains(out.Warning, tc.warning) {
					t.Fatalf("got %+v, want a warning with %q", out, tc.warning)
				}
			}
			data := attach(t, v, spec.Name)
			if tc.warning == "" {
				for _, size := range []int64{20 * mib, 40 * mib} {
					if err := v.Expand(t.Context(), spec.Name, size); err != nil {
						t.Fatal(err)
					}
					got, err := fill(t, filepath.Join(data, "file"))
					if err == nil || got < size*8/10 || got > size {
						t.Fatalf("wrote %d of %d bytes: %v", got, size, err)
					}
					used, err := v.Usage(context.Background(), spec.Name)
					if err != nil || used.Capacity != size || used.Used < size*8/10 || used.Available > size/5 || used.InodesUsed < 2 {
						t.Errorf("usage %+v, %v", used, err)
					}
				}
				if err := v.Expand(t.Context(), spec.Name, 30*mib); !errdefs.IsInvalidArgument(err) {
					t.Errorf("shrink: %v", err)
				}
			} else {
				if _, err := fill(t, filepath.Join(data, "file")); err == nil || !strings.Contains(err.Error(), "No space left") {
					t.Errorf("no limit: %v", err)
				}
				if used, err := v.Usage(context.Background(), spec.Name); err != nil || used.Used < 20*mib || used.Capacity < 100*mib {
					t.Errorf("usage %+v, %v", used, err)
				}
			}
			for range 2 {
				if err := v.Delete(t.Context(), spec.Name); err != nil {
					t.Fatal(err)
				}
			}
			if names, err := v.List(); err != nil || len(names) > 0 {
				t.Errorf("left: %v, %v", names, err)
			}
			if left, err := os.ReadDir(v.root); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// Two volumes have projects of their own, and a project that something else has is left alone.
func TestProjectsDoNotMeet(t *testing.T) {
	root := disk(t, 100*mib, "ext4", "prjquota", "-O", "quota,project", "-E", "quotatype=prjquota")
	v := open(t, root)
	provision(t, v, Spec{Name: "a", Type: Directory, Size: 8 * mib})
	a, err := readRecord(v.dir("a"))
	if err != nil || a.Project < firstProject {
		t.Fatalf("got %+v, %v", a, err)
	}
	if err := v.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	fd, err := openDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if q, err := projectUsage(fd, a.Project); err != nil || q.BlockHard != 0 {
		t.Errorf("a limit is left: %+v, %v", q, err)
	}
	if err := limitProject(fd, a.Project, mib); err != nil { // another's
		t.Fatal(err)
	}
	provision(t, v, Spec{Name: "a", Type: Directory, Size: 8 * mib})
	if again, err := readRecord(v.dir("a")); err != nil || again.Project == a.Project {
		t.Errorf("got %+v, %v", again, err)
	}
}

// A volume that is copied back from a backup is limited as it was, with what is in it.
func TestRestoredDirectory(t *testing.T) {
	root := disk(t, 100*mib, "ext4", "prjquota", "-O", "quota,project", "-E", "quotatype=prjquota")
	v := open(t, root)
	const size = 20 * mib
	out := provision(t, v, Spec{Name: "a", Type: Directory, Size: size})
	old := filepath.Join(v.dir("a"), "old")
	err := errors.Join(os.Rename(out.Path, old), os.Mkdir(out.Path, 0o777), os.Mkdir(filepath.Join(out.Path, "below"), 0o777),
		os.WriteFile(filepath.Join(out.Path, "below", "half"), make([]byte, size/2), 0o600),
		os.Symlink(root, filepath.Join(out.Path, "link")))
	if err != nil {
		t.Fatal(err)
	}
	data := attach(t, v, "a")
	if used, err := v.Usage(context.Background(), "a"); err != nil || used.Used < size/2 || used.InodesUsed < 3 {
		t.Errorf("usage %+v, %v", used, err)
	}
	if got, err := fill(t, filepath.Join(data, "below", "rest")); err == nil || got > size/2 {
		t.Errorf("wrote %d, %v", got, err)
	}
}

// On btrfs a directory that is not a subvolume is not limited: that would be a limit of all that is around it.
func TestDirectoryThatIsNoSubvolume(t *testing.T) {
	root := disk(t, 400*mib, "btrfs", "")
	run(t, "btrfs", "quota", "enable", root)
	v := open(t, root)
	spec := Spec{Name: "a", Type: Directory, Size: 20 * mib}
	out := provision(t, v, spec)
	if err := errors.Join(os.Remove(out.Path), os.Mkdir(out.Path, 0o777)); err != nil {
		t.Fatal(err)
	}
	if out = provision(t, v, spec); out.Enforced || !strings.Contains(out.Warning, "not a subvolume") {
		t.Errorf("got %+v", out)
	}
	if got, err := fill(t, filepath.Join(root, "around")); got < 100*mib {
		t.Errorf("the file system takes no more than %d bytes: %v", got, err)
	}
	if err := v.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// Removing a volume removes nothing that a pod has put in its way.
func TestDeleteStaysInTheVolume(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	out := provision(t, v, Spec{Name: "a", Type: Directory, Size: mib})
	precious := filepath.Join(t.TempDir(), "precious")
	inside := filepath.Join(out.Path, "mounted")
	err := errors.Join(os.Mkdir(precious, 0o700), os.WriteFile(filepath.Join(precious, "file"), nil, 0o600),
		os.Symlink(precious, filepath.Join(out.Path, "link")), os.Mkdir(inside, 0o700),
		unix.Mount(precious, inside, "", unix.MS_BIND, ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Delete(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("with a mount: %v", err)
	}
	if err := unix.Unmount(filepath.Join(v.dir("a")+removed, dataDir, "mounted"), 0); err != nil {
		t.Fatal(err)
	}
	if err := v.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(precious, "file")); err != nil {
		t.Error(err)
	}
}

func TestSpecs(t *testing.T) {
	v := open(t, t.TempDir())
	for what, spec := range map[string]Spec{
		"name":                {Name: "../a", Type: Directory, Size: mib},
		"neither Directory":   {Name: "a", Type: "Tape", Size: mib},
		"neither Filesystem":  {Name: "a", Type: Loop, Mode: "Stream", Size: mib},
		"not positive":        {Name: "a", Type: Directory},
		"can be of mode":      {Name: "a", Type: Directory, Mode: Block, Size: mib},
		"has a file system":   {Name: "a", Type: Directory, Size: mib, FSType: "ext4"},
		"none of ext4, xfs":   {Name: "a", Type: Loop, Size: mib, FSType: "ntfs"},
		"file system of its ": {Name: "a", Type: Loop, Mode: Block, Size: mib, FSType: "ext4"},
	} {
		if _, err := v.Provision(t.Context(), spec); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: got %v, want something about %q", spec, err, what)
		}
	}
	provision(t, v, Spec{Name: "a", Type: Directory, Size: mib})
	if _, err := v.Provision(t.Context(), Spec{Name: "a", Type: Loop, Size: mib}); !errdefs.IsAlreadyExists(err) {
		t.Errorf("of another type: %v", err)
	}
	if names, err := v.List(); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("listed: %v, %v", names, err)
	}
	// The disk has no room for it, and nothing is left of the attempt.
	_, err := v.Provision(t.Context(), Spec{Name: "b", Type: Loop, Size: 1 << 50})
	if !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "not enough room: 1125899906842624 bytes") {
		t.Errorf("a file of a PiB: %v", err)
	}
	if left, err := os.ReadDir(v.root); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestMissingPrograms(t *testing.T) {
	const want = "no-such-program is not installed on this machine (Debian's package pack has it)"
	err := runProgram(t.Context(), "pack", "no-such-program")
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestMountNFS(t *testing.T) {
	needRoot(t)
	export, programs := t.TempDir(), t.TempDir()
	at := filepath.Join(t.TempDir(), "at")
	// In place of mount.nfs, since not every kernel has NFS: it notes what it is asked for.
	script := "#!/bin/sh\necho \"$@\" > " + programs + "/asked\ncase $1 in down:*) echo timed out >&2; exit 32;; silent:*) sleep 1000 & wait;; esac\n" +
		"exec mount --bind " + export + " \"$2\"\n"
	if err := os.WriteFile(filepath.Join(programs, "mount.nfs"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	t.Cleanup(func() { _ = UnmountNFS(at) })
	for _, tc := range []struct {
		nfs  NFS
		want string
		err  string
	}{
		{nfs: NFS{Server: "host", Path: "/a"}, want: "host:/a AT -o retry=0,nodev,nosuid"},
		{
			nfs:  NFS{Server: "fd00::1", Path: "/", Options: []string{"nfsvers=4.2", "hard"}, ReadOnly: true},
			want: "[fd00::1]:/ AT -o retry=0,nodev,nosuid,nfsvers=4.2,hard,ro",
		},
		{nfs: NFS{Server: "down", Path: "/a"}, err: "mount.nfs: timed out"},
		{nfs: NFS{Server: "-oexec", Path: "/a"}, err: "server"},
		{nfs: NFS{Server: "a b", Path: "/a"}, err: "server"},
		{nfs: NFS{Path: "/a"}, err: "server"},
		{nfs: NFS{Server: "host", Path: "a"}, err: "path"},
		{nfs: NFS{Server: "host", Path: "/a", Options: []string{""}}, err: "option"},
	} {
		for range 2 {
			err := MountNFS(t.Context(), tc.nfs, at)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%+v: got %v, want %q", tc.nfs, err, tc.err)
				}
			} else if err != nil {
				t.Errorf("%+v: %v", tc.nfs, err)
			}
		}
		if tc.want != "" {
			asked, err := os.ReadFile(filepath.Join(programs, "asked"))
			if got := strings.ReplaceAll(strings.TrimSpace(string(asked)), at, "AT"); err != nil || got != tc.want {
				t.Errorf("%+v: got %q, %v, want %q", tc.nfs, got, err, tc.want)
			}
		}
		for range 2 {
			if err := UnmountNFS(at); err != nil {
				t.Error(err)
			}
		}
	}
	err := mountNFS(t.Context(), NFS{Server: "silent", Path: "/a"}, at, 100*time.Millisecond)
	if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "silent:/a has not answered within 100ms") {
		t.Errorf("a silent server: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := os.Stat("/sbin/mount.nfs"); err == nil {
		return
	}
	if err := MountNFS(t.Context(), NFS{Server: "host", Path: "/a"}, at); err == nil || !strings.Contains(err.Error(), "nfs-common") {
		t.Errorf("without the program: %v", err)
	}
}
