package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// freshKeys gives the calling thread, and what it forks, a session keyring without a name. An OCI runtime joins one that is called as its
// container, whoever has made it: any user of the host may have done so, since processes show the IDs of their containers, and what a pod's
// next one is called follows from that. They would have the keys of somebody else's container.
func freshKeys() error {
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && err != unix.ENOSYS { // a kernel without keys
		return fmt.Errorf("new session keyring: %w", err)
	}
	return nil
}

// fork starts a process in the calling thread's namespaces, and with its keys. The kernel kills it when that thread ends. extra, which may
// be nil, becomes the file after the others.
func fork(program string, argv []string, files [3]*os.File, extra *os.File) (int, error) {
	all := []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}
	if extra != nil {
		all = append(all, extra.Fd())
	}
	pid, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: "/",
		// Nothing of the daemon's environment gets near a container: NOTIFY_SOCKET would be passed on, for example.
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: all,
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("exec %s: %w", argv[0], err)
	}
	return pid, nil
}

// commandLine returns the one call of an OCI runtime that starts a container. It is a detached one: the container's
// first process then becomes our child, so that its exact end is known, and a runtime that fails differs from a
// container that does.
func (c *container) commandLine(console string) []string {
	argv := c.runtime(filepath.Join(c.dir, runtimeLog),
		"run", "--detach", "--pid-file", filepath.Join(c.dir, pidFile), "--bundle", c.dir)
	if !c.record.ForeignRuntime {
		argv = append(argv, "--no-new-keyring") // it has one already (freshKeys); others may not know the flag
	}
	if console != "" {
		argv = append(argv, "--console-socket", console)
	}
	return append(argv, c.record.ID)
}

// runtime returns a call of the container's OCI runtime, which writes its errors to a log.
func (c *container) runtime(log string, command ...string) []string {
	root := c.host.state
	if c.record.ForeignRuntime {
		root = c.runtimeState()
	}
	argv := append([]string{c.record.Runtime}, c.record.RuntimeArgs...)
	return append(append(argv, "--root", root, "--log", log, "--log-format", "json"), command...)
}

// runtimeState returns the directory where the OCI runtime keeps the state of the container. crun and runc have a
// directory for all containers, in which they make one named after the container's ID. What others keep in theirs is
// unknown, so each container has one of its own, which is removed with all that is in it.
func (c *container) runtimeState() string {
	if c.record.ForeignRuntime {
		return filepath.Join(c.dir, stateDir)
	}
	return filepath.Join(c.host.state, c.record.ID)
}

// runtimeCommand runs a command of the OCI runtime to its end, beside the one that starts the container.
func (c *container) runtimeCommand(command ...string) error {
	null, err := nullFiles(hostNull)
	if err != nil {
		return err
	}
	defer protocol.CloseAll(null[:])
	expected := c.host.reaper.expect()
	defer expected.done()
	status, _, err := c.call(context.Background(), expected, launch{
		argv:    c.runtime(filepath.Join(c.dir, runtimeLog), command...),
		inPlace: c.record.ForeignRuntime, files: null,
	})
	if err == nil && status != 0 {
		err = errors.New(c.runtimeFailure(status))
	}
	return err
}

// runtimeWords returns the last error in the log of an OCI runtime, which is JSON lines.
func runtimeWords(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	words := ""
	for line := range strings.Lines(string(content)) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "error" {
			words = entry.Msg
		}
	}
	return words
}
