package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/userns"
	"github.com/jobd/jobd/runtime/volume"
	"github.com/jobd/jobd/testdata/images"
)

// nestedPod is a pod of the volumes a to d, which are emptyDirs, m in memory and h on the host. A mount is written as "a at /a ro".
func nestedPod(uid, host, script string, mounts ...string) *corev1.Pod {
	p := pod(uid, "exec 2>&1; "+script)
	for _, name := range []string{"a", "b", "c", "d"} {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "m", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}})
	for _, text := range mounts {
		words := strings.Fields(text)
		m := corev1.VolumeMount{Name: words[0], MountPath: words[2]}
		for _, option := range words[3:] {
			key, value, _ := strings.Cut(option, "=")
			switch key {
			case "ro":
				m.ReadOnly = true
			case "rro":
				m.ReadOnly, m.RecursiveReadOnly = true, ptr(corev1.RecursiveReadOnlyEnabled)
			case "sub":
				m.SubPath = value
			case "spread":
				m.MountPropagation = ptr(corev1.MountPropagationMode(value))
			}
		}
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, m)
	}
	return p
}

// Whatever is mounted in another volume is there, with its own options and users, by both OCI runtimes.
func TestVolumesInVolumes(t *testing.T) {
	tree := images.NewTree()
	tree.Busybox("/bin")
	for link, to := range map[string]string{"/link": "a", "/far": "/a/b", "/var/run": "/run", "/up": "."} {
		tree.Link(link, to)
	}
	cases := map[string]struct {
		script string
		mounts []string
		fill   func(volume func(name string) string) error // before the start
		log    string
		fails  string // how the start does
		hosts  bool   // not with users of its own
		change func(*specs.Spec)
	}{
		"a directory": {
			script: "echo x > /a/b/f; ls /a /a/b; ls /o",
			mounts: []string{"a at /a", "b at /a/b", "b at /o"}, log: "/a:\nb\n\n/a/b:\nf\nf",
		},
		"three levels": {
			script: "echo x > /a/b/c/d/f; find /a | sort; ls /o", mounts: []string{"a at /a", "b at /a/b", "c at /a/b/c", "d at /a/b/c/d", "d at /o"},
			log: "/a\n/a/b\n/a/b/c\n/a/b/c/d\n/a/b/c/d/f\nf",
		},
		"below directories that are missing": {
			script: "echo x > /a/1/2/3/f; stat -c %u:%g:%a /a/1/2",
			mounts: []string{"a at /a", "b at /a/1/2/3"}, log: "0:0:755",
		},
		"two in one": {
			script: "echo x > /a/b/f; echo y > /a/c/f; cat /a/b/f /a/c/f; ls /a",
			mounts: []string{"a at /a", "b at /a/b", "c at /a/c"}, log: "x\ny\nb\nc",
		},
		"for reading only in another": {
			script: "touch /a/f; touch /a/b/f; ls /a",
			mounts: []string{"a at /a", "b at /a/b ro"}, log: "touch: /a/b/f: Read-only file system\nb\nf",
		},
		"in one for reading only": {
			script: "touch /a/f; touch /a/b/f; ls /a/b",
			mounts: []string{"a at /a ro", "b at /a/b"}, log: "touch: /a/f: Read-only file system\nf",
		},
		"in one that is that with all": {
			script: "touch /a/f; touch /a/b/f; ls /a/b",
			mounts: []string{"h at /a rro", "b at /a/b"}, log: "touch: /a/f: Read-only file system\nf",
		},
		"in memory": {
			script: "touch /a/b/f; ls /a/b; grep -c ' /a/b tmpfs' /proc/mounts",
			mounts: []string{"a at /a", "m at /a/b"}, log: "f\n1",
		},
		"in memory, another one in it": {
			script: "touch /m/b/f; ls /m/b; grep -c ' /m tmpfs' /proc/mounts",
			mounts: []string{"m at /m", "b at /m/b"}, log: "f\n1",
		},
		"in a path of the host": {
			script: "touch /h/b/f; ls /h /h/b",
			mounts: []string{"h at /h", "b at /h/b"}, log: "/h:\nb\nfile\n\n/h/b:\nf",
		},
		"a file at one that is missing": {
			script: "cat /a/x/file; ls /a/x",
			mounts: []string{"a at /a", "h at /a/x/file sub=file"}, log: "host\nfile",
		},
		"a file at one that is there": {
			script: "cat /a/f", mounts: []string{"a at /a", "h at /a/f sub=file"}, log: "host",
			fill: func(volume func(string) string) error {
				return os.WriteFile(filepath.Join(volume("a"), "f"), []byte("other\n"), 0o644)
			},
		},
		"a file at a directory": {
			mounts: []string{"a at /a", "h at /a/f sub=file"}, fails: "not a directory",
			fill: func(volume func(string) string) error { return os.Mkdir(filepath.Join(volume("a"), "f"), 0o755) },
		},
		"the same volume twice": {
			script: "echo x > /a/a/f; find /a | sort",
			mounts: []string{"a at /a", "a at /a/a"}, log: "/a\n/a/a\n/a/a/a\n/a/a/f\n/a/f",
		},
		"a subPath of the same volume": {
			script: "echo x > /a/b/f; find /a | sort",
			mounts: []string{"a at /a", "a at /a/b sub=s"}, log: "/a\n/a/b\n/a/b/f\n/a/s\n/a/s/f",
		},
		"by a symlink of the image": {script: "touch /link/b/f; ls /a/b", mounts: []string{"a at /a", "b at /link/b"}, log: "f"},
		"by one that leads deep into the volume": {
			script: "touch /far/f; ls /a/b", mounts: []string{"a at /a", "b at /far/b", "b at /link/b"}, log: "b\nf",
			fill: func(volume func(string) string) error { return os.Mkdir(filepath.Join(volume("b"), "b"), 0o755) },
		},
		"by an absolute one of the image": {
			script: "touch /var/run/x/f; ls /run/x",
			mounts: []string{"a at /run", "b at /var/run/x"}, log: "f",
		},
		"by a symlink that stays in the volume": {
			script: "touch /a/l/b/f; find /a | sort", mounts: []string{"a at /a", "b at /a/l/b"}, log: "/a\n/a/d\n/a/d/b\n/a/d/b/f\n/a/l",
			fill: func(volume func(string) string) error {
				return errors.Join(os.Mkdir(volume("a")+"/d", 0o755), os.Symlink("d", volume("a")+"/l"))
			},
		},
		"by one that leads out of it": {
			mounts: []string{"a at /a", "b at /a/l"}, fails: "a symlink leads out of the volume at /a",
			fill: func(volume func(string) string) error { return os.Symlink("../bin", volume("a")+"/l") },
		},
		"by an absolute one in it": {
			mounts: []string{"a at /a", "b at /a/l/x"}, fails: "a symlink leads out of the volume at /a",
			fill: func(volume func(string) string) error { return os.Symlink("/bin", volume("a")+"/l") },
		},
		"by one that leads out of a volume in a volume": {
			mounts: []string{"a at /a", "b at /a/b", "c at /a/b/l"}, fails: "a symlink leads out of the volume at /a/b",
			fill: func(volume func(string) string) error { return os.Symlink("../bin", volume("b")+"/l") },
		},
		"by one to nothing": {
			mounts: []string{"a at /a", "b at /a/l"}, fails: "no such file or directory",
			fill: func(volume func(string) string) error { return os.Symlink("nothing", volume("a")+"/l") },
		},
		"shared memory": {
			script: "touch /dev/shm/b/f; ls /dev/shm /dev/shm/b",
			mounts: []string{"m at /dev/shm", "b at /dev/shm/b"}, log: "/dev/shm:\nb\n\n/dev/shm/b:\nf",
		},
		"the pod's own files": {
			script: "head -1 /etc/hosts; cat /etc/hostname; ls /etc",
			mounts: []string{"a at /etc"}, log: "# Kubernetes-managed hosts file.\npod-U\nhostname\nhosts\nresolv.conf",
		},
		"one that covers another": {
			script: "touch /a/f; ls /b",
			mounts: []string{"a at /a", "b at /a", "b at /b"}, log: "f",
		},
		"one that covers another in a volume": {
			script: "touch /a/b/f; ls /c",
			mounts: []string{"a at /a", "b at /a/b", "c at /a/b", "c at /c"}, log: "f",
		},
		"at the root, by a symlink of the image": {mounts: []string{"a at /up"}, fails: "a symlink of the image leads to its root"},
		"on a root for reading only": {
			script: "touch /f || touch /a/f /a/b/f; ls /a /a/b", mounts: []string{"a at /a", "b at /a/b"},
			log:    "touch: /f: Read-only file system\n/a:\nb\nf\n\n/a/b:\nf",
			change: func(s *specs.Spec) { s.Root.Readonly = true },
		},
		"a device": {
			mounts: []string{"a at /a"}, fails: "device /a/dev/null: its place is in the volume at /a", hosts: true,
			change: func(s *specs.Spec) {
				s.Linux.Devices = append(s.Linux.Devices, specs.LinuxDevice{Path: "/a/dev/null", Type: "c", Major: 1, Minor: 3})
			},
		},
	}
	ociRuntimes(t, func(t *testing.T, r *rig) {
		img, err := images.New(tree, v1.Config{Env: []string{"PATH=/bin"}}, "linked:1")
		if err != nil {
			t.Fatal(err)
		}
		r.image = r.importImage(t, img)
		if err := os.Chmod(r.config.State, 0o711); err != nil { // the users of pods pass through it
			t.Fatal(err)
		}
		users, err := userns.Open(userns.Options{
			Dir: layout.State(r.config.State).UserNamespaces(), IDs: userns.IDs{First: 0x7f100000, Count: 2 * userns.Size},
			On: []string{r.config.Root, r.config.State}, Pins: r.Pins(),
		})
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for name, c := range cases {
			for _, own := range []bool{false, true} {
				if own && (c.hosts || users.Supported() != nil) {
					continue
				}
				t.Run(fmt.Sprintf("%s, own users %t", name, own), func(t *testing.T) {
					number++
					uid := fmt.Sprint("u", number)
					host := t.TempDir()
					if err := os.WriteFile(filepath.Join(host, "file"), []byte("host\n"), 0o644); err != nil {
						t.Fatal(err)
					}
					p := nestedPod(uid, host, c.script, c.mounts...)
					changes := []func(*specs.Spec){}
					if c.change != nil {
						changes = append(changes, c.change)
					}
					if own {
						namespace, err := users.SetUp(uid)
						if err != nil {
							t.Fatal(err)
						}
						defer users.TearDown(uid)
						changes = append(changes, in(namespace), func(s *specs.Spec) {
							for i := range s.Mounts {
								if m := &s.Mounts[i]; m.Type == "bind" {
									m.UIDMappings, m.GIDMappings = s.Linux.UIDMappings, s.Linux.UIDMappings
								}
							}
						})
					}
					if c.fill != nil {
						if _, err := r.volumes.SetUp(t.Context(), p, ""); err != nil {
							t.Fatal(err)
						}
						if err := c.fill(func(name string) string {
							return filepath.Join(r.config.Root, "pods", uid, "volumes/emptydir", name)
						}); err != nil {
							t.Fatal(err)
						}
					}
					status, log := r.run(t, p, changes...)
					if c.fails != "" {
						if status.ExitCode != 128 || !strings.Contains(status.StartError, c.fails) {
							t.Errorf("%+v, want %q", status, c.fails)
						}
					} else if status.ExitCode != 0 && !strings.Contains(log, "Read-only") || log != strings.ReplaceAll(c.log, "pod-U", "pod-"+uid) {
						t.Errorf("%+v\n%s\nwant\n%s", status, log, c.log)
					}
					if err := r.volumes.TearDown(context.Background(), uid); err != nil {
						t.Error(err)
					}
				})
			}
		}
	})
}

