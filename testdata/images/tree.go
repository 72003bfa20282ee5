package images

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// epoch is the time stamp of everything in an image, so that building it again yields the same digest.
var epoch = time.Date(2022, 5, 4, 0, 0, 0, 0, time.UTC)

// Tree is a root file system in the making. The zero value is not useful: see NewTree.
type Tree struct {
	files map[string]file // by clean absolute path
	err   error           // the first one; everything after it does nothing
}

type file struct {
	mode   fs.FileMode
	link   string // target of a symbolic link
	source string // file of this machine to copy from
	data   []byte // content when there is no source
}

// NewTree returns a tree with the directories and files that every image has.
func NewTree() *Tree {
	t := &Tree{files: map[string]file{}}
	for _, dir := range []string{"/dev", "/etc", "/proc", "/sys", "/run", "/var"} {
		t.Dir(dir, 0o755)
	}
	t.Dir("/root", 0o700)
	t.Dir("/home", 0o755)
	t.Dir("/tmp", 0o1777)
	t.Text("/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")
	t.Text("/etc/group", 0o644, "root:x:0:\nmail:x:8:\nnogroup:x:65534:\n")
	return t
}

// Dir adds a directory. The lower nine bits of mode are its permissions, 0o1000 makes it sticky.
func (t *Tree) Dir(name string, mode uint32) {
	m := fs.FileMode(mode&0o777) | fs.ModeDir
	if mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	t.put(name, file{mode: m})
}

// Text adds a file with the content given.
func (t *Tree) Text(name string, mode fs.FileMode, content string) {
	t.put(name, file{mode: mode, data: []byte(content)})
}

// Place adds a file of this machine under another path, with a mode of its own.
func (t *Tree) Place(name string, mode fs.FileMode, source string) {
	t.put(name, file{mode: mode, source: source})
}

// Link adds a symbolic link.
func (t *Tree) Link(name, target string) {
	t.put(name, file{mode: fs.ModeSymlink | 0o777, link: target})
}

// FIFO adds a named pipe.
func (t *Tree) FIFO(name string) { t.put(name, file{mode: 0o644 | fs.ModeNamedPipe}) }

// Has reports whether the path is there, without following links.
func (t *Tree) Has(name string) bool {
	_, ok := t.files[path.Clean(name)]
	return ok
}

func (t *Tree) put(name string, f file) {
	name = path.Clean(name)
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		if !t.Has(dir) {
			t.files[dir] = file{mode: fs.ModeDir | 0o755}
		}
	}
	t.files[name] = f
}

// Copy adds a file or a whole directory of this machine under the same path. Symbolic links on the way are added
// as such together with what they point to. Directories named in without, and byte code, are left out.
func (t *Tree) Copy(name string, without ...string) {
	if t.err != nil {
		return
	}
	if err := t.copy(name, without); err != nil {
		t.err = fmt.Errorf("copy %s: %w", name, err)
	}
}

func (t *Tree) copy(name string, without []string) error {
	real, err := t.follow(name)
	if err != nil {
		return err
	}
	return filepath.WalkDir(real, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "__pycache__" || contains(without, d.Name()) {
				return fs.SkipDir
			}
			if !t.Has(p) {
				t.Dir(p, 0o755)
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			_, err := t.follow(p)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a dangling link of this machine is of no use in an image
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			t.put(p, file{mode: info.Mode().Perm(), source: p})
		}
		return nil
	})
}

// follow adds the symbolic links on the way to a path, and, when it is a file, the file. It returns the path without
// links.
func (t *Tree) follow(name string) (string, error) {
	real, rest := "/", strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	for hops := 0; len(rest) > 0; {
		next := path.Join(real, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if hops++; hops > 40 {
				return "", fmt.Errorf("too many symbolic links")
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if !t.Has(next) {
				t.Link(next, target)
			}
			if path.IsAbs(target) {
				real = "/"
			}
			rest = append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), rest...)
			continue
		case info.Mode().IsRegular():
			t.put(next, file{mode: info.Mode().Perm(), source: next})
		}
		real = next
	}
	return real, nil
}

// Program adds a program of this machine and the shared libraries it needs.
func (t *Tree) Program(name string) {
	t.Copy(name)
	t.Libraries(name)
}

