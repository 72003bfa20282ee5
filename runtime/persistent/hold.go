package persistent

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/outside"
	"github.com/jobd/jobd/runtime/crash"
)

// A container that has a node of a block device may keep it for as long as it lives, whatever becomes of the device: were
// it let go of meanwhile, the container would have whatever gets its number next. A loop device lets go of its file at the
// request of anybody who has it open, even for reading only (LOOP_CLR_FD), unless somebody else has it open too. So each pod
// has a holder for each of its devices, which is a loop device itself, as a kubelet has it: the kernel keeps open what it is
// made of. It needs no process, and so survives all of ours. Nobody is given its node, and its size is 0, so that
// nobody finds in it what is in the device.

// holderOffset is where a holder begins in its device: behind the end of any.
const holderOffset = 1 << 62

// maxLabel is how many bytes of a name a loop device takes.
const maxLabel = len(unix.LoopInfo64{}.File_name) - 1

// holders returns what the name of each holder of this host's jobd with that state directory begins with.
func (v *Volumes) holders() string {
	return fmt.Sprintf("jobd %.4x ", sha256.Sum256([]byte(v.state)))
}

// HoldDevice keeps a block device of the host for a pod, as Attach does with those of volumes.
func (v *Volumes) HoldDevice(path, pod string) error {
	at, err := outside.At(path)
	if err != nil {
		return err
	}
	defer at.Close()
	d, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(at.Fd())))
	if err != nil {
		return err
	}
	defer d.Close()
	return v.hold(d, pod)
}

// hold keeps an open device for a pod until Release. It is no error if it is kept already.
func (v *Volumes) hold(d *os.File, pod string) error {
	label := v.holders() + pod
	if pod == "" || len(label) > maxLabel {
		return fmt.Errorf("hold %s: pod uid %q: %w", d.Name(), pod, errdefs.ErrInvalidArgument)
	}
	var is unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &is); err != nil {
		return &os.PathError{Op: "stat", Path: d.Name(), Err: err}
	}
	if is.Mode&unix.S_IFMT != unix.S_IFBLK {
		return fmt.Errorf("hold %s: it is no block device: %w", d.Name(), errdefs.ErrInvalidArgument)
	}
	held := false
	err := eachHolder(label, func(_ device, of uint64) error {
		held = held || of == is.Rdev
		return nil
	})
	if held || err != nil {
		return err
	}
	config := unix.LoopConfig{Fd: uint32(d.Fd()), Info: unix.LoopInfo64{Offset: holderOffset, Flags: unix.LO_FLAGS_READ_ONLY}}
	copy(config.Info.File_name[:], label)
	holder, err := configureLoop(&config)
	if err != nil {
		return fmt.Errorf("hold %s: %w", d.Name(), err)
	}
	crash.At("persistent.device.held")
	return holder.Close()
}

// Release lets go of all devices that are kept for a pod, once none of its containers runs. The device of a volume goes with
// the last pod that has it.
func (v *Volumes) Release(pod string) error {
	if pod == "" {
		return fmt.Errorf("release devices of a pod without a uid: %w", errdefs.ErrInvalidArgument)
	}
	return releaseHolders(v.holders() + pod)
}

// releaseHolders lets go of what is kept by holders of a name, or whose name begins with one that ends with a space.
func releaseHolders(label string) error {
	return eachHolder(label, func(holder device, _ uint64) error {
		crash.At("persistent.device.release")
		return holder.release()
	})
}

// eachHolder calls a function for each holder of a name, or whose name begins with one that ends with a space, with the
// number of the device that it keeps.
func eachHolder(label string, do func(holder device, of uint64) error) error {
	var errs []error
	for number := range loops() {
		d, err := openLoopToRead(number)
		if err != nil {
			continue // it is gone
		}
		is, err := unix.IoctlLoopGetStatus64(int(d.Fd()))
		if err == nil && is.Offset == holderOffset && is.Rdevice != 0 {
			name := unix.ByteSliceToString(is.File_name[:])
			if name == label || strings.HasSuffix(label, " ") && strings.HasPrefix(name, label) {
				errs = append(errs, do(d, is.Rdevice))
			}
		}
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