// What is mounted on the host later comes to a volume in a volume that asks for that, and to no other.
func TestMountsSpreadToVolumesInVolumes(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		host := sharedMount(t)
		const wait = "while [ ! -e /seen/later/go ]; do sleep 0.02; done; ls -d /a/*/later/go"
		for name, c := range map[string]struct{ mounts, want string }{
			"in one that does not": {"h at /seen spread=HostToContainer,a at /a,h at /a/slave spread=HostToContainer,h at /a/private", "/a/slave/later/go"},
			"in one that does":     {"h at /seen spread=HostToContainer,h at /a spread=HostToContainer,a at /a/b,h at /a/b/slave spread=HostToContainer", "1"},
		} {
			t.Run(name, func(t *testing.T) {
				script := wait
				if c.want == "1" {
					script = strings.Replace(wait, "ls -d /a/*/later/go", "ls /a/later/go /a/b/slave/later/go | wc -l | sed s/2/1/", 1)
				}
				uid := strings.ReplaceAll(name, " ", "-")
				p := nestedPod(uid, host, script, strings.Split(c.mounts, ",")...)
				ctr := r.container(t, p, "main")
				r.start(t, ctr)
				if err := errors.Join(unix.Mount("none", host+"/later", "tmpfs", 0, ""), os.WriteFile(host+"/later/go", nil, 0o644)); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(5*time.Second, func() { _ = r.SignalOnce(context.Background(), ctr.ID, unix.SIGKILL) })
				status := r.wait(t, ctr.ID)
				if log := output(t, ctr.LogPath); status.ExitCode != 0 || log != c.want {
					t.Errorf("%+v\n%s\nwant %s", status, log, c.want)
				}
				if err := errors.Join(unix.Unmount(host+"/later", 0), r.volumes.TearDown(context.Background(), uid)); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// Bidirectional volumes, which only privileged containers have, are left to the OCI runtime with what is in them, and spread no others.
func TestVolumesBesideThoseThatSpreadToTheHost(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		host := sharedMount(t)
		for i, c := range []struct {
			script, log string
			mounts      []string
		}{
			{
				"touch /h/f /a/b/f; ls /a /a/b; grep -c ' /a/b ' /proc/self/mountinfo", "/a:\nb\n\n/a/b:\nf\n1",
				[]string{"a at /a", "b at /a/b", "h at /h spread=Bidirectional"},
			},
			{"touch /h/b/f; ls /h/b", "f", []string{"h at /h spread=Bidirectional", "b at /h/b"}},
		} {
			uid := fmt.Sprint("u", i)
			p := nestedPod(uid, host, c.script, c.mounts...)
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
			if status, log := r.run(t, p); status.ExitCode != 0 || log != c.log {
				t.Errorf("%+v\n%s\nwant\n%s", status, log, c.log)
			}
			if list, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(list), "/containers/"+uid) {
				t.Errorf("left on the host, %v:\n%s", err, list)
			}
			if err := r.volumes.TearDown(context.Background(), uid); err != nil {
				t.Error(err)
			}
		}
	})
}

// What the host forbids on a mount stays forbidden, whichever volume is in the other.
func TestRestrictionsOfVolumesInVolumes(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		host := sharedMount(t)
		if err := unix.Mount("", host, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			t.Fatal(err)
		}
		p := nestedPod("u", host, "grep -c ' /a/h tmpfs rw,nosuid,nodev,noexec' /proc/mounts; grep -c ' /h tmpfs rw,nosuid,nodev,noexec' /proc/mounts;"+
			"grep ' /h/b ' /proc/mounts | grep -c no[sde]", "a at /a", "h at /a/h", "h at /h", "b at /h/b")
		if status, log := r.run(t, p); log != "1\n1\n0" {
			t.Errorf("%+v\n%s", status, log)
		}
		if err := r.volumes.TearDown(context.Background(), "u"); err != nil {
			t.Error(err)
		}
	})
}

