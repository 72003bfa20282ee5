package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/runas"
)

// allowing is the list that every namespace has.
type allowing string

func (a allowing) HostPaths(string) (*hostpath.List, bool, error) {
	ns := &corev1.Namespace{}
	ns.Annotations = map[string]string{hostpath.Annotation: string(a)}
	list, err := hostpath.Of(ns)
	return list, true, err
}

func (allowing) RunAs(string) (*runas.Identity, error) { return nil, nil }

// forbidding stands for namespaces without a list, at a level that forbids volumes of the type hostPath.
type forbidding struct{}

func (forbidding) HostPaths(string) (*hostpath.List, bool, error) { return nil, true, nil }
func (forbidding) RunAs(string) (*runas.Identity, error)          { return nil, nil }

// Symlinks that a pod made while there was a list are not followed once the list is gone.
func TestHostPathsOfANamespaceThatForbidsThem(t *testing.T) {
	v := newVolumes(t)
	v.node.HostPaths = forbidding{}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(base+"/team", 0o755), os.Symlink("/", base+"/team/evil")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path  string
		kind  corev1.HostPathType
		want  string
		shows string
	}{
		{"/", "", "", "/"},
		{base + "/team", corev1.HostPathDirectory, "", base + "/team"},
		{base + "/team/new", corev1.HostPathDirectoryOrCreate, "", base + "/team/new"},
		{base + "/team/evil", "", "there is a symlink in hostPath " + base + "/team/evil", ""},
		{base + "/team/evil/etc", "", "there is a symlink in hostPath " + base + "/team/evil/etc", ""},
		{base + "/team/evil" + base + "/made", corev1.HostPathDirectoryOrCreate, "there is a symlink", ""},
		{base + "/team/none", corev1.HostPathDirectory, "is not a directory", ""},
		{v.root + "/pods", "", "belongs to jobd itself", ""},
	} {
		t.Run(tc.path, func(t *testing.T) {
			mounts, err := setUp(v, podWith(hostPath(tc.path, tc.kind), corev1.VolumeMount{MountPath: "/m"}))
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%v, want %q", err, tc.want)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			shown, err1 := os.Stat(mounts[0].Source)
			path, err2 := os.Stat(tc.shows)
			if err1 != nil || err2 != nil || !os.SameFile(shown, path) {
				t.Errorf("shows something else: %v, %v", err1, err2)
			}
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Fatal(err)
			}
		})
	}
	if _, err := os.Stat(base + "/made"); err == nil {
		t.Error("something was made behind a symlink")
	}
}

func TestAllowedHostPaths(t *testing.T) {
	v := newVolumes(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(base, "data")
	err = errors.Join(
		os.MkdirAll(filepath.Join(data, "team", "a"), 0o755), os.Mkdir(filepath.Join(base, "database"), 0o755),
		os.Mkdir(filepath.Join(data, "scratch"), 0o755), os.WriteFile(filepath.Join(data, "file"), nil, 0o644),
		os.Symlink("team/a", filepath.Join(data, "inside")), os.Symlink("../database", filepath.Join(data, "outside")),
		os.Symlink(base+"/database", filepath.Join(data, "absolute")), os.Symlink(data, filepath.Join(base, "link")),
		os.Symlink("/proc/self/root", filepath.Join(data, "magic")),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, list, path string
		kind             corev1.HostPathType
		want, shows      string
	}{
		{"the path itself", data, data, "", "", data},
		{"below it", data, data + "/team/a", corev1.HostPathDirectory, "", data + "/team/a"},
		{"a file", data, data + "/file", corev1.HostPathFile, "", data + "/file"},
		{"a file alone", data + "/file", data + "/file", "", "", data + "/file"},
		{"a symlink that stays below", data, data + "/inside", "", "", data + "/team/a"},
		{"one that leads out of it", data, data + "/outside", "", "leads out of " + data, ""},
		{"one with an absolute path", data, data + "/absolute", "", "leads out of " + data, ""},
		{"one of the kernel's", data, data + "/magic/etc", "", "hostPath " + data + "/magic/etc", ""},
		{"what would be created behind a symlink", data, data + "/outside/new", corev1.HostPathDirectoryOrCreate, "leads out of " + data, ""},
		{"another name that begins like it", data, base + "/database", "", "not among the paths that the namespace allows: " + data, ""},
		{"dots", data, data + "/../database", "", "not among the paths", ""},
		{"none", "", data, "", "not among the paths that the namespace allows: none", ""},
		{"a symlink on the way to it", base + "/link", base + "/link/team", "", "there is a symlink in that path", ""},
		{"what jobd has", base + "," + v.root, v.root + "/pods", "", "belongs to jobd itself", ""},
		{"what jobd is in", filepath.Dir(v.root), filepath.Dir(v.root), "", "belongs to jobd itself", ""},
		{"a directory that is missing", data, data + "/new/dir", corev1.HostPathDirectoryOrCreate, "", data + "/new/dir"},
		{"a file that is missing", data, data + "/new/file", corev1.HostPathFileOrCreate, "", data + "/new/file"},
		{
			"what is missing and not to be created", data, data + "/none", corev1.HostPathDirectory,
			"hostPath type check failed: " + data + "/none is not a directory", "",
		},
		{"what is of another kind", data, data + "/file", corev1.HostPathDirectory, "hostPath type check failed: " + data + "/file is not a directory", ""},
		{"nothing is created where it may only be read", data + ":ro", data + "/other", corev1.HostPathDirectoryOrCreate, "is not a directory", ""},
		{"writing is allowed higher up", data + "," + data + "/team:ro", data + "/team/a", "", "", data + "/team/a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v.node.HostPaths = allowing(tc.list)
			t.Cleanup(func() {
				if err := v.TearDown(context.Background(), "uid"); err != nil {
					t.Error(err)
				}
			})
			for range 2 { // also after a crash
				mounts, err := v.SetUp(t.Context(), podWith(hostPath(tc.path, tc.kind), corev1.VolumeMount{MountPath: "/h"}), "")
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%v, want %q", err, tc.want)
				}
				if err != nil {
					continue
				}
				m := mounts["main"][0]
				shown, err := os.Stat(m.Source)
				meant, err2 := os.Stat(tc.shows)
				if err != nil || err2 != nil || !os.SameFile(shown, meant) || strings.Join(m.Options, " ") != "rbind rprivate rw" {
					t.Errorf("%+v: %v, %v", m, err, err2)
				}
			}
		})
	}
	if left, err := os.ReadDir(base + "/database"); err != nil || len(left) > 0 {
		t.Errorf("something was created outside: %v, %v", left, err)
	}

	v.node.HostPaths = allowing(data + ":ro")
	mounts, err := v.SetUp(t.Context(), podWith(hostPath(data, ""), corev1.VolumeMount{MountPath: "/h"}), "")
	if err != nil || strings.Join(mounts["main"][0].Options, " ") != "rbind rprivate rro" {
		t.Fatalf("for reading only: %v, %v", mounts, err)
	}
	if _, err := unix.Open(mounts["main"][0].Source+"/mine", unix.O_CREAT|unix.O_WRONLY, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("it can be written to: %v", err)
	}
	p := podWith(hostPath(data, ""), corev1.VolumeMount{MountPath: "/h", ReadOnly: true, SubPath: "made"})
	if _, err := setUp(v, p); !errors.Is(err, unix.EROFS) {
		t.Errorf("a subPath that is missing: %v", err)
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(data+"/mine", nil, 0o600); err != nil {
		t.Errorf("the host cannot write either: %v", err)
	}
}

