package images

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestStandInsRun(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short, for chroot")
	}
	for _, c := range []struct {
		name  string
		build func(...string) (Image, error)
		needs string
		run   []string
		want  string
	}{
		{"busybox runs its applets", Busybox, "busybox", []string{"sh", "-c", "echo hello | tr a-z A-Z"}, "HELLO"},
		{"perl computes digits of pi", Perl, "perl", []string{"perl", "-Mbignum=bpi", "-wle", "print bpi(40)"}, "3.141592653589793238462643383279502884197"},
		{"perl has compiled modules", Perl, "perl", []string{"perl", "-MPOSIX", "-we", "print strftime '%Y', gmtime 0"}, "1970"},
		{"python has its library", Python, "python3", []string{"python3", "-c", "import json, ssl, ctypes, random; print(json.dumps([1]))"}, "[1]"},
		{"bash is bash", Bash, "bash", []string{"bash", "-c", "echo ${BASH_VERSION:+bash}; sleep 0; exit 0"}, "bash"},
		{"ubuntu has GNU's coreutils", Ubuntu, "bash", []string{"sh", "-c", "ls --version | head -n1 | cut -d' ' -f3"}, "coreutils)"},
		{"redis-server starts", Redis, "redis-server", []string{"sh", "-c", "redis-server --version | cut -d' ' -f1"}, "Redis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skip("needs " + c.needs)
			}
			img, err := c.build()
			if err != nil {
				t.Fatal(err)
			}
			root := unpack(t, img)
			cmd := exec.Command(c.run[0], c.run[1:]...)
			cmd.Path, cmd.Err = "/bin/"+c.run[0], nil
			cmd.Dir, cmd.Env = "/", []string{searchPath}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
			cmd.Stdin = strings.NewReader("")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != c.want {
				t.Errorf("got %q, %v; want %q", out, err, c.want)
			}
		})
	}
}

func unpack(t *testing.T, img Image) string {
	t.Helper()
	root := t.TempDir()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = extract(filepath.Join(root, h.Name), h, tr)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.Mknod(filepath.Join(root, "dev/null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Skip("needs to make devices: ", err)
	}
	return root
}

func extract(name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, name)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(h.Mode).Perm())
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, r)
	return err
}
