package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// fork starts a process in the calling thread's namespaces. The kernel kills it when that thread ends.
func fork(program string, argv []string, files [3]*os.File) (int, error) {
	pid, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: "/",
		// Nothing of the daemon's environment gets near a container: NOTIFY_SOCKET would be passed on, for example.
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
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
func commandLine(s *protocol.Start, dir, state, console string) []string {
	argv := append([]string{s.Runtime}, s.RuntimeArgs...)
	argv = append(argv, "--root", state, "--log", filepath.Join(dir, runtimeLog), "--log-format", "json",
		"run", "--detach", "--pid-file", filepath.Join(dir, pidFile), "--bundle", dir)
	if console != "" {
		argv = append(argv, "--console-socket", console)
	}
	return append(argv, s.ID)
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
