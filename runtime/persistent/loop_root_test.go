package persistent

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestLoop(t *testing.T) {
	for _, kind := range fsTypes() {
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
			if used, err := v.Usage(context.Background(), spec.Name); err != nil || used.Capacity < large*3/4 || used.Available < large/4 && large > size ||
				used.Used > size {
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
			if used, err := v.Usage(context.Background(), spec.Name); err != nil || used.Capacity < size*5/2 {
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
