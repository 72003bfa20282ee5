package volume

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/runtime/untrusted"
)

func newVolumes(t testing.TB) *Volumes {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	dir := t.TempDir()
	v, err := New(filepath.Join(dir, "root"), filepath.Join(dir, "state"), Node{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := UnmountBelow(dir); err != nil {
			t.Error(err)
		}
	})
	return v
}

// setUp returns the mounts of a pod's only container as it is to be started.
func setUp(v *Volumes, p *corev1.Pod) ([]specs.Mount, error) {
	mounts, err := v.SetUp(context.Background(), p, "")
	if err != nil {
		return nil, err
	}
	return v.Within(p, &p.Spec.Containers[0], mounts["main"])
}

func podWith(source corev1.VolumeSource, mount corev1.VolumeMount) *corev1.Pod {
	mount.Name = "v"
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", VolumeMounts: []corev1.VolumeMount{mount}}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: source}},
	}}
	p.Name, p.Namespace, p.UID = "pod", "default", "uid"
	return p
}

func hostPath(path string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

func TestEmptyDir(t *testing.T) {
	for medium, mode := range map[corev1.StorageMedium]uint32{corev1.StorageMediumDefault: 0o2777, corev1.StorageMediumMemory: 0o3777} {
		t.Run("medium "+string(medium), func(t *testing.T) {
			v := newVolumes(t)
			size := resource.MustParse("1Mi")
			p := podWith(
				corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: &size}},
				corev1.VolumeMount{MountPath: "/data", ReadOnly: true},
			)
			group := int64(1234)
			p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
			mounts, err := v.SetUp(t.Context(), p, "")
			if err != nil {
				t.Fatal(err)
			}
			m := mounts["main"][0]
			if m.Destination != "/data" || strings.Join(m.Options, " ") != "rbind rprivate ro" {
				t.Errorf("got %+v", m)
			}
			var stat unix.Stat_t
			if err := unix.Stat(m.Source, &stat); err != nil || stat.Mode&0o7777 != mode || stat.Gid != 1234 {
				t.Errorf("mode %o, group %d, %v", stat.Mode, stat.Gid, err)
			}
			if err := os.WriteFile(m.Source+"/kept", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if medium == corev1.StorageMediumMemory {
				if err := os.WriteFile(m.Source+"/big", make([]byte, 2<<20), 0o600); err == nil {
					t.Error("more than sizeLimit fits")
				}
			}
			again, err := v.SetUp(t.Context(), p, "")
			if err != nil || again["main"][0].Source != m.Source {
				t.Errorf("set up again: %+v, %v", again, err)
			}
			if _, err := os.Stat(m.Source + "/kept"); err != nil {
				t.Error("setting up again lost a file")
			}
			for range 2 {
				if err := v.TearDown(context.Background(), "uid"); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Stat(m.Source); err == nil {
				t.Error("it is still there")
			}
		})
	}
}

func TestHostPathTypes(t *testing.T) {
	v := newVolumes(t)
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "socket")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	missing, dangling := filepath.Join(dir, "missing"), filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		kind  corev1.HostPathType
		want  string // of the error, "": none
		makes string // "dir", "file"
	}{
		{dir, corev1.HostPathUnset, "", ""},
		{file, corev1.HostPathUnset, "", ""},
		{missing, corev1.HostPathUnset, "", "dir"},
		{dir, corev1.HostPathDirectory, "", ""},
		{file, corev1.HostPathDirectory, "hostPath type check failed: " + file + " is not a directory", ""},
		{missing, corev1.HostPathDirectory, "hostPath type check failed: " + missing + " is not a directory", ""},
		{missing, corev1.HostPathDirectoryOrCreate, "", "dir"},
		{file, corev1.HostPathDirectoryOrCreate, "hostPath type check failed: " + file + " is not a directory", ""},
		{file, corev1.HostPathFile, "", ""},
		{dir, corev1.HostPathFile, "hostPath type check failed: " + dir + " is not a file", ""},
		{missing, corev1.HostPathFileOrCreate, "", "file"},
		{dangling, corev1.HostPathFileOrCreate, "hostPath type check failed: " + dangling + " is not a file", ""},
		{dir, corev1.HostPathFileOrCreate, "hostPath type check failed: " + dir + " is not a file", ""},
		{socket, corev1.HostPathSocket, "", ""},
		{file, corev1.HostPathSocket, "hostPath type check failed: " + file + " is not a socket file", ""},
		{"/dev/null", corev1.HostPathCharDev, "", ""},
		{file, corev1.HostPathCharDev, "hostPath type check failed: " + file + " is not a character device", ""},
		{"/dev/null", corev1.HostPathBlockDev, "hostPath type check failed: /dev/null is not a block device", ""},
		{dir, "Odd", "Odd is an invalid volume type", ""},
		{v.root, corev1.HostPathUnset, "hostPath " + v.root + " belongs to jobd itself", ""},
		{v.state + "/pods", corev1.HostPathUnset, "hostPath " + v.state + "/pods belongs to jobd itself", ""},
	} {
		t.Run(string(c.kind)+" "+filepath.Base(c.path), func(t *testing.T) {
			mounts, err := v.SetUp(t.Context(), podWith(hostPath(c.path, c.kind), corev1.VolumeMount{MountPath: "/h"}), "")
			if c.want != "" {
				if want := `MountVolume.SetUp failed for volume "v" : ` + c.want; err == nil ||
					!strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "precondition") {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil || mounts["main"][0].Source != c.path {
				t.Fatalf("got %+v, %v", mounts, err)
			}
			if c.makes != "" {
				info, err := os.Stat(c.path)
				if err != nil || info.IsDir() != (c.makes == "dir") {
					t.Errorf("not made: %v", err)
				}
				os.Remove(c.path)
			}
		})
	}
	t.Run("jobd's own through a symlink", func(t *testing.T) {
		if err := os.MkdirAll(v.root, 0o700); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "link")
		if err := os.Symlink(v.root, link); err != nil {
			t.Fatal(err)
		}
		if _, err := v.SetUp(
			t.Context(), podWith(hostPath(link+"/pods", corev1.HostPathDirectoryOrCreate), corev1.VolumeMount{MountPath: "/h"}),
			"",
		); err == nil {
			t.Error("no error")
		}
	})
}

