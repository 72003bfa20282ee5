package userns

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter calls fn with the PID of a process that stands still in a new user namespace of a range, and in other new
// namespaces that belong to it. The namespace belongs to this process's user: so an OCI runtime may do there what it
// may not do on the host, where root has fewer capabilities than usual.
func enter(first uint32, others uintptr, fn func(pid int) error) error {
	// The process is traced by this thread, and would run on if the thread ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(first), Size: Size}}
	// It stops before the first instruction of the program, which is only there because there has to be one.
	process, err := os.StartProcess("/proc/self/exe", []string{"jobd: user namespace"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Unshareflags: others,
			UidMappings: mapping, GidMappings: mapping, GidMappingsEnableSetgroups: true,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	defer process.Wait()
	defer process.Kill()
	return fn(process.Pid)
}
