package processes

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Join starts Init in the user namespace of a pod, and in new namespaces that belong to that one. No process with
// several threads can enter a user namespace, and a Go process always has several: so a copy of this process, which has
// only one, enters it, makes the first process, writes its number to the descriptor for the daemon, and ends.
func Join(dir, users string) error {
	namespace, err := unix.Open(users, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("user namespace: %w", err)
	}
	program, err := unix.BytePtrFromString("/proc/self/exe")
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings([]string{os.Args[0], "--init", dir})
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, errno := forkInto(uintptr(namespace), program, &argv[0], &[]*byte{nil}[0])
	if errno != 0 {
		return os.NewSyscallError("clone", errno)
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(int(pid), &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err == nil && status.ExitStatus() != 0 {
		err = fmt.Errorf("enter the user namespace: %w", unix.Errno(status.ExitStatus()))
	}
	return err
}

// firstNamespaces are the namespaces of a first process. Except for the PID namespace they keep it away from the
// host's.
const firstNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// forkInto returns the number of a copy of this process, whose exit code is that of the call of the kernel that has
// failed. Neither the copy nor what it starts may do more than such calls, before the program is executed: none of the
// threads that Go needs exist.
//
//go:noinline
//go:norace
//go:nosplit
func forkInto(namespace uintptr, program *byte, argv, env **byte) (uintptr, syscall.Errno) {
	var all, before uint64 = ^uint64(0), 0
	if _, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&before)), 8, 0, 0); errno != 0 {
		return 0, errno
	}
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
		return pid, errno
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_SETNS, namespace, unix.CLONE_NEWUSER, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETRESGID, 0, 0, 0)
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0)
	}
	if errno != 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	var first uintptr
	first, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, firstNamespaces|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if first == 0 && errno == 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
		_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE,
			uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(env)))
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	if errno == 0 {
		number := uint32(first)
		_, _, errno = syscall.RawSyscall(unix.SYS_WRITE, tellFD, uintptr(unsafe.Pointer(&number)), 4)
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	return 0, 0
}
