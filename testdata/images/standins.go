package images

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Busybox is Debian's static busybox under the names given, docker.io/library/busybox:latest when there are none.
// Its command is sh.
func Busybox(names ...string) (Image, error) {
	t := NewTree()
	t.Busybox("/bin")
	t.Dir("/usr/bin", 0o755)
	t.Link("/usr/bin/env", "../../bin/busybox")
	return New(t, v1.Config{Env: []string{searchPath}, Cmd: []string{"sh"}}, or(names, "docker.io/library/busybox:latest")...)
}

// Pause stands in for registry.k8s.io/pause: it sleeps until it is told to end, and then exits with 0.
func Pause(names ...string) (Image, error) {
	t := NewTree()
	t.Busybox("/bin")
	return New(t, v1.Config{Entrypoint: []string{"/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"}},
		or(names, "registry.k8s.io/pause:3.10.2")...)
}

// Perl stands in for docker.io/library/perl:5.34.0: this machine's perl with the modules that bignum and ordinary
// scripts use, and busybox.
func Perl(names ...string) (Image, error) {
	t := merged()
	perl, err := find("perl", "perl")
	if err != nil {
		return Image{}, err
	}
	// Debian 12's own Math::BigFloat dies on bpi(2000); the package's is newer.
	version, err := exec.Command(perl, "-MMath::BigInt", "-e", "print $INC{'Math/BigInt.pm'}").Output()
	if err != nil || !strings.HasPrefix(string(version), "/usr/share/perl5/") {
		return Image{}, errors.Join(errors.New("perl's Math::BigInt is too old to compute pi: apt install libmath-bigint-perl"), err)
	}
	t.Program(perl)
	loaded, err := perlModules(perl)
	if err != nil {
		return Image{}, err
	}
	for _, name := range loaded {
		t.Copy(name)
		t.Libraries(name)
	}
	t.Copy("/usr/share/perl5/Math")
	t.Busybox("/usr/bin")
	return New(t, v1.Config{
		Env: []string{searchPath, "PERL_VERSION=5.34.0"}, Cmd: []string{"perl", "-de0"}, WorkingDir: "/root",
	}, or(names, "docker.io/library/perl:5.34.0")...)
}

