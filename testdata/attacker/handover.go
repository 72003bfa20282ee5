package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// take takes whatever files others send to a socket, and keeps them for as long as the process lives. It says of each that it has it.
func take(socket string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return err
		}
		rights := make([]byte, unix.CmsgSpace(4))
		if _, _, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights); err != nil {
			return err
		}
		fmt.Println("has one more")
		if _, err := c.Write([]byte{1}); err != nil {
			return err
		}
	}
}

// give sends a file of some bytes in memory to whoever takes such, as soon as there is somebody.
func give(socket, size string) error {
	bytes, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("given", 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "given")
	for block := make([]byte, 1<<20); bytes > 0; bytes -= len(block) {
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	for ; err != nil; c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"}) {
		time.Sleep(10 * time.Millisecond)
	}
	if _, _, err := c.WriteMsgUnix([]byte{1}, unix.UnixRights(fd), nil); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}
