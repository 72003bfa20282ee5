package holder

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const root = 0

// asUser calls a function while the thread, to which the caller has locked itself, is another user with the capabilities of this one. Its
// saved user stays root, by which the way back is open.
func asUser(uid int, fn func() error) error {
	if uid == root {
		return fn()
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	if err := become(uid); err != nil {
		return err
	}
	err := unix.Capset(&header, &has[0]) // they are permitted still, but not in effect any more
	if err == nil {
		err = fn()
	}
	if back := become(root); back != nil {
		panic(back) // or what runs on this thread next would be that user
	}
	return errors.Join(err, unix.Capset(&header, &has[0]))
}

// become makes this thread a user's, and no other thread of the process.
func become(uid int) error {
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), same); errno != 0 {
		return fmt.Errorf("become user %d: %w", uid, errno)
	}
	return nil
}

// capabilities returns those that are in effect, as bits.
func capabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return 0, fmt.Errorf("read the capabilities: %w", err)
	}
	return uint64(has[1].Effective)<<32 | uint64(has[0].Effective), nil
}
