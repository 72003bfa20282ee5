package persistent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/crash"
)

// Attach makes a volume usable for a pod, whose UID it is given, and returns where: the path of a directory or of a block
// device. A block device is the volume's until Release; after that, and after a reboot, it may be another one. Attach may be
// called at any time. Only a block device needs a pod.
func (v *Volumes) Attach(ctx context.Context, name, pod string) (path string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	defer v.locks.hold(name)()
	is, err := v.get(name)
	if err != nil {
		return "", err
	}
	switch {
	case is.Type == Directory:
		// Quotas may have been enabled since, or the volume has been copied to another disk.
		var out Provisioned
		out, err = v.enforce(v.dir(name), &is)
		path = out.Path
	case is.Mode == Block:
		path, err = v.attachBlock(name, pod)
	default:
		path, err = v.mountPoint(name), v.attachFileSystem(ctx, name, &is)
	}
	if err != nil {
		return "", fmt.Errorf("attach volume %s: %w", name, err)
	}
	return path, nil
}

// attachBlock sets up a loop device that stays for as long as a pod has it: between two containers nobody has it open but
// what holds it for the pod.
func (v *Volumes) attachBlock(name, pod string) (string, error) {
	d, err := attachLoop(filepath.Join(v.dir(name), imageFile))
	if err != nil {
		return "", err
	}
	defer d.Close()
	crash.At("persistent.loop.attached")
	if err := errors.Join(d.restore(), d.refresh()); err != nil {
		return "", err
	}
	return d.Name(), v.hold(d.File, pod)
}

// attachFileSystem mounts a volume. The mount alone keeps the loop device.
func (v *Volumes) attachFileSystem(ctx context.Context, name string, is *record) error {
	point, image := v.mountPoint(name), filepath.Join(v.dir(name), imageFile)
	fs, err := fileSystemOf(is.FSType)
	if err != nil {
		return err
	}
	mounted, err := isMounted(point)
	if err != nil {
		return err
	}
	if mounted {
		err = ours(point, image)
	} else {
		if err = v.mountImage(ctx, fs, name, is); err == nil {
			crash.At("persistent.loop.mounted")
			err = v.grow(name, is)
		}
	}
	if err != nil {
		return err
	}
	if is.Opened {
		return nil
	}
	if err := unix.Chmod(point, 0o777); err != nil {
		return err
	}
	fd, err := openDir(point)
	if err != nil {
		return err
	}
	err = unix.Syncfs(fd)
	unix.Close(fd)
	if err != nil {
		return err
	}
	is.Opened = true
	return is.write(v.dir(name))
}

func (v *Volumes) mountImage(ctx context.Context, fs fileSystem, name string, is *record) error {
	point, image := v.mountPoint(name), filepath.Join(v.dir(name), imageFile)
	if err := os.MkdirAll(point, 0o700); err != nil {
		return err
	}
	if d, err := findLoop(image); err == nil {
		d.Close() // a container still has it mounted
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	} else if err := v.prepare(ctx, fs, name, is); err != nil {
		return err
	}
	d, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer d.Close()
	crash.At("persistent.loop.attached")
	if err := unix.Mount(d.Name(), point, fs.name, unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", image, point, err)
	}
	return nil
}

// prepare repairs a file system that is not mounted, as far as that needs no decision, and grows it to the size of its volume
// if its programs can do that.
func (v *Volumes) prepare(ctx context.Context, fs fileSystem, name string, is *record) error {
	if fs.check == nil {
		return nil
	}
	image := filepath.Join(v.dir(name), imageFile)
	larger := is.FSSize < is.Size
	args := fs.check[1:len(fs.check):len(fs.check)]
	if larger {
		args = append(args, "-f") // resize2fs insists on it
	}
	var exit *exec.ExitError
	err := runProgram(ctx, fs.pack, fs.check[0], append(args, image)...)
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode()&^3 == 0) { // it has repaired something
		return err
	}
	if !larger {
		return nil
	}
	if err := runProgram(ctx, fs.pack, fs.resize, image); err != nil {
		return err
	}
	crash.At("persistent.expand.resized")
	is.FSSize = is.Size
	return is.write(v.dir(name))
}