// sharedMount makes a file system of the host that is shared, with a directory "later".
func sharedMount(t *testing.T) string {
	t.Helper()
	host, err := os.MkdirTemp("/var/tmp", "jobd-test.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(host) })
	if err := errors.Join(
		unix.Mount("none", host, "tmpfs", 0, ""), unix.Mount("", host, "", unix.MS_SHARED, ""), os.Mkdir(host+"/later", 0o755),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what was mounted in it by a container stays, as in a cluster
		if err := volume.UnmountBelow(host); err != nil {
			t.Error(err)
		}
		_ = unix.Unmount(host, unix.MNT_DETACH)
	})
	return host
}

// Who has the volume that another one is mounted in puts a symlink in the way all the time. Nothing is made on the host, or mounted
// anywhere else in the container.
func TestSymlinksInTheWayOfVolumes(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		base, err := os.MkdirTemp("/var/tmp", "jobd-test.")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(base) })
		shared, outside := filepath.Join(base, "shared"), filepath.Join(base, "outside")
		for _, dir := range []string{shared, outside, shared + "/way"} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(outside, shared+"/link"); err != nil {
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
					_ = unix.Renameat2(unix.AT_FDCWD, shared+"/way", unix.AT_FDCWD, shared+"/link", unix.RENAME_EXCHANGE)
				}
			}
		}()
		const starts = 100
		ran := 0
		for i := range starts {
			uid := fmt.Sprint("u", i)
			p := nestedPod(uid, shared, "grep -c "+outside+" /proc/mounts", "h at /v", fmt.Sprintf("a at /v/way/%d/x", i))
			status, log := r.run(t, p)
			switch {
			case status.ExitCode == 128 && strings.Contains(status.StartError, "the volume at /v: "):
			case status.ExitCode != 1 || log != "0":
				t.Errorf("%+v: %s", status, log)
			default:
				ran++
			}
			if err := r.volumes.TearDown(context.Background(), uid); err != nil {
				t.Error(err)
			}
		}
		close(stop)
		<-stopped
		t.Logf("%d of %d have started", ran, starts)
		if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
			t.Errorf("made on the host: %d, %v", len(made), err)
		}
	})
}

