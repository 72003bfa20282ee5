package main

import "golang.org/x/sys/unix"

// compatIoctl makes the system call of programs of 32 bits.
func compatIoctl(fd, request uintptr) unix.Errno {
	if r := int32(int80(54, fd, request, 0)); r < 0 {
		return unix.Errno(-r)
	}
	return 0
}

func int80(number, a, b, c uintptr) uintptr
