package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// gone are the errors for what this kernel does not have at all.
var gone = []error{unix.ENOENT, unix.ENXIO, unix.ENODEV}

// fileAttempts look for files, devices and sockets of the host.
var fileAttempts = []attempt{
	{name: "the program for core dumps", try: rewrite("/proc/sys/kernel/core_pattern"), privileged: true},
	{name: "the program that loads modules", try: rewrite("/proc/sys/kernel/modprobe"), also: gone},
	{name: "the program for events of devices", try: rewrite("/sys/kernel/uevent_helper"), also: gone},
	{name: "a format of programs", try: openToWrite("/proc/sys/fs/binfmt_misc/register"), also: gone},
	{name: "forwarding of the host", try: rewrite("/proc/sys/net/ipv4/ip_forward"), privileged: true},
	{name: "the kernel's panic", try: rewrite("/proc/sys/kernel/panic"), privileged: true},
	{name: "a magic key", try: openToWrite("/proc/sysrq-trigger"), also: gone},
	{name: "the kernel's memory", try: read("/proc/kcore"), also: gone},
	{name: "the kernel's keys", try: read("/proc/keys"), also: gone},
	{name: "the kernel's timers", try: read("/proc/timer_list"), also: gone},
	{name: "the firmware", try: list("/sys/firmware")},
	{name: "the power meters", try: list("/sys/devices/virtual/powercap"), also: gone},
	{name: "the affinity of interrupts", try: rewrite("/proc/irq/default_smp_affinity"), also: gone},
	{name: "a switch of a device", try: func() error {
		paths, _ := filepath.Glob("/sys/bus/*/drivers_autoprobe")
		return first(paths, rewrite)
	}, also: gone, privileged: true},
	{name: "a release agent", try: func() error {
		paths, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent")
		return first(append(paths, "/sys/fs/cgroup/release_agent"), rewrite)
	}, also: gone},
	{name: "its own limits", try: func() error {
		paths, _ := filepath.Glob("/sys/fs/cgroup/*/notify_on_release")
		limits, _ := filepath.Glob("/sys/fs/cgroup/{,*/}{memory.max,memory.limit_in_bytes,pids.max}")
		return first(append(paths, append(limits, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")...), rewrite)
	}, also: gone, privileged: true},
	{name: "another control group", try: func() error {
		dirs, _ := filepath.Glob("/sys/fs/cgroup/*")
		return first(append(dirs, "/sys/fs/cgroup"), func(dir string) func() error {
			return func() error {
				var stat unix.Statfs_t
				if err := unix.Statfs(dir, &stat); err != nil || stat.Type != unix.CGROUP_SUPER_MAGIC && stat.Type != unix.CGROUP2_SUPER_MAGIC {
					return errors.Join(unix.ENOENT, err)
				}
				made := filepath.Join(dir, "attacker")
				if err := os.Mkdir(made, 0o755); err != nil {
					return err
				}
				return os.Remove(made)
			}
		})
	}, also: gone, privileged: true},

	{name: "the first disk", try: anyDisk},
	{name: "the memory of the machine", try: device(unix.S_IFCHR, 1, 1)},
	{name: "the ports of the machine", try: device(unix.S_IFCHR, 1, 4)},
	{name: "the log of the kernel", try: device(unix.S_IFCHR, 1, 11)},
	{name: "FUSE", try: device(unix.S_IFCHR, 10, 229)},
	{name: "KVM", try: device(unix.S_IFCHR, 10, 232)},
	{name: "a tunnel", try: func() error {
		// runc lets every container open the device, which is of use only with CAP_NET_ADMIN.
		dir, err := scratch()
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "tun")
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200))); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq("attacker0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN)
		return unix.IoctlIfreq(int(f.Fd()), unix.TUNSETIFF, request)
	}, also: gone},
	{name: "loop devices", try: device(unix.S_IFCHR, 10, 237)},
	{name: "the device mapper", try: device(unix.S_IFCHR, 10, 236)},
	{name: "the vsock of virtual machines", try: device(unix.S_IFCHR, 10, 241)},
	{name: "the first terminal of the machine", try: device(unix.S_IFCHR, 4, 1)},
	{name: "the serial console", try: device(unix.S_IFCHR, 4, 64)},
	{name: "a device of the container that is not its own", try: func() error {
		own := map[string]bool{
			"null": true, "zero": true, "full": true, "tty": true, "urandom": true, "random": true, "console": true,
			"pts": true, "ptmx": true, "mqueue": true, "shm": true, "fd": true, "stdin": true, "stdout": true, "stderr": true,
			"core": true, "termination-log": true,
		}
		entries, err := os.ReadDir("/dev")
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !own[e.Name()] {
				return nil
			}
		}
		return errNothing
	}, privileged: true},

	{name: "a socket of the daemon or of a runtime", try: func() error {
		for _, dir := range []string{"/run", "/var/run", "/tmp", "/var/lib"} {
			found := errNothing
			_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
				if err == nil && e.Type()&fs.ModeSocket != 0 {
					found = nil
				}
				return nil
			})
			if found == nil {
				return nil
			}
		}
		return errNothing
	}},
	{name: "a mount of the host that can be written", try: func() error {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		own := map[string]bool{
			"/": true, "/dev/termination-log": true, "/etc/hosts": true, "/etc/hostname": true, "/etc/resolv.conf": true,
		}
		for line := range strings.Lines(string(mounts)) {
			before, after, _ := strings.Cut(line, " - ")
			fields := strings.Fields(before)
			point, options, kind := fields[4], strings.Split(fields[5], ","), strings.Fields(after)[0]
			fresh := slices.Contains([]string{"proc", "tmpfs", "devpts", "mqueue"}, kind) // made for the container
			device := strings.HasPrefix(point, "/dev/")                                   // bound one by one in a user namespace
			mask := kind == "devtmpfs" && fields[3] == "/null"                            // what runc masks a file with there
			if slices.Contains(options, "rw") && !own[point] && !fresh && !device && !mask {
				fmt.Fprint(os.Stderr, line)
				return nil
			}
		}
		return errNothing
	}, privileged: true},
	{name: "out of a root within the root", try: func() error {
		root, err := os.Stat("/")
		if err != nil {
			return err
		}
		out, err := os.Open("/")
		if err != nil {
			return err
		}
		dir, err := scratch()
		if err != nil {
			return err
		}
		if err := unix.Chroot(dir); err != nil {
			return err
		}
		if err := out.Chdir(); err != nil {
			return err
		}
		for range 50 {
			if err := os.Chdir(".."); err != nil {
				return err
			}
		}
		if err := unix.Chroot("."); err != nil {
			return err
		}
		now, err := os.Stat("/")
		if err != nil {
			return err
		}
		if os.SameFile(root, now) {
			return errNothing
		}
		return nil
	}},
	{name: "its own program", try: func() error {
		// The file is the image's, or its container's copy: nobody writes to a program that runs.
		return openToWrite("/proc/self/exe")()
	}, also: []error{unix.ETXTBSY}},
	{name: "the root of the first process", try: func() error {
		here, err := os.Stat("/")
		if err != nil {
			return err
		}
		there, err := os.Stat("/proc/1/root/")
		if err != nil {
			return err
		}
		if os.SameFile(here, there) {
			return errNothing
		}
		return nil
	}},
}

