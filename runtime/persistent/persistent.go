// Package persistent keeps volumes that outlive pods: directories, whose capacity project quotas or btrfs's qgroups
// enforce where the file system has them, and files of a fixed size that loop devices make into file systems or block
// devices. It also mounts NFS exports.
//
// What it keeps lies in ROOT/volumes/NAME, and what it mounts in STATE/attached/NAME. Besides these it changes quotas and
// loop devices of the host, and nothing else. It knows nothing of claims and pods: its callers decide when a volume is
// made, attached and deleted.
package persistent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/untrusted"
)

// Type says what a volume is kept in.
type Type string

// The types of volumes.
const (
	Directory Type = "Directory" // a directory of the root's file system, as large as that; see Provisioned.Enforced
	Loop      Type = "Loop"      // a file of the volume's size, which is reserved on the disk
)

// Mode says what a volume is to a pod.
type Mode string

// The modes of volumes (PersistentVolumeSpec.VolumeMode).
const (
	Filesystem Mode = "Filesystem"
	Block      Mode = "Block" // a device; only of Loop
)

// Spec is what is asked of a volume.
type Spec struct {
	Name   string // that of its PersistentVolume
	Type   Type
	Mode   Mode
	Size   int64  // in bytes
	FSType string // of Loop in mode Filesystem: ext4 (the default) or xfs
}

// Provisioned is a volume that exists.
type Provisioned struct {
	// Path is where its data lies on the host: a directory, or the file of a loop device.
	Path string
	// Enforced reports whether nothing in the volume can grow beyond its size.
	Enforced bool
	// Warning says why it is not enforced, or what else the administrator should know; empty if there is nothing.
	Warning string
}

// Volumes makes and keeps the volumes of one root. It has no state besides the file system, and every call may be
// repeated after a crash. It may be used by several goroutines.
type Volumes struct {
	root, state string // ROOT/volumes and STATE/attached
	locks       locks
}

// New returns the volumes in the daemon's root and state directories. Only root has access to them on the host: anybody
// may write to a volume, and programs in it may be setuid.
func New(root, state string) (*Volumes, error) {
	v := &Volumes{root: layout.Root(root).Volumes(), state: layout.State(state).Attached()}
	for _, dir := range []string{v.root, v.state} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("persistent volumes: %w", err)
		}
	}
	// The kernel names what it mounts by real paths.
	for _, dir := range []*string{&v.root, &v.state} {
		real, err := filepath.EvalSymlinks(*dir)
		if err != nil {
			return nil, fmt.Errorf("persistent volumes: %w", err)
		}
		*dir = real
	}
	return v, nil
}

// A volume lies in ROOT/volumes/NAME. While it is made and while it is removed, the directory has another name, which is
// none of a PersistentVolume: what has the right name is complete.
const (
	unfinished = "~new"
	removed    = "~removed"

	dataDir   = "data"        // of a Directory
	imageFile = "image"       // of Loop
	infoFile  = "volume.json" // the record
)

func (v *Volumes) dir(name string) string        { return filepath.Join(v.root, name) }
func (v *Volumes) mountPoint(name string) string { return filepath.Join(v.state, name) }

// Provision makes a volume, or finds the one of that name and type. A volume that exists keeps its size: Expand changes
// it.
func (v *Volumes) Provision(ctx context.Context, spec Spec) (Provisioned, error) {
	if err := complete(&spec); err != nil {
		return Provisioned{}, err
	}
	defer v.locks.hold(spec.Name)()
	out, err := v.provision(ctx, spec)
	if err != nil {
		return Provisioned{}, fmt.Errorf("provision volume %s: %w", spec.Name, err)
	}
	return out, nil
}

func (v *Volumes) provision(ctx context.Context, spec Spec) (Provisioned, error) {
	dir := v.dir(spec.Name)
	is, err := readRecord(dir)
	switch {
	case err == nil && (is.Type != spec.Type || is.Mode != spec.Mode || is.FSType != spec.FSType):
		return Provisioned{}, fmt.Errorf("there is one of type %s, mode %s: %w", is.Type, is.Mode, errdefs.ErrAlreadyExists)
	case err == nil:
		return v.enforce(dir, &is)
	case !errors.Is(err, os.ErrNotExist):
		return Provisioned{}, err
	}
	for _, left := range []string{dir + unfinished, dir + removed} {
		if err := discard(ctx, left); err != nil {
			return Provisioned{}, err
		}
	}
	fresh := dir + unfinished
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return Provisioned{}, err
	}
	crash.At("persistent.provision.begun")
	is = record{Type: spec.Type, Mode: spec.Mode, Size: spec.Size, FSType: spec.FSType}
	warning := ""
	if spec.Type == Loop {
		is.FSSize = spec.Size
		warning, err = makeImage(ctx, filepath.Join(fresh, imageFile), spec)
	} else {
		err = v.makeDirectory(fresh, &is)
	}
	if err == nil {
		crash.At("persistent.provision.made")
		err = errors.Join(is.write(fresh), syncDir(fresh))
	}
	var out Provisioned
	if err == nil {
		out, err = v.enforce(fresh, &is)
	}
	if err != nil {
		return Provisioned{}, errors.Join(err, discard(context.WithoutCancel(ctx), fresh))
	}
	crash.At("persistent.provision.complete")
	if err := errors.Join(os.Rename(fresh, dir), syncDir(v.root)); err != nil {
		return Provisioned{}, err
	}
	crash.At("persistent.provision.renamed")
	out.Path = filepath.Join(dir, filepath.Base(out.Path))
	if warning != "" {
		out.Warning = warning
	}
	return out, nil
}