// A file system in which volumes are mounted need not answer. The start is given up, again and again, and holds up no other one.
func TestVolumesInASilentVolume(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		r.Close()
		r.config.RuntimeTimeout = time.Second
		r.open(t)
		host, server := t.TempDir(), -1
		silence := func(*specs.Spec) {
			fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Skip(err)
			}
			server = fd
			if err := unix.Mount("silent", host, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)); err != nil {
				t.Skip(err)
			}
		}
		const starts = 3
		for i := range starts {
			c := r.container(t, nestedPod(fmt.Sprint("u", i), host, "true", "h at /v", "a at /v/x/y"), "main", silence)
			if status := r.start(t, c); !strings.Contains(status.StartError, "has not come to an end within 1s") {
				t.Errorf("%+v", status)
			}
			if status, _ := r.run(t, pod(fmt.Sprint("other", i), "true")); status.ExitCode != 0 {
				t.Errorf("another one: %+v", status)
			}
			unix.Close(server)
			if err := errors.Join(unix.Unmount(host, unix.MNT_DETACH), r.volumes.TearDown(context.Background(), fmt.Sprint("u", i))); err != nil {
				t.Error(err)
			}
		}
	})
}

// What an OCI runtime has at /dev is not made in a volume to which a symlink of the image leads.
func TestAnImageWithItsDevicesInAVolume(t *testing.T) {
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Link("/dev", "/a/dev")
	ociRuntimes(t, func(t *testing.T, r *rig) {
		img, err := images.New(tree, v1.Config{Env: []string{"PATH=/bin"}}, "linked:1")
		if err != nil {
			t.Fatal(err)
		}
		r.image = r.importImage(t, img)
		const want = "mount /dev: a symlink of the image leads into the volume at /a"
		if status, log := r.run(t, nestedPod("u", t.TempDir(), "true", "a at /a")); !strings.Contains(status.StartError, want) {
			t.Errorf("%+v %s, want %s", status, log, want)
		}
	})
}