// list looks for an entry in a directory.
func list(dir string) func() error {
	return func() error {
		entries, err := os.ReadDir(dir)
		if err == nil && len(entries) == 0 {
			return errNothing
		}
		return err
	}
}

// first tries some paths until one gets through, and returns the last error.
func first(paths []string, attempt func(path string) func() error) error {
	err := error(unix.ENOENT)
	for _, path := range paths {
		now := attempt(path)()
		if now == nil {
			return nil
		}
		if !errors.Is(now, unix.ENOENT) && !errors.Is(now, unix.ENOTDIR) {
			err = now
		}
	}
	return err
}

// anyDisk opens the first disk of the machine that /proc/partitions or /sys lists.
func anyDisk() error {
	numbers, _ := filepath.Glob("/sys/class/block/*/dev")
	for _, path := range numbers {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var major, minor uint32
		for i, part := range strings.Split(strings.TrimSpace(string(text)), ":") {
			n := uint32(0)
			for _, c := range part {
				n = n*10 + uint32(c-'0')
			}
			if i == 0 {
				major = n
			} else {
				minor = n
			}
		}
		if err = device(unix.S_IFBLK, major, minor)(); err == nil || !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.ENOMEDIUM) {
			return err
		}
	}
	return device(unix.S_IFBLK, 8, 0)()
}
