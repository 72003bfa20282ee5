//go:build !amd64

package main

import "golang.org/x/sys/unix"

// compatIoctl is the answer of machines of which other programs are not known here.
func compatIoctl(_, _ uintptr) unix.Errno { return unix.ENOSYS }
