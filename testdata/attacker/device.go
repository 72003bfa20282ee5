package main

import (
	"flag"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blockDevice is the path of a block device that the container has as a volume; empty if it has none.
var blockDevice = flag.String("device", "", "make the attempts on a block device that the container has as a volume, instead of all others")

// deviceAttempts are made by a container on a block device that is its own: it may read and write it, but what number shows
// what is the host's affair. ENOTTY is the answer of a device that is no loop device.
var deviceAttempts = []attempt{
	{name: "to let go of a file", try: request(unix.LOOP_CLR_FD), also: notLoop},
	{name: "to let go of a file, with more in the argument than the kernel looks at", try: request(1<<32 | unix.LOOP_CLR_FD), also: notLoop},
	{name: "to let go of a file, as a program of 32 bits", try: func() error { return compatRequest(unix.LOOP_CLR_FD) }, also: notLoop},
	{name: "to let go of a file, by the numbers of x32", try: func() error {
		return onDevice(func(fd uintptr) error { return call(x32|514, fd, unix.LOOP_CLR_FD, 0) })
	}, also: notLoop},
	{name: "another file", try: withFile(unix.LOOP_SET_FD), also: append(notLoop, unix.EBUSY)}, // the kernel's own answer while it has one
	{name: "another file in place of its own", try: withFile(loopChangeFD), also: append(notLoop, unix.EINVAL)},
	{name: "to look at the host's file", try: func() error {
		return onDevice(func(fd uintptr) error { _, err := unix.IoctlLoopGetStatus64(int(fd)); return err })
	}, also: notLoop},
	{name: "to look for partitions", try: func() error {
		return onDevice(func(fd uintptr) error {
			return unix.IoctlLoopSetStatus64(int(fd), &unix.LoopInfo64{Flags: unix.LO_FLAGS_PARTSCAN})
		})
	}, also: notLoop},
	{name: "to read the partitions again", try: request(unix.BLKRRPART), also: append(notLoop, unix.EINVAL)},
	{name: "to add a partition", try: func() error {
		arg := struct {
			op, flags, size int32
			data            uintptr
		}{op: 1} // struct blkpg_ioctl_arg; whoever may add one is told that the data are missing
		return onDevice(func(fd uintptr) error {
			return call(unix.SYS_IOCTL, fd, unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
		})
	}, also: notLoop},
	{name: "blocks of another size", try: request(unix.LOOP_SET_BLOCK_SIZE), also: notLoop},
	{name: "to pass the cache by", try: request(unix.LOOP_SET_DIRECT_IO), also: notLoop},
	{name: "a new configuration", try: request(unix.LOOP_CONFIGURE), also: append(notLoop, unix.EFAULT)},
	{name: "another capacity", try: request(unix.LOOP_SET_CAPACITY), also: notLoop},
}

// loopChangeFD is LOOP_CHANGE_FD of linux/loop.h.
const loopChangeFD = 0x4C06

var notLoop = []error{unix.ENOTTY}

// x32 marks the numbers of system calls of programs with pointers of 32 bits.
const x32 = 0x40000000

// onDevice does something with the block device, which needs not be open for writing.
func onDevice(do func(fd uintptr) error) error {
	fd, err := unix.Open(*blockDevice, unix.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %v", *blockDevice, err) // of whatever class: nothing was tried
	}
	defer unix.Close(fd)
	return do(uintptr(fd))
}

func request(number uintptr) func() error {
	return func() error {
		return onDevice(func(fd uintptr) error { return call(unix.SYS_IOCTL, fd, number, 0) })
	}
}

// withFile makes a request with a file of the container.
func withFile(number uintptr) func() error {
	return func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		file, err := os.Create(dir + "/file")
		if err != nil {
			return err
		}
		defer file.Close()
		return onDevice(func(fd uintptr) error { return call(unix.SYS_IOCTL, fd, number, file.Fd()) })
	}
}

// compatRequest makes a request in the way of a program of 32 bits.
func compatRequest(number uintptr) error {
	return onDevice(func(fd uintptr) error {
		if e := compatIoctl(fd, number); e != 0 {
			return e
		}
		return nil
	})
}
