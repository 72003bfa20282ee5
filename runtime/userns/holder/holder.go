// Package holder makes new user namespaces, and a process that holds them while somebody pins them.
//
// Go starts a program without a copy of its own process, but not in a new user namespace. Copying a large process takes
// milliseconds, and afterwards every page that it writes to costs a page fault. So the daemon has a small program do it
// (By), which does nothing else (Main). A range of ids comes in, a PID goes out, and the process is gone when the call
// returns.
package holder

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Namespaces are a user namespace that is to be made, and others that belong to it.
type Namespaces struct {
	First, Size int     // the ids on the host of its users, and of its groups
	Others      uintptr // CLONE_NEW* of the other namespaces
}

// Fork calls fn with the PID of a copy of this process, which stands still in new namespaces. They belong to this
// process's user: so an OCI runtime may do there what it may not do on the host, where root has fewer capabilities than
// usual.
func Fork(n Namespaces, fn func(pid int) error) error {
	// The process is traced by this thread, and would run on if the thread ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: n.First, Size: n.Size}}
	// It stops before the first instruction of the program, which is only there because there has to be one.
	process, err := os.StartProcess("/proc/self/exe", []string{"jobd: user namespace"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Unshareflags: n.Others,
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

// timeout is how long the program may take in all.
const timeout = 30 * time.Second

// By is Fork, done by a program that calls Main when its first argument is Flag.
func By(program string, n Namespaces, fn func(pid int) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, Flag, n.String())
	cmd.Env = []string{} // nothing of the daemon's
	// The signals of a terminal are not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	end, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, unsaid := bufio.NewReader(out).ReadString('\n')
	if unsaid == nil {
		var pid int
		if pid, err = strconv.Atoi(strings.TrimSpace(line)); err == nil {
			err = fn(pid)
		}
	}
	end.Close()
	switch ended := cmd.Wait(); {
	case ended != nil:
		words, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		err = errors.Join(err, fmt.Errorf("%s: %w: %s", program, ended, cmp.Or(words, "it said nothing")))
	case unsaid != nil:
		err = fmt.Errorf("%s has ended without an answer", program)
	}
	return err
}

// Flag is the first argument of a program that is started by By.
const Flag = "--namespaces"

// Main is what that program does with its second argument: it writes the PID of the process, which is there until the end
// of the input. That comes at the latest when the other side dies.
func Main(argument string, in io.Reader, out io.Writer) error {
	n, err := parse(argument)
	if err != nil {
		return err
	}
	return Fork(n, func(pid int) error {
		if _, err := fmt.Fprintln(out, pid); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, in)
		return err
	})
}

func (n Namespaces) String() string { return fmt.Sprintf("%d:%d:%d", n.First, n.Size, n.Others) }

func parse(text string) (n Namespaces, err error) {
	_, err = fmt.Sscanf(text, "%d:%d:%d", &n.First, &n.Size, &n.Others)
	if err != nil {
		err = fmt.Errorf("namespaces %q: %w", text, err)
	}
	return n, err
}