// A pod that swaps a directory for a symlink while another one starts does not show it what lies outside.
func TestAllowedHostPathsAreNotRaced(t *testing.T) {
	v := newVolumes(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, secret := filepath.Join(base, "data"), filepath.Join(base, "secret")
	err = errors.Join(os.MkdirAll(data+"/x/y", 0o755), os.MkdirAll(secret+"/y", 0o755), os.Symlink(secret, data+"/evil"))
	if err != nil {
		t.Fatal(err)
	}
	v.node.HostPaths = allowing(data)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, data+"/x", unix.AT_FDCWD, data+"/evil", unix.RENAME_EXCHANGE)
			}
		}
	}()
	outside, err := os.Stat(secret + "/y")
	if err != nil {
		t.Fatal(err)
	}
	set := 0
	for range 500 {
		mounts, err := v.SetUp(t.Context(), podWith(hostPath(data+"/x/y", ""), corev1.VolumeMount{MountPath: "/h"}), "")
		if err == nil {
			set++
			if shown, err := os.Stat(mounts["main"][0].Source); err != nil || os.SameFile(shown, outside) {
				t.Fatalf("it shows what lies outside: %v", err)
			}
		}
		if err := v.TearDown(context.Background(), "uid"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
	t.Logf("%d of 500 were set up", set)
}

// What is mounted on the host below a path that a pod has had stays mounted, where mounts are shared as with systemd.
func TestTearDownUnmountsNothingOfTheHosts(t *testing.T) {
	for name, list := range map[string]HostPaths{"subPath": nil, "allowed path": allowing("/")} {
		t.Run(name, func(t *testing.T) {
			v := newVolumes(t)
			host, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if list != nil {
				list = allowing(host)
			}
			v.node.HostPaths = list
			t.Cleanup(func() { _ = unix.Unmount(host, unix.MNT_DETACH) })
			err = errors.Join(
				unix.Mount("tmpfs", host, "tmpfs", 0, ""), unix.Mount("", host, "", unix.MS_SHARED, ""),
				os.MkdirAll(host+"/sub/inner", 0o755), unix.Mount("tmpfs", host+"/sub/inner", "tmpfs", 0, ""),
				os.WriteFile(host+"/sub/inner/precious", nil, 0o600),
			)
			if err != nil {
				t.Fatal(err)
			}
			p := podWith(hostPath(host, ""), corev1.VolumeMount{MountPath: "/m", SubPath: "sub"})
			mounts, err := setUp(v, p)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(mounts[0].Source + "/inner/precious"); err != nil {
				t.Fatalf("what is mounted below is not shown: %v", err)
			}
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(host + "/sub/inner/precious"); err != nil {
				t.Errorf("the host's own mount went with the pod: %v", err)
			}
		})
	}
}