// ours fails if what is mounted at a place is not the file system in a file.
func ours(point, image string) error {
	var mounted, file unix.Stat_t
	if err := errors.Join(unix.Stat(point, &mounted), unix.Stat(image, &file)); err != nil {
		return err
	}
	if unix.Major(mounted.Dev) == loopMajor {
		if d, err := openLoop(int(unix.Minor(mounted.Dev))); err == nil {
			defer d.Close()
			if d.shows(&file) {
				return nil
			}
		}
	}
	return fmt.Errorf("something else is mounted at %s: %w", point, errdefs.ErrFailedPrecondition)
}

// grow lets a mounted file system have the size that its volume has been given.
func (v *Volumes) grow(name string, is *record) error {
	if is.FSSize >= is.Size {
		return nil
	}
	d, err := findLoop(filepath.Join(v.dir(name), imageFile))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.refresh(); err != nil {
		return err
	}
	crash.At("persistent.expand.device")
	fs, err := fileSystemOf(is.FSType)
	if err != nil {
		return err
	}
	fd, err := openDir(v.mountPoint(name))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := fs.grow(fd, is.Size); err != nil {
		return fmt.Errorf("grow %s to %d bytes: %w", fs.name, is.Size, err)
	}
	is.FSSize = is.Size
	return is.write(v.dir(name))
}

// Expand gives a volume a larger size, while it is in use too. It is no error if it has it already; it never gets smaller.
func (v *Volumes) Expand(_ context.Context, name string, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	defer v.locks.hold(name)()
	is, err := v.get(name)
	if err != nil {
		return err
	}
	if size < is.Size {
		return fmt.Errorf("expand volume %s: it has %d bytes and cannot shrink to %d: %w", name, is.Size, size,
			errdefs.ErrInvalidArgument)
	}
	if err := v.expand(name, &is, size); err != nil {
		return fmt.Errorf("expand volume %s: %w", name, err)
	}
	return nil
}

func (v *Volumes) expand(name string, is *record, size int64) error {
	dir := v.dir(name)
	image := filepath.Join(dir, imageFile)
	if is.Type == Loop {
		file, err := os.OpenFile(image, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = reserve(file, size)
		if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
			return err
		}
		crash.At("persistent.expand.reserved")
	}
	if is.Size != size {
		is.Size = size
		if err := is.write(dir); err != nil {
			return err
		}
		crash.At("persistent.expand.recorded")
	}
	if is.Type == Directory {
		_, err := v.enforce(dir, is)
		return err
	}
	if is.Mode == Filesystem {
		if mounted, err := isMounted(v.mountPoint(name)); err != nil || !mounted {
			return err // it grows when it is attached
		}
		return v.grow(name, is)
	}
	d, err := findLoop(image)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(d.refresh(), d.Close())
}

// Detach undoes Attach, but for pods that still have the volume. It is no error if the volume is not attached, or if there
// is none. It fails if a process of the host uses it; containers that still do keep what they have.
func (v *Volumes) Detach(_ context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	defer v.locks.hold(name)()
	if err := v.detach(name); err != nil {
		return fmt.Errorf("detach volume %s: %w", name, err)
	}
	return nil
}

func (v *Volumes) detach(name string) error {
	point := v.mountPoint(name)
	if mounted, err := isMounted(point); err != nil {
		return err
	} else if mounted {
		if err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
		crash.At("persistent.loop.unmounted")
	}
	if err := removeEmpty(point); err != nil {
		return err
	}
	is, err := readRecord(v.dir(name))
	if err != nil || is.Mode != Block {
		return nil // what is mounted no more has released its device
	}
	d, err := findLoop(filepath.Join(v.dir(name), imageFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(d.release(), d.Close())
}

// Clean releases what a root's volumes hold on the host, after the daemon has gone: mounts and loop devices. Their data
// stays.
func Clean(root, state string) error {
	v := &Volumes{root: layout.Root(root).Volumes(), state: layout.State(state).Attached()}
	for _, dir := range []*string{&v.root, &v.state} {
		if real, err := filepath.EvalSymlinks(*dir); err == nil {
			*dir = real
		}
	}
	var errs []error
	points, err := os.ReadDir(v.state)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, p := range points {
		errs = append(errs, v.detach(p.Name()))
	}
	errs = append(errs, releaseHolders(v.holders()))
	for number, file := range loops() {
		if !strings.HasPrefix(file, v.root+"/") {
			continue
		}
		d, err := openLoop(number)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, d.release(), d.Close())
	}
	return errors.Join(errs...)
}

func isMounted(path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}
