package persistent

import (
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
		"ext4 with quotas":                 {kind: "ext4", options: "prjquota", make: []string{"-O", "quota,project", "-E", "quotatype=prjquota"}},
		"ext4 with quotas that are not on": {kind: "ext4", make: []string{"-O", "quota,project", "-E", "quotatype=prjquota"}, warning: "is not mounted with the option prjquota"},
		"ext4 without quotas":              {kind: "ext4", warning: "tune2fs -O project,quota"},
		"xfs with quotas":                  {kind: "xfs", options: "prjquota"},
		"xfs without quotas":               {kind: "xfs", warning: "is not mounted with the option prjquota"},
		"btrfs with quotas":                {kind: "btrfs", prepare: func(t *testing.T, point string) { run(t, "btrfs", "quota", "enable", point) }},
		"btrfs without quotas":             {kind: "btrfs", warning: "`btrfs quota enable`"},
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
					used, err := v.Usage(spec.Name)
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
				if used, err := v.Usage(spec.Name); err != nil || used.Used < 20*mib || used.Capacity < 100*mib {
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
	if used, err := v.Usage("a"); err != nil || used.Used < size/2 || used.InodesUsed < 3 {
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

func TestLoop(t *testing.T) {
	for _, kind := range FSTypes() {
		t.Run(kind, func(t *testing.T) {
			if _, err := exec.LookPath("mkfs." + kind); err != nil {
				t.Skip(err)
			}
			root, state := t.TempDir(), t.TempDir()
			needRoot(t)
			v, err := New(root, state)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = Clean(root, state) })
			const size = 320 * mib
			spec := Spec{Name: "pvc-2", Type: Loop, Size: size, FSType: kind}
			for range 2 {
				if out := provision(t, v, spec); !out.Enforced || out.Warning != "" {
					t.Fatalf("got %+v", out)
				}
			}
			point := attach(t, v, spec.Name)
			if info, err := os.Stat(point); err != nil || info.Mode().Perm() != 0o777 {
				t.Errorf("got %v, %v", info.Mode(), err)
			}
			if got, err := fill(t, filepath.Join(point, "a")); err == nil || got < size/2 || got > size {
				t.Errorf("wrote %d, %v", got, err)
			}
			if err := os.Chmod(point, 0o750); err != nil {
				t.Fatal(err)
			}
			large := int64(2 * size)
			err = v.Expand(t.Context(), spec.Name, large)
			if errors.Is(err, unix.EPERM) && kind == "ext4" && !capable(t, unix.CAP_SYS_RESOURCE) {
				t.Log(err)
				large = size
			} else if err != nil {
				t.Fatal(err)
			}
			if used, err := v.Usage(spec.Name); err != nil || used.Capacity < large*3/4 || used.Available < large/4 && large > size || used.Used > size {
				t.Errorf("usage %+v, %v", used, err)
			}

			// After the daemon, or the host, has gone.
			if err := Clean(root, state); err != nil {
				t.Fatal(err)
			}
			if _, err := findLoop(filepath.Join(v.dir(spec.Name), imageFile)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a loop device is left: %v", err)
			}
			if err := v.Expand(t.Context(), spec.Name, 3*size); err != nil { // while it is not attached
				t.Fatal(err)
			}
			point = attach(t, v, spec.Name)
			if again := attach(t, v, spec.Name); again != point {
				t.Errorf("at %s, then at %s", point, again)
			}
			if info, err := os.Stat(point); err != nil || info.Mode().Perm() != 0o750 {
				t.Errorf("the mode has become %v, %v", info.Mode(), err)
			}
			if used, err := v.Usage(spec.Name); err != nil || used.Capacity < size*5/2 {
				t.Errorf("usage %+v, %v", used, err)
			}
			if info, err := os.Stat(filepath.Join(point, "a")); err != nil || info.Size() < size/2 {
				t.Errorf("the data is gone: %v", err)
			}

			// What is in use is not removed.
			busy, err := os.Open(filepath.Join(point, "a"))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Delete(t.Context(), spec.Name); !errors.Is(err, unix.EBUSY) {
				t.Errorf("delete in use: %v", err)
			}
			busy.Close()
			for range 2 {
				if err := v.Delete(t.Context(), spec.Name); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := v.Attach(t.Context(), spec.Name, testPod); !errdefs.IsNotFound(err) {
				t.Errorf("attach: %v", err)
			}
		})
	}
}

func capable(t *testing.T, capability int) bool {
	var header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

func TestBlock(t *testing.T) {
	root := t.TempDir()
	v := open(t, root)
	spec := Spec{Name: "pvc-3", Type: Loop, Mode: Block, Size: 8 * mib}
	provision(t, v, spec)
	device := attach(t, v, spec.Name)
	if err := os.WriteFile(device, []byte("data"), 0); err != nil {
		t.Fatal(err)
	}
	// Another daemon on the same files, as after a restart.
	if again := attach(t, &Volumes{root: v.root, state: v.state}, spec.Name); again != device {
		t.Errorf("got %s, then %s", device, again)
	}
	if err := v.Expand(t.Context(), spec.Name, 16*mib); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	if size, err := file.Seek(0, 2); err != nil || size != 16*mib {
		t.Errorf("size %d, %v", size, err)
	}
	file.Close()
	if err := v.Detach(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	device = attach(t, v, spec.Name)
	if file, err = os.Open(device); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := file.Read(got); err != nil || string(got) != "data" {
		t.Errorf("got %q, %v", got, err)
	}
	file.Close()
	if err := v.Delete(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if names := attachedFiles(root); len(names) != 1 {
		t.Errorf("a pod that has it must keep it: %v", names)
	}
	if err := v.Release(testPod); err != nil {
		t.Fatal(err)
	}
	if names := attachedFiles(root); len(names) > 0 {
		t.Errorf("loop devices are left: %v", names)
	}
}

func attachedFiles(root string) (out []string) {
	for _, file := range loops() {
		if strings.HasPrefix(file, root) {
			out = append(out, file)
		}
	}
	return out
}

// A process that ends at any step leaves nothing that the next one cannot put right.
func TestWhatAKilledProcessLeaves(t *testing.T) {
	t.Run("without quotas", func(t *testing.T) { whatAKilledProcessLeaves(t, t.TempDir()) })
	t.Run("with quotas", func(t *testing.T) {
		whatAKilledProcessLeaves(t, disk(t, 100*mib, "ext4", "prjquota", "-O", "quota,project", "-E", "quotatype=prjquota"))
	})
}

func whatAKilledProcessLeaves(t *testing.T, root string) {
	for name, leave := range map[string]func(t *testing.T, v *Volumes, dir string){
		"an empty directory": func(t *testing.T, _ *Volumes, dir string) {
			if err := os.Mkdir(dir+unfinished, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a record that is half written": func(t *testing.T, _ *Volumes, dir string) {
			err := errors.Join(os.Mkdir(dir+unfinished, 0o700), os.Mkdir(filepath.Join(dir+unfinished, dataDir), 0o700),
				os.WriteFile(filepath.Join(dir+unfinished, infoFile+"~new"), []byte("{"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
		},
		"all but the name": func(t *testing.T, v *Volumes, dir string) {
			provision(t, v, Spec{Name: "a", Type: Directory, Size: 8 * mib})
			if err := os.Rename(dir, dir+unfinished); err != nil {
				t.Fatal(err)
			}
		},
		"a volume that is being removed": func(t *testing.T, v *Volumes, dir string) {
			out := provision(t, v, Spec{Name: "a", Type: Directory, Size: 8 * mib})
			if err := os.WriteFile(filepath.Join(out.Path, "file"), []byte("of the last life"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(dir, dir+removed); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for then, do := range map[string]func(t *testing.T, v *Volumes){
			"provision": func(t *testing.T, v *Volumes) {
				out := provision(t, v, Spec{Name: "a", Type: Directory, Size: 16 * mib})
				if entries, err := os.ReadDir(out.Path); err != nil || len(entries) > 0 {
					t.Errorf("got %v, %v", entries, err)
				}
				if err := v.Delete(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			},
			"delete": func(t *testing.T, v *Volumes) {
				if err := v.Delete(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			},
			"sweep": func(t *testing.T, v *Volumes) {
				if err := v.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			},
		} {
			t.Run(name+", then "+then, func(t *testing.T) {
				v := open(t, root)
				leave(t, v, v.dir("a"))
				if names, err := v.List(); err != nil || len(names) > 0 {
					t.Errorf("listed: %v, %v", names, err)
				}
				do(t, v)
				if left, err := os.ReadDir(v.root); err != nil || len(left) > 0 {
					t.Errorf("left: %v, %v", left, err)
				}
			})
		}
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
		{nfs: NFS{Server: "host", Path: "/a"}, want: "host:/a AT -o retry=0"},
		{nfs: NFS{Server: "fd00::1", Path: "/", Options: []string{"nfsvers=4.2", "hard"}, ReadOnly: true}, want: "[fd00::1]:/ AT -o retry=0,nfsvers=4.2,hard,ro"},
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
