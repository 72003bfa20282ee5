package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

func unshare(flags int) func() error { return func() error { return unix.Unshare(flags) } }

// cloned makes a process in new namespaces, otherwise as fork does.
func cloned(flags uintptr) func() error {
	return func() error {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			return e
		}
		if pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		return err
	}
}

func cString(s string) uintptr { return uintptr(unsafe.Pointer(&append([]byte(s), 0)[0])) }

// scratch makes a directory to mount on.
func scratch() (string, error) { return os.MkdirTemp("/tmp", "attacker") }

// kernelAttempts ask the kernel for what only the host's root may have.
var kernelAttempts = []attempt{
	{name: "unshare a user namespace", try: unshare(unix.CLONE_NEWUSER)},
	{name: "unshare a mount namespace", try: unshare(unix.CLONE_NEWNS), privileged: true},
	{name: "unshare a network namespace", try: unshare(unix.CLONE_NEWNET), privileged: true},
	{name: "unshare a PID namespace", try: unshare(unix.CLONE_NEWPID), privileged: true},
	{name: "unshare a UTS namespace", try: unshare(unix.CLONE_NEWUTS), privileged: true},
	{name: "unshare an IPC namespace", try: unshare(unix.CLONE_NEWIPC), privileged: true},
	{name: "unshare a cgroup namespace", try: unshare(unix.CLONE_NEWCGROUP), privileged: true},
	{name: "unshare a time namespace", try: unshare(unix.CLONE_NEWTIME), privileged: true},
	{name: "clone into a user namespace", try: cloned(unix.CLONE_NEWUSER), privileged: true},
	{name: "clone into a mount namespace", try: cloned(unix.CLONE_NEWNS), privileged: true},
	{name: "clone3 into a user namespace", try: func() error {
		args := [8]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)} // struct clone_args
		pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if e != 0 {
			return e
		}
		if pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		return err
	}, privileged: true},
	{name: "join a namespace", try: func() error {
		f, err := os.Open("/proc/self/ns/uts")
		if err != nil {
			return err
		}
		return unix.Setns(int(f.Fd()), unix.CLONE_NEWUTS)
	}, privileged: true},

	{name: "mount a tmpfs", try: func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		return unix.Mount("none", dir, "tmpfs", 0, "")
	}, privileged: true},
	{name: "mount proc", try: func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		return unix.Mount("none", dir, "proc", 0, "")
	}, privileged: true},
	{name: "mount cgroups", try: func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		if err := unix.Mount("none", dir, "cgroup2", 0, ""); err == nil {
			return nil
		}
		return unix.Mount("none", dir, "cgroup", 0, "memory")
	}, privileged: true},
	{name: "bind a directory", try: func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		return unix.Mount("/", dir, "", unix.MS_BIND, "")
	}, privileged: true},
	{name: "remount /sys to be written", try: func() error {
		return unix.Mount("none", "/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}, privileged: true},
	{name: "remount /proc/sys to be written", try: func() error {
		return unix.Mount("none", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}},
	{name: "uncover /proc/sys", try: func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }},
	{name: "uncover /proc/kcore", try: func() error { return unix.Unmount("/proc/kcore", unix.MNT_DETACH) }},
	{name: "pivot_root", try: func() error { return unix.PivotRoot("/", "/tmp") }},
	{name: "open a file system to mount", try: func() error {
		_, err := unix.Fsopen("tmpfs", 0)
		return err
	}, privileged: true},
	{name: "clone a tree of mounts", try: func() error {
		_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		return err
	}, privileged: true},
	{name: "move a mount", try: func() error {
		return unix.MoveMount(unix.AT_FDCWD, "/dev/shm", unix.AT_FDCWD, "/tmp", 0)
	}, privileged: true},
	{name: "pick a mounted file system", try: func() error {
		_, err := unix.Fspick(unix.AT_FDCWD, "/", 0)
		return err
	}},
	{name: "change the attributes of a mount", try: func() error {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		return unix.MountSetattr(unix.AT_FDCWD, "/dev/shm", 0, &attr)
	}},

	{name: "add a key", try: func() error {
		_, err := unix.AddKey("user", "attacker", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}, privileged: true},
	{name: "ask for a key", try: func() error {
		_, err := unix.RequestKey("user", "attacker", "", unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	{name: "join a session keyring", try: func() error {
		_, err := unix.KeyctlJoinSessionKeyring("attacker")
		return err
	}, privileged: true},
	{name: "make a BPF map", try: func() error {
		attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 4, 1, 0} // an array
		return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	}, privileged: true},
	{name: "watch performance events", try: func() error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
		_, err := unix.PerfEventOpen(&attr, -1, 0, -1, 0)
		return err
	}, privileged: true},
	{name: "io_uring", try: func() error {
		var params [120]byte
		return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))
	}},
	{name: "handle page faults", try: func() error { return call(unix.SYS_USERFAULTFD, 0) }},
	{name: "load a module", try: func() error {
		f, err := os.Open("/proc/self/exe")
		if err != nil {
			return err
		}
		return unix.FinitModule(int(f.Fd()), "", 0)
	}},
	{name: "load a module from memory", try: func() error { return unix.InitModule([]byte("no module"), "") }},
	{name: "remove a module", try: func() error { return unix.DeleteModule("attacker", unix.O_NONBLOCK) }},
	{name: "load a kernel", try: func() error { return call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 1<<15) }},
	{name: "reboot", try: func() error { return unix.Reboot(0x1234) }},
	{name: "set the clock", try: func() error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			return err
		}
		return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	}, privileged: true},
	{name: "set the host name", try: func() error {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		return unix.Sethostname([]byte(name))
	}, privileged: true},
	{name: "switch on accounting", try: func() error { return unix.Acct("/tmp/no-such-file") }},
	{name: "swap on a file", try: func() error { return call(unix.SYS_SWAPON, cString("/tmp/no-such-file"), 0) }},
	{name: "read the kernel's log", try: func() error {
		_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 100))
		return err
	}, privileged: true},
	{name: "change quotas", try: func() error {
		return call(unix.SYS_QUOTACTL, 0x800001 /* Q_SYNC */, cString("/dev/no-such-device"), 0, 0)
	}},
	{name: "watch all of a file system", try: func() error {
		_, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT, 0)
		return err
	}, privileged: true},
	{name: "open a file by its handle", try: func() error {
		// A handle reaches any file of a file system of which a mount shows only a part (the "shocker").
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/etc/hostname", 0)
		if err != nil {
			handle = unix.NewFileHandle(1, make([]byte, 8))
		}
		f, err := os.Open("/etc/hostname")
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(int(f.Fd()), handle, unix.O_RDONLY)
		return err
	}},
	{name: "run in real time", try: func() error {
		return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	}},
	{name: "a higher priority", try: func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }, privileged: true},
	{name: "raise a limit", try: func() error {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
			return err
		}
		if limit.Max == unix.RLIM_INFINITY {
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				return err
			}
			limit.Max++
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		}
		limit.Max = unix.RLIM_INFINITY
		return unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	}},
	{name: "make a file immutable", try: func() error {
		f, err := os.CreateTemp("/tmp", "attacker")
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x10)
	}, also: []error{unix.ENOTTY, unix.EOPNOTSUPP}},
	{name: "type into a terminal", try: func() error {
		f, err := os.Open("/dev/ptmx")
		if err != nil {
			return err
		}
		defer f.Close()
		// A terminal other than the controlling one: another container's, if it could be opened.
		b := byte('x')
		return call(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&b)))
	}, also: []error{unix.EIO}},

	{name: "a socket of the kernel's crypto", try: socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	{name: "a socket to the machine below", try: socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), also: []error{unix.EAFNOSUPPORT}},
	{name: "an interface", try: func() error {
		return changeLinks(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	}},
	{name: "the state of an interface", try: func() error { return changeLinks(unix.RTM_SETLINK, 0) }},
	{name: "rules of the firewall", try: func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		// A batch is refused as a whole without CAP_NET_ADMIN.
		return answerTo(fd, netlinkMessage(unix.NFNL_MSG_BATCH_BEGIN, 0, []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}))
	}},
	{name: "events of the kernel", try: func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1})
	}, also: []error{unix.EPROTONOSUPPORT, unix.ECONNREFUSED}},
}