// Libraries adds the shared libraries that the given programs or libraries need, as this machine's dynamic loader
// finds them.
func (t *Tree) Libraries(names ...string) {
	for _, name := range names {
		if t.err != nil {
			return
		}
		libraries, err := needed(name)
		if err != nil {
			t.err = fmt.Errorf("libraries of %s: %w", name, err)
			return
		}
		for _, library := range libraries {
			if !t.Has(library) {
				t.Copy(library)
			}
		}
	}
}

// needed asks the dynamic loader what a program or library would load. That is nothing for a file that is not ELF or is
// linked statically.
func needed(name string) ([]string, error) {
	f, err := elf.Open(name)
	if err != nil {
		if _, other := errors.AsType[*elf.FormatError](err); other {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) == 0 {
		return nil, err
	}
	loader, err := interpreter(f)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(loader, "--list", name).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w: %s", loader, err, bytes.TrimSpace(out))
	}
	return parseList(string(out)), nil
}

// interpreter is the dynamic loader that an ELF file names; for libraries, which name none, that of this machine's
// shell.
func interpreter(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			raw, err := io.ReadAll(p.Open())
			return string(bytes.TrimRight(raw, "\x00")), err
		}
	}
	sh, err := elf.Open("/bin/sh")
	if err != nil {
		return "", err
	}
	defer sh.Close()
	for _, p := range sh.Progs {
		if p.Type == elf.PT_INTERP {
			raw, err := io.ReadAll(p.Open())
			return string(bytes.TrimRight(raw, "\x00")), err
		}
	}
	return "", errors.New("no dynamic loader found: /bin/sh is linked statically")
}

// parseList takes the paths out of lines like "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)" and
// "/lib64/ld-linux-x86-64.so.2 (0x7f)".
func parseList(list string) []string {
	var paths []string
	for line := range strings.Lines(list) {
		if _, after, found := strings.Cut(line, "=>"); found {
			line = after
		}
		if fields := strings.Fields(line); len(fields) > 0 && path.IsAbs(fields[0]) {
			paths = append(paths, fields[0])
		}
	}
	return paths
}

// Busybox adds Debian's static busybox as DIR/busybox and a link for each of its applets that is not there yet.
func (t *Tree) Busybox(dir string) {
	if t.err != nil {
		return
	}
	source, err := find("busybox", "busybox-static")
	if err != nil {
		t.err = err
		return
	}
	if libraries, err := needed(source); err != nil || len(libraries) > 0 {
		t.err = errors.Join(fmt.Errorf("%s is not linked statically: apt install busybox-static", source), err)
		return
	}
	out, err := exec.Command(source, "--list").Output()
	if err != nil {
		t.err = fmt.Errorf("list busybox's applets: %w", err)
		return
	}
	t.put(path.Join(dir, "busybox"), file{mode: 0o755, source: source})
	for _, applet := range strings.Fields(string(out)) {
		if name := path.Join(dir, applet); !t.Has(name) {
			t.Link(name, "busybox")
		}
	}
}

// Write writes the tree as a tar archive: sorted, owned by root, with one time stamp.
func (t *Tree) Write(w io.Writer) error {
	if t.err != nil {
		return t.err
	}
	names := make([]string, 0, len(t.files))
	for name := range t.files {
		names = append(names, name)
	}
	sort.Strings(names)
	tw := tar.NewWriter(w)
	for _, name := range names {
		if err := write(tw, name, t.files[name]); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return tw.Close()
}

func write(w *tar.Writer, name string, f file) error {
	h := &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: int64(f.mode.Perm()), ModTime: epoch, Format: tar.FormatPAX}
	if f.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if f.mode&fs.ModeSetuid != 0 {
		h.Mode |= 0o4000
	}
	switch {
	case f.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return w.WriteHeader(h)
	case f.mode&fs.ModeNamedPipe != 0:
		h.Typeflag = tar.TypeFifo
		return w.WriteHeader(h)
	case f.mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		return w.WriteHeader(h)
	case f.source == "":
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(f.data)
		return err
	}
	source, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, source)
	return err
}

// find looks for a program of this machine and names the package to install when it is missing.
func find(program, debianPackage string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if name := path.Join(dir, program); executable(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s is not on this machine: apt install %s", program, debianPackage)
}

func executable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