// perlModules asks perl for the files it loads for a list of common modules.
func perlModules(perl string) ([]string, error) {
	modules := strings.Fields(`strict warnings utf8 feature bignum bigint bigrat bigfloat integer lib base parent fields
		Math::BigInt Math::BigFloat Math::BigRat Math::Complex Math::Trig POSIX List::Util Scalar::Util Time::HiRes
		Time::Local Data::Dumper File::Basename File::Copy File::Path File::Spec File::Temp Getopt::Long IO::File
		IO::Handle IO::Select IO::Socket::INET Socket Sys::Hostname Storable Encode JSON::PP MIME::Base64 Digest::MD5
		Digest::SHA Text::Wrap Text::ParseWords Tie::Hash Cwd Fcntl Errno Carp Benchmark constant threads`)
	const script = `for (@ARGV) { eval "require $_; 1" or die $@ }
		print map { "$_\n" } grep { m{^/} } values %INC, @DynaLoader::dl_shared_objects`
	out, err := exec.Command(perl, append([]string{"-e", script}, modules...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list perl's modules: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// Python stands in for docker.io/library/python: Debian's python3 with its library, bash and busybox.
func Python(names ...string) (Image, error) {
	return PythonWith(nil, nil, or(names, "docker.io/library/python:latest")...)
}

// PythonWith is Python with Debian's packages of what those modules import, and with files that they need.
func PythonWith(modules, files []string, names ...string) (Image, error) {
	t := merged()
	python, err := find("python3", "python3")
	if err != nil {
		return Image{}, err
	}
	out, err := exec.Command(python, "-I", "-c", "import os, sysconfig; print(os.path.realpath(sysconfig.get_path('stdlib')))").Output()
	if err != nil {
		return Image{}, fmt.Errorf("find python's library: %w", err)
	}
	library := strings.TrimSpace(string(out))
	t.Program(python)
	without := []string{"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "dist-packages",
		"config-3.11-x86_64-linux-gnu"}
	if len(modules) == 0 {
		without = append(without, "distutils")
	}
	t.Copy(library, without...)
	t.Link("/usr/bin/python", "python3")
	extensions, err := os.ReadDir(path.Join(library, "lib-dynload"))
	if err != nil {
		return Image{}, err
	}
	for _, e := range extensions {
		t.Libraries(path.Join(library, "lib-dynload", e.Name()))
	}
	if len(modules) > 0 {
		imported, err := pythonPackages(python, modules)
		if err != nil {
			return Image{}, err
		}
		for _, name := range imported {
			t.Copy(name)
			if strings.HasSuffix(name, ".so") {
				t.Libraries(name)
			}
			about, err := filepath.Glob(name + "-*.*-info")
			if err != nil {
				return Image{}, err
			}
			for _, dir := range about { // by which programs find themselves
				t.Copy(dir)
			}
		}
	}
	for _, name := range files {
		t.Copy(name)
	}
	t.Program("/bin/bash")
	t.Busybox("/usr/bin")
	return New(t, v1.Config{Env: []string{searchPath}, Cmd: []string{"python3"}}, names...)
}

// pythonPackages asks python where the packages are that modules import, and the native libraries in them.
func pythonPackages(python string, modules []string) ([]string, error) {
	const script = `import importlib, os, sys
for name in sys.argv[1:]: importlib.import_module(name)
files = {m.__file__ for m in list(sys.modules.values()) if "/dist-packages/" in (getattr(m, "__file__", None) or "")}
tops = {f.partition("/dist-packages/")[0] + "/dist-packages/" + f.partition("/dist-packages/")[2].split("/")[0] for f in files}
print("\n".join(sorted(tops | {f for f in files if f.endswith(".so")})))`
	cmd := exec.Command(python, append([]string{"-c", script}, modules...)...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %q import: %w: %s", modules, err, &complaints)
	}
	return strings.Fields(string(out)), nil
}

// Bash stands in for docker.io/library/bash: this machine's bash and busybox.
func Bash(names ...string) (Image, error) {
	t := merged()
	t.Program("/bin/bash")
	t.Busybox("/usr/bin")
	t.Link("/usr/local/bin/bash", "/usr/bin/bash")
	return New(t, v1.Config{Env: []string{searchPath}, Cmd: []string{"bash"}}, or(names, "docker.io/library/bash:latest")...)
}

// Ubuntu stands in for docker.io/library/ubuntu: this machine's bash and coreutils; what else a script calls is
// busybox's.
func Ubuntu(names ...string) (Image, error) {
	t := merged()
	t.Program("/bin/bash")
	t.Program("/bin/sh")
	out, err := exec.Command("dpkg", "-L", "coreutils").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list coreutils' files: %w", err)
	}
	for _, name := range strings.Fields(string(out)) {
		if strings.HasSuffix(path.Dir(name), "/bin") && executable(name) {
			t.Program(name)
		}
	}
	t.Busybox("/usr/bin")
	return New(t, v1.Config{Env: []string{searchPath}, Cmd: []string{"/bin/bash"}}, or(names, "docker.io/library/ubuntu:latest")...)
}

// Redis stands in for docker.io/library/redis: Debian's redis-server and redis-cli, open to the network as that
// image is.
func Redis(names ...string) (Image, error) {
	t := merged()
	server, err := find("redis-server", "redis-server")
	if err != nil {
		return Image{}, err
	}
	client, err := find("redis-cli", "redis-tools")
	if err != nil {
		return Image{}, err
	}
	t.Program(server)
	t.Program(client)
	t.Dir("/data", 0o755)
	t.Busybox("/usr/bin")
	return New(t, v1.Config{
		Env: []string{searchPath}, Cmd: []string{"redis-server", "--protected-mode", "no"}, WorkingDir: "/data",
		ExposedPorts: map[string]struct{}{"6379/tcp": {}},
	}, or(names, "docker.io/library/redis:latest")...)
}

// merged is a tree whose /bin, /sbin and /lib are links into /usr, as on the machines that the programs come from.
func merged() *Tree {
	t := NewTree()
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		t.Dir("/usr/"+dir, 0o755)
		t.Link("/"+dir, "usr/"+dir)
	}
	return t
}

func or(names []string, name string) []string {
	if len(names) == 0 {
		return []string{name}
	}
	return names
}
