package persistent

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const loopMajor = 7

// device is an open loop device. As long as it is open, or its file system is mounted, it keeps its file.
type device struct {
	*os.File
}

// attachLoop returns the loop device of a file: the one that it has, or a new one. It is released by itself as soon as nobody
// has it open or mounted, whatever becomes of this process. A second device of one file would have a cache of its own, and
// so ruin what is in the file.
func attachLoop(image string) (device, error) {
	if d, err := findLoop(image); err == nil || !errors.Is(err, os.ErrNotExist) {
		return d, err
	}
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return device{}, err
	}
	defer file.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	copy(config.Info.File_name[:maxLabel], image)
	d, err := configureLoop(&config)
	if err != nil {
		return device{}, fmt.Errorf("attach %s: %w", image, err)
	}
	return d, nil
}

// configureLoop sets up a new loop device.
func configureLoop(config *unix.LoopConfig) (device, error) {
	control, err := openNode("/dev/loop-control", unix.S_IFCHR, unix.Mkdev(10, 237), os.O_RDWR) // which loads the kernel's module
	if err != nil {
		return device{}, fmt.Errorf("the kernel has no loop devices, or they are not allowed here: %w", err)
	}
	defer control.Close()
	for tries := 0; ; tries++ {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return device{}, fmt.Errorf("find a free loop device: %w", err)
		}
		d, err := openLoop(number)
		if err != nil {
			return device{}, err
		}
		err = unix.IoctlLoopConfigure(int(d.Fd()), config)
		if err == nil {
			return d, nil
		}
		d.Close()
		if !errors.Is(err, unix.EBUSY) || tries == 100 { // somebody else was faster
			return device{}, fmt.Errorf("set up %s: %w", d.Name(), err)
		}
	}
}

// openLoop opens a loop device by its number.
func openLoop(number int) (device, error) { return openLoopAs(number, os.O_RDWR) }

// openLoopToRead opens one that may be for reading only.
func openLoopToRead(number int) (device, error) { return openLoopAs(number, os.O_RDONLY) }

func openLoopAs(number, flag int) (device, error) {
	file, err := openNode("/dev/loop"+strconv.Itoa(number), unix.S_IFBLK, unix.Mkdev(loopMajor, uint32(number)), flag)
	return device{file}, err
}

// openNode opens a device's file in /dev, and makes it if nothing else does.
func openNode(path string, kind uint32, number uint64, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	if err := unix.Mknod(path, kind|0o600, int(number)); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	return os.OpenFile(path, flag, 0)
}

// findLoop returns the loop device that a file has. Its error is os.ErrNotExist if it has none.
func findLoop(image string) (device, error) {
	var file unix.Stat_t
	if err := unix.Stat(image, &file); err != nil {
		return device{}, &os.PathError{Op: "stat", Path: image, Err: err}
	}
	for number := range loops() {
		d, err := openLoop(number)
		if err != nil {
			continue // it is gone, or was one for reading only
		}
		if d.shows(&file) {
			return d, nil
		}
		d.Close()
	}
	return device{}, fmt.Errorf("loop device of %s: %w", image, os.ErrNotExist)
}

// loops returns every loop device that has a file, by its number, with the path of the file.
func loops() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		list, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, path := range list {
			file, err := os.ReadFile(path)
			if err != nil {
				continue // released meanwhile
			}
			var number int
			if _, err := fmt.Sscanf(path, "/sys/block/loop%d/", &number); err != nil {
				continue
			}
			if !yield(number, strings.TrimSuffix(string(file), "\n")) {
				return
			}
		}
	}
}

// shows reports whether a device has a file. While it is open that does not change.
func (d device) shows(file *unix.Stat_t) bool {
	is, err := unix.IoctlLoopGetStatus64(int(d.Fd()))
	return err == nil && is.Device == file.Dev && is.Inode == file.Ino
}

// restore takes back what somebody else who has the device open may have changed, so that it shows its whole file, and goes
// once nobody has it open.
func (d device) restore() error {
	is, err := unix.IoctlLoopGetStatus64(int(d.Fd()))
	if err != nil {
		return fmt.Errorf("look at %s: %w", d.Name(), err)
	}
	if is.Offset == 0 && is.Sizelimit == 0 && is.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
		return nil
	}
	is.Offset, is.Sizelimit = 0, 0
	is.Flags |= unix.LO_FLAGS_AUTOCLEAR
	if err := unix.IoctlLoopSetStatus64(int(d.Fd()), is); err != nil {
		return fmt.Errorf("restore %s: %w", d.Name(), err)
	}
	return nil
}

// refresh lets a device have the size that its file has now.
func (d device) refresh() error {
	if err := unix.IoctlSetInt(int(d.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("resize %s: %w", d.Name(), err)
	}
	return nil
}

// release takes the file from a device, when the last one who has it open closes it.
func (d device) release() error {
	err := unix.IoctlSetInt(int(d.Fd()), unix.LOOP_CLR_FD, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil
	}
	return err
}
