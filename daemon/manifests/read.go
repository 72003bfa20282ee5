package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/daemon/objects"
)

// What is read at most.
const (
	maxFiles   = 256
	maxFile    = 1 << 20 // bytes
	maxBytes   = 16 << 20
	maxObjects = 2000
)

// File is a file of the directory. Of one with an error nothing is known.
type File struct {
	Name    string
	Objects []Object
	Err     error
	// Stamp is the state of the file in which it was read, or, if it changed meanwhile, an earlier one.
	Stamp Stamp
	// Written says that a program has it open for writing.
	Written bool
	// Moving says that it may not be whole yet (watch).
	Moving bool
}

// IsManifest reports whether a file is read, by its name.
func IsManifest(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// Read reads the files of a directory, in the order of their names. Only those are read that root alone can write: whoever can change
// one is an administrator of this jobd. An error says that it is not known which files there are.
func Read(dir string) ([]File, error) { return read(dir, 0) }

// read reads what only this user can write.
func read(dir string, owner uint32) (files []File, err error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := writtenBy(d, owner); err != nil {
		return nil, fmt.Errorf("%s %w", dir, err)
	}
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if IsManifest(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	size, count := 0, 0
	for i, name := range names {
		f := File{Name: name}
		if i >= maxFiles {
			f.Err = fmt.Errorf("is not read: there are more than %d files", maxFiles)
		} else if text, err := readFile(d, &f, owner); err != nil {
			f.Err = err
		} else if size += len(text); size > maxBytes {
			f.Err = fmt.Errorf("is not read: this and the files before it have more than %d MiB", maxBytes>>20)
		} else if f.Objects, f.Err = parse(name, text); f.Err == nil {
			if count += len(f.Objects); count > maxObjects {
				f.Objects, f.Err = nil, fmt.Errorf("is not applied: this and the files before it have more than %d objects", maxObjects)
			}
		}
		files = append(files, f)
	}
	return files, nil
}

// writtenBy returns an error if others can write a file. It is the end of a sentence about that.
func writtenBy(f *os.File, owner uint32) error {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return err
	}
	switch {
	case s.Uid != owner:
		return fmt.Errorf("is not read: it belongs to uid %d, and not to root", s.Uid)
	case s.Mode&0o022 != 0:
		return fmt.Errorf("is not read: others than root may write it (mode %o)", s.Mode&0o7777)
	}
	return nil
}

func readFile(dir *os.File, of *File, owner uint32) ([]byte, error) {
	name := of.Name
	// Nothing that a link leads to, and nothing that would block.
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("is not read: it is a symbolic link")
	} else if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not read: it is no regular file")
	}
	if err := writtenBy(f, owner); err != nil {
		return nil, err
	}
	of.Stamp, of.Written = stampOf(info), isWritten(fd) // before it is read: what is written from now on makes it another one
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("is not read: it has more than %d MiB", maxFile>>20)
	}
	return text, nil
}

// parse returns the objects of a file. All of it counts, or nothing: half a file may lack what the other half needs.
func parse(file string, text []byte) (all []Object, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	last := 0 // where the objects of the last document begin
	for n := 1; ; n++ {
		object := map[string]any{}
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) && len(all) == 0 {
			return nil, errors.New("is empty, which removes nothing: remove the file to remove its objects") // it may be half written
		}
		if errors.Is(err, io.EOF) {
			if !isEnded(text) {
				for i := range all[last:] {
					all[last+i].AtEnd = true
				}
			}
			return all, nil
		}
		if err == nil {
			last = len(all)
		}
		if err == nil && len(object) > 0 {
			err = add(&all, file, &unstructured.Unstructured{Object: object})
		}
		if err == nil && len(all) > maxObjects {
			err = fmt.Errorf("there are more than %d objects", maxObjects)
		}
		if err != nil {
			return nil, fmt.Errorf("is not applied: document %d: %w", n, err)
		}
	}
}

// isEnded reports whether a text says that its last document is whole.
func isEnded(text []byte) bool {
	text = bytes.TrimRight(text, " \t\r\n")
	return bytes.HasSuffix(text, []byte("\n---")) || bytes.HasSuffix(text, []byte("\n..."))
}

func add(all *[]Object, file string, u *unstructured.Unstructured) error {
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return errors.New("apiVersion or kind is missing")
	}
	if u.IsList() {
		return u.EachListItem(func(o runtime.Object) error { return add(all, file, o.(*unstructured.Unstructured)) })
	}
	of := u.GroupVersionKind()
	k := served(u)
	if k == nil {
		if moved, old := absent.Moved(of); old {
			return errors.New(moved)
		}
		if absent.Advised(of.GroupKind()) {
			return errors.New(absent.Refusal(of.GroupKind()))
		}
		return fmt.Errorf("there is no kind %s in %s", of.Kind, u.GetAPIVersion())
	}
	ref := Ref{Group: of.Group, Kind: of.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
	switch {
	case ref.Name == "" && u.GetGenerateName() != "":
		return fmt.Errorf("a %s has metadata.generateName: what is applied needs a name", of.Kind)
	case ref.Name == "":
		return fmt.Errorf("a %s has no metadata.name", of.Kind)
	case strings.ContainsAny(ref.Name+ref.Namespace, "/%") || len(validation.IsDNS1123Subdomain(ref.Namespace)) > 0 && ref.Namespace != "":
		return fmt.Errorf("%q in %q cannot be the name of a %s", ref.Name, ref.Namespace, of.Kind)
	case !k.Namespaced && ref.Namespace != "":
		return fmt.Errorf("%s is in a namespace, and a %s is in none", ref, of.Kind)
	case k.Namespaced && ref.Namespace == "":
		ref.Namespace = metav1.NamespaceDefault
	}
	o, err := newObject(ref, file, k.GroupVersion.WithResource(k.Resource), u)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	*all = append(*all, o)
	return nil
}

// served returns the kind of an object; nil if there is no such one in that version.
func served(u *unstructured.Unstructured) *kind.Kind {
	of := u.GroupVersionKind()
	for _, k := range objects.Served() {
		if k.Name == of.Kind && k.GroupVersion == of.GroupVersion() {
			return k
		}
	}
	return nil
}
