package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// program returns the command line of a program that talks to a daemon.
type program func(args ...string) *exec.Cmd

// programs returns jobctl on the socket, and kubectl over TLS by each of its transports.
func (d *daemon) programs(t *testing.T) map[string]program {
	t.Helper()
	command := func(path string, environment ...string) program {
		return func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir()), environment...)
			return cmd
		}
	}
	kubectl, kubeconfig := needKubectl(t), "KUBECONFIG="+filepath.Join(d.root, "kubeconfig")
	return map[string]program{
		"jobctl":  command(filepath.Join(bin, "jobctl"), "JOBD_SOCKET="+d.socket()),
		"kubectl": command(kubectl, kubeconfig, "NO_PROXY=127.0.0.1", "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"),
		"kubectl with SPDY": command(kubectl, kubeconfig, "NO_PROXY=127.0.0.1",
			"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"),
	}
}

// eachRuntime runs a test with every OCI runtime that is installed.
func eachRuntime(t *testing.T, test func(t *testing.T, d *daemon), flags ...string) {
	for _, runtime := range []string{"crun", "runc"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := exec.LookPath(runtime); err != nil {
				t.Skip("needs " + runtime)
			}
			test(t, start(t, append([]string{"--oci-runtime", runtime}, flags...)...))
		})
	}
}

// onTerminal runs a command under script(1), on a terminal of 33 rows and 77 columns.
func onTerminal(t *testing.T, inner *exec.Cmd) *exec.Cmd {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("needs script")
	}
	cmd := exec.CommandContext(t.Context(), script, "-qec", "stty rows 33 cols 77; exec "+strings.Join(inner.Args, " "), "/dev/null")
	cmd.Env = inner.Env
	return cmd
}

// conversation is a command that a test talks to while it runs.
type conversation struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser

	mu   sync.Mutex
	seen strings.Builder
}

func talk(t *testing.T, cmd *exec.Cmd) *conversation {
	t.Helper()
	c := &conversation{t: t, cmd: cmd}
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = c, c
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func (c *conversation) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.Write(b)
}

func (c *conversation) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.String()
}

func (c *conversation) says(words string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, words); err != nil {
		c.t.Fatalf("%s: %v after %q", c.cmd, err, c.output())
	}
}

func (c *conversation) hears(words string) {
	c.t.Helper()
	for late := time.Now().Add(patience); !strings.Contains(c.output(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			c.t.Fatalf("%s does not hear %q but %q", c.cmd, words, c.output())
		}
	}
}

// ends closes the command's stdin, and returns its exit code.
func (c *conversation) ends() int {
	c.in.Close()
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

// kill kills the command.
func (c *conversation) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}