// The shard is killed when some of the volumes are mounted: the process that does it ends too, and nothing stays mounted.
func TestKilledWhileVolumesAreMountedInVolumes(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		host := t.TempDir()
		server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Skip(err)
		}
		p := nestedPod("u1", host, "touch /v/b/f; ls /v /v/h", "a at /v", "b at /v/b", "h at /v/h")
		c := r.container(t, p, "main")
		if err := unix.Mount("silent", host, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", server)); err != nil {
			t.Skip(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := r.Start(context.Background(), c)
			ended <- err
		}()
		of := filepath.Join(r.config.State, "shards")
		nesting := func() (pid int) {
			processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, path := range processes {
				if line, _ := os.ReadFile(path); strings.Contains(string(line), "\x00--nest\x00"+of) {
					_, _ = fmt.Sscanf(path, "/proc/%d/", &pid)
				}
			}
			return pid
		}
		pid, mounts := 0, ""
		for late := time.Now().Add(time.Minute); !strings.Contains(mounts, "/rootfs/v/b "); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("process %d has mounted\n%s", pid, mounts)
			}
			if pid = nesting(); pid != 0 {
				list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
				mounts = string(list)
			}
		}
		if err := unix.Kill(r.shards.at(r.shards.of("u1")).PID(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		untilGone(t, pid)
		<-ended
		if list, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(list), of) {
			t.Errorf("left mounted, %v:\n%s", err, list)
		}
		unix.Close(server)
		if err := unix.Unmount(host, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		if status := r.wait(t, c.ID); status.State != runtime.Lost {
			t.Errorf("%+v", status)
		}
		again := nestedPod("u2", host, "touch /v/b/f; ls /v /v/h", "a at /v", "b at /v/b", "h at /v/h")
		if status, log := r.run(t, again); status.ExitCode != 0 || log != "/v:\nb\nh\n\n/v/h:" {
			t.Errorf("%+v: %s", status, log)
		}
		if err := errors.Join(r.volumes.TearDown(context.Background(), "u1"), r.volumes.TearDown(context.Background(), "u2")); err != nil {
			t.Error(err)
		}
	})
}