// changeLinks asks for a change to the interface lo, or for a new interface.
func changeLinks(kind uint16, flags uint16) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	body := make([]byte, unix.SizeofIfInfomsg)
	if flags == 0 {
		body[4] = 1 // the index of lo
	}
	return answerTo(fd, netlinkMessage(kind, flags, body))
}

// netlinkMessage returns a request that asks for an answer.
func netlinkMessage(kind, flags uint16, body []byte) []byte {
	header := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind, Flags: flags | unix.NLM_F_REQUEST | unix.NLM_F_ACK, Seq: 1,
	}
	return append(unsafe.Slice((*byte)(unsafe.Pointer(&header)), unix.SizeofNlMsghdr), body...)
}

// answerTo sends a request to the kernel and returns its error.
func answerTo(fd int, message []byte) error {
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buffer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return errors.New("a short answer")
	}
	if code := *(*int32)(unsafe.Pointer(&buffer[unix.SizeofNlMsghdr])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// device makes a device node and opens it.
func device(kind uint32, major, minor uint32) func() error {
	return func() error {
		dir, err := scratch()
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "device")
		if err := unix.Mknod(path, kind|0o600, int(unix.Mkdev(major, minor))); err != nil {
			return fmt.Errorf("mknod: %w", err)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return f.Close()
	}
}
