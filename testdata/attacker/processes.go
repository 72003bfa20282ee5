package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultCapabilities are the most that a container that asks for nothing may have, as a mask.
const defaultCapabilities = 0xa80425fb

// processAttempts look at the process itself, at what whoever started it gave it, and at other processes.
var processAttempts = []attempt{
	{name: "more capabilities than the default", try: func() error {
		for _, which := range []string{"CapEff", "CapPrm", "CapBnd", "CapAmb"} {
			mask, err := strconv.ParseUint(status(which), 16, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
			if mask&^defaultCapabilities != 0 {
				return nil
			}
			if which != "CapBnd" && os.Getuid() != 0 && mask != 0 {
				return nil
			}
		}
		return errNothing
	}, privileged: true},
	{name: "inheritable capabilities", try: func() error {
		// CVE-2022-24769: if they were set, files with capabilities would pass them on to any user.
		if status("CapInh") == strings.Repeat("0", 16) {
			return errNothing
		}
		return nil
	}},
	{name: "a capability that it does not have", try: func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			return err
		}
		caps[0].Effective |= 1 << unix.CAP_SYS_ADMIN
		caps[0].Permitted |= 1 << unix.CAP_SYS_ADMIN
		return unix.Capset(&header, &caps[0])
	}, privileged: true},
	{name: "no filter of system calls", try: func() error {
		if status("Seccomp") == "2" {
			return errNothing
		}
		return nil
	}, privileged: true},
	{name: "to be killed last", try: func() error {
		// A score that is only raised is the owner's own affair.
		return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	}},
	{name: "a descriptor that somebody forgot", try: func() error { return foreignDescriptors("self") }},
	{name: "a descriptor that somebody forgot in the first process", try: func() error { return foreignDescriptors("1") }},
	{name: "a working directory outside", try: func() error {
		for _, pid := range []string{"self", "1"} {
			cwd, err := os.Readlink("/proc/" + pid + "/cwd")
			if err != nil {
				return err
			}
			if !strings.HasPrefix(cwd, "/") || strings.Contains(cwd, "(unreachable)") {
				return nil
			}
		}
		return errNothing
	}},
	{name: "processes of the host", try: func() error {
		return processThat(func(dir string) bool {
			name, _ := os.ReadFile(dir + "/comm")
			return slices.Contains([]string{"jobd", "jobd-shim", "systemd", "kthreadd"}, strings.TrimSpace(string(name)))
		})
	}},
	{name: "a process that sees other files", try: func() error {
		here, err := os.Readlink("/proc/self/ns/mnt")
		if err != nil {
			return err
		}
		return processThat(func(dir string) bool {
			there, err := os.Readlink(dir + "/ns/mnt")
			return err == nil && there != here
		})
	}},
	{name: "the host's namespaces", try: func() error {
		// Those that the kernel makes at boot have fixed numbers.
		for kind, number := range map[string]string{
			"uts": "4026531838", "ipc": "4026531839", "pid": "4026531836", "cgroup": "4026531835",
		} {
			if now, err := os.Readlink("/proc/self/ns/" + kind); err != nil || kind != "cgroup" && strings.Contains(now, number) {
				return err
			}
		}
		return errNothing
	}},
	{name: "sockets of others", try: func() error {
		// Abstract ones belong to the network (CVE-2020-15257).
		sockets, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			return err
		}
		if strings.Count(string(sockets), "@") > 0 {
			return nil
		}
		return errNothing
	}},
	{name: "to become root by number", try: func() error {
		if os.Getuid() == 0 {
			return errNothing // it is, in its container
		}
		return unix.Setresuid(0, 0, 0)
	}},
	{name: "groups of root", try: func() error {
		if os.Getuid() == 0 {
			return errNothing
		}
		return unix.Setgroups([]int{0})
	}},
	{name: "to trace a process without a leash", try: func() error {
		err := unix.PtraceSeize(1)
		if os.Getpid() == 1 || err == nil {
			// Within one container, processes of one user may trace each other.
			return errNothing
		}
		return err
	}},
}

// status returns a line of the process's own status.
func status(name string) string {
	content, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// foreignDescriptors finds a descriptor that a process did not open itself and that is not its input or output.
func foreignDescriptors(pid string) error {
	dir := "/proc/" + pid + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue // it was the descriptor of the directory
		}
		n, _ := strconv.Atoi(e.Name())
		var stat unix.Stat_t
		if err := unix.Stat(dir+"/"+e.Name(), &stat); err != nil {
			continue
		}
		isDirectory := stat.Mode&unix.S_IFMT == unix.S_IFDIR && strings.HasPrefix(target, "/proc/")
		made := strings.HasPrefix(target, "anon_inode:[event") || strings.HasPrefix(target, "anon_inode:[pidfd]") ||
			strings.HasPrefix(target, "pidfd:") || strings.HasPrefix(target, "pipe:") || target == "/dev/null" ||
			strings.HasPrefix(target, "/sys/fs/cgroup/cpu") // Go's own, of its own limit
		standard := n <= 2 && slices.Contains([]uint32{unix.S_IFIFO, unix.S_IFCHR, unix.S_IFSOCK}, stat.Mode&unix.S_IFMT)
		if !isDirectory && !made && !standard {
			fmt.Fprintln(os.Stderr, dir, e.Name(), target)
			return nil
		}
	}
	return errNothing
}

// processThat finds a process whose directory in /proc satisfies is.
func processThat(is func(dir string) bool) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil && is("/proc/"+e.Name()) {
			return nil
		}
	}
	return errNothing
}