// enforce ensures that a volume does not grow beyond its size, if that is possible.
func (v *Volumes) enforce(dir string, is *record) (Provisioned, error) {
	if is.Type == Loop {
		return Provisioned{Path: filepath.Join(dir, imageFile), Enforced: true}, nil
	}
	out := Provisioned{Path: filepath.Join(dir, dataDir)}
	was := is.Project
	warning, err := v.limit(out.Path, is)
	if err == nil && is.Project != was {
		err = is.write(dir)
	}
	out.Warning, out.Enforced = warning, warning == ""
	return out, err
}

// Get returns what a volume is. Its error is ErrNotFound of errdefs if there is none.
func (v *Volumes) Get(name string) (Spec, error) {
	is, err := v.get(name)
	return Spec{Name: name, Type: is.Type, Mode: is.Mode, Size: is.Size, FSType: is.FSType}, err
}

func (v *Volumes) get(name string) (record, error) {
	if err := checkName(name); err != nil {
		return record{}, err
	}
	is, err := readRecord(v.dir(name))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("volume %s: %w", name, errdefs.ErrNotFound)
	}
	return is, err
}

// List returns the names of all volumes, in order.
func (v *Volumes) List() ([]string, error) {
	entries, err := os.ReadDir(v.root)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && checkName(e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Delete removes a volume with its data. It is no error if there is none. What is mounted in a volume is left alone, and
// keeps it from being removed.
func (v *Volumes) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	defer v.locks.hold(name)()
	if err := v.delete(ctx, name); err != nil {
		return fmt.Errorf("delete volume %s: %w", name, err)
	}
	return nil
}

func (v *Volumes) delete(ctx context.Context, name string) error {
	dir := v.dir(name)
	if _, err := os.Lstat(dir); err == nil {
		if err := v.detach(name); err != nil {
			return err
		}
		if err := discard(ctx, dir+removed); err != nil { // of an earlier volume of that name
			return err
		}
		if err := errors.Join(os.Rename(dir, dir+removed), syncDir(v.root)); err != nil {
			return err
		}
		crash.At("persistent.delete.renamed")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(discard(ctx, dir+unfinished), discard(ctx, dir+removed), removeEmpty(v.mountPoint(name)))
}

// Sweep removes what is left of volumes that were being made or removed when the process ended. It is meant to be called
// once, at start; it may take as long as it takes to remove many files.
func (v *Volumes) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(v.root)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		for _, suffix := range []string{unfinished, removed} {
			name, ok := strings.CutSuffix(e.Name(), suffix)
			if !ok || checkName(name) != nil {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			release := v.locks.hold(name)
			errs = append(errs, discard(ctx, v.dir(e.Name())))
			release()
		}
	}
	return errors.Join(errs...)
}

// discard removes the directory of a volume that nothing uses, and lifts its limit. The record goes last, since it says
// what the limit is.
func discard(ctx context.Context, dir string) error {
	is, err := readRecord(dir)
	if err == nil && is.Type == Directory {
		if err := removeData(ctx, filepath.Join(dir, dataDir), &is); err != nil {
			return err
		}
		crash.At("persistent.delete.data")
	}
	if err := untrusted.Remove(ctx, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// complete checks a Spec and fills in what it leaves open.
func complete(spec *Spec) error {
	if err := checkName(spec.Name); err != nil {
		return err
	}
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("volume %s: %s: %w", spec.Name, fmt.Sprintf(format, args...), errdefs.ErrInvalidArgument)
	}
	if spec.Mode == "" {
		spec.Mode = Filesystem
	}
	switch {
	case spec.Type != Directory && spec.Type != Loop:
		return invalid("type %q is neither %s nor %s", spec.Type, Directory, Loop)
	case spec.Mode != Filesystem && spec.Mode != Block:
		return invalid("mode %q is neither %s nor %s", spec.Mode, Filesystem, Block)
	case spec.Size <= 0:
		return invalid("a size of %d bytes is not positive", spec.Size)
	case spec.Mode == Block && spec.Type != Loop:
		return invalid("only a volume of type %s can be of mode %s", Loop, Block)
	case spec.FSType != "" && (spec.Type != Loop || spec.Mode != Filesystem):
		return invalid("only a volume of type %s and mode %s has a file system of its own", Loop, Filesystem)
	}
	if spec.Type == Loop && spec.Mode == Filesystem {
		if spec.FSType == "" {
			spec.FSType = "ext4"
		}
		if !slices.Contains(fsTypes(), spec.FSType) {
			return invalid("file system type %q is none of %s", spec.FSType, strings.Join(fsTypes(), ", "))
		}
	}
	return nil
}

// checkName accepts the names that PersistentVolumes can have.
func checkName(name string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("volume name %q: %s: %w", name, wrong[0], errdefs.ErrInvalidArgument)
	}
	return nil
}