func TestOnlyRootGetsAtVolumes(t *testing.T) {
	for _, medium := range []corev1.StorageMedium{corev1.StorageMediumDefault, corev1.StorageMediumMemory} {
		t.Run("medium "+string(medium), func(t *testing.T) {
			v := newVolumes(t)
			var err error
			for _, dir := range []string{filepath.Dir(filepath.Dir(v.root)), filepath.Dir(v.root), v.root, v.state, v.rootPod(""), v.statePod("")} {
				if err := os.Chmod(dir, 0o711); err != nil { // as an older jobd has them
					t.Fatal(err)
				}
			}
			if v, err = New(v.root, v.state, v.node); err != nil {
				t.Fatal(err)
			}
			mounts, err := setUp(v, podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}, corev1.VolumeMount{MountPath: "/m"}))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("ls", "-d", v.root, mounts[0].Source)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if got := string(out); !strings.Contains(got, v.root+"\n") || !strings.Contains(got, "Permission denied") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestTearDownBehindASymlinkLeavesTheHostsFiles(t *testing.T) {
	v := newVolumes(t)
	dir := t.TempDir()
	if err := os.MkdirAll(v.state, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(v.state, link); err != nil {
		t.Fatal(err)
	}
	v.state = link
	host := filepath.Join(dir, "host", "sub")
	if err := os.MkdirAll(host, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(host+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := setUp(v, podWith(hostPath(filepath.Dir(host), corev1.HostPathUnset), corev1.VolumeMount{MountPath: "/m", SubPath: "sub"})); err != nil {
		t.Fatal(err)
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(host + "/file"); err != nil {
		t.Error("the host's own file went with the pod")
	}
}

func TestTearDownRefusesWhatIsNoUID(t *testing.T) {
	v := newVolumes(t)
	for _, uid := range []string{"", ".", "..", "a/b", "../x"} {
		if err := v.TearDown(context.Background(), uid); err == nil {
			t.Errorf("%q: no error", uid)
		}
	}
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	v := newVolumes(t)
	yes, both := true, corev1.MountPropagationBidirectional
	mount := func(propagation uintptr) string {
		dir := t.TempDir()
		if err := errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", propagation, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		return dir
	}
	private, shared := mount(unix.MS_PRIVATE), mount(unix.MS_SHARED)
	toShared := filepath.Join(private, "link")
	if err := os.Symlink(shared, toShared); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		source corev1.VolumeSource
		mount  corev1.VolumeMount
		want   string
	}{
		{
			"a configMap that is not there",
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			corev1.VolumeMount{}, `configmap "c" not found`,
		},
		{"an optional one is an empty directory", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Optional: &yes}}, corev1.VolumeMount{}, ""},
		{"a secret that is not there", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}, corev1.VolumeMount{}, `secret "s" not found`},
		{"another type", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}, corev1.VolumeMount{}, "not served"},
		{
			"a medium that nobody knows", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Paper"}},
			corev1.VolumeMount{}, `unknown storage medium "Paper"`,
		},
		{
			"mounts that spread from where the host has none to spread",
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: private}},
			corev1.VolumeMount{MountPropagation: &both}, "it is not a shared mount",
		},
		{
			"it is the mount that the path leads to", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: toShared}},
			corev1.VolumeMount{MountPropagation: &both}, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.mount.MountPath = "/m"
			_, err := v.SetUp(t.Context(), podWith(c.source, c.mount), "")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	v := newVolumes(t)
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/m"})
	p.Spec.HostAliases = []corev1.HostAlias{{IP: "10.1.1.1", Hostnames: []string{"a", "b"}}}
	ndots := "3"
	p.Spec.DNSPolicy = corev1.DNSNone
	p.Spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: []string{"1.2.3.4"}, Searches: []string{"x.y"},
		Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &ndots}},
	}
	c := &p.Spec.Containers[0]
	files, err := v.Files(p, c, 0, FilesOptions{NodeName: "node", PodIPs: []string{"10.0.0.9"}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	hosts := read(files.Hosts)
	for _, line := range []string{"127.0.0.1\tlocalhost\n", "10.0.0.9\tpod\n", "# Entries added by HostAliases.\n10.1.1.1\ta\tb\n"} {
		if !strings.Contains(hosts, line) {
			t.Errorf("%q is missing in\n%s", line, hosts)
		}
	}
	if read(files.Hostname) != "pod\n" || read(files.ResolvConf) != "search x.y\nnameserver 1.2.3.4\noptions ndots:3\n" {
		t.Errorf("got %q, %q", read(files.Hostname), read(files.ResolvConf))
	}
	if info, err := os.Stat(files.TerminationLog); err != nil || info.Mode().Perm() != 0o666 || info.Size() != 0 {
		t.Errorf("termination message: %v, %v", info, err)
	}
	if err := os.WriteFile(files.TerminationLog, []byte("last words"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Files(p, c, 0, FilesOptions{}); err != nil || read(files.TerminationLog) != "last words" {
		t.Errorf("writing them again lost the message: %v", err)
	}
	// One that a container has changed stays; one that a daemon has not finished before it was killed does not.
	if err := errors.Join(os.WriteFile(files.Hostname, []byte("mine"), 0), os.Chmod(files.Hostname, 0o600),
		os.WriteFile(files.Hosts, []byte("127.0"), 0), os.Chmod(files.Hosts, unfinished)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Files(p, c, 0, FilesOptions{NodeName: "node", PodIPs: []string{"10.0.0.9"}}); err != nil {
		t.Fatal(err)
	}
	if read(files.Hostname) != "mine" || read(files.Hosts) != hosts {
		t.Errorf("written again they are %q, %q", read(files.Hostname), read(files.Hosts))
	}
	if info, err := os.Stat(files.Hosts); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("hosts: %v, %v", info, err)
	}
	if used, err := v.Usage(t.Context(), p); err != nil || used.Bytes < 4*4096 || used.Inodes < 4 {
		t.Errorf("they count as %+v", used)
	}
	v.node.Epoch = "2" // the host was rebooted
	anew, err := v.Files(p, c, 0, FilesOptions{PodIPs: []string{"10.0.0.10"}})
	if err != nil || !strings.Contains(read(anew.Hosts), "10.0.0.10\tpod\n") {
		t.Errorf("with another address: %v, %s", err, read(anew.Hosts))
	}
	next, err := v.Files(p, c, 1, FilesOptions{})
	if err != nil || next.TerminationLog == files.TerminationLog {
		t.Errorf("the next start has the same message file: %v", err)
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(files.Hosts); err == nil {
		t.Error("they are still there")
	}
}

func TestOverLimit(t *testing.T) {
	v := newVolumes(t)
	overLimit := func(p *corev1.Pod, unlinked map[string]untrusted.Used) string {
		t.Helper()
		over, err := v.OverLimit(t.Context(), p, unlinked)
		if err != nil {
			t.Fatal(err)
		}
		return over
	}
	limit := resource.MustParse("1Mi")
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}, corev1.VolumeMount{MountPath: "/m"})
	if over := overLimit(p, nil); over != "" {
		t.Errorf("before it is there: %s", over)
	}
	mounts, err := v.SetUp(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := mounts["main"][0].Source
	if err := os.WriteFile(dir+"/a", make([]byte, 700<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	if over := overLimit(p, nil); over != "" {
		t.Errorf("a file with two names counts once: %s", over)
	}
	if err := os.WriteFile(dir+"/c", make([]byte, 700<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/c"); err != nil {
		t.Fatal(err)
	}
	if over := overLimit(p, map[string]untrusted.Used{"v": {Bytes: 700 << 10}}); over == "" {
		t.Error("a file without a name does not count")
	}
	if err := os.WriteFile(dir+"/c", make([]byte, 700<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if over, want := overLimit(p, nil), `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `; over != want {
		t.Errorf("got %q, want %q", over, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if over, err := v.OverLimit(ended, p, nil); over != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("measured for nobody: %q, %v", over, err)
	}
}
