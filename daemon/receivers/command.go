package receivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/daemon/notify"
)

// command runs a program of the administrator's for each notice: in a process group of its own, which ends with the time that it
// has. No text of a notice is among its arguments; it has them in its environment and as JSON on its standard input.
type command struct {
	*notify.Command
	host string
}

// maxOutput is how much of what a program says is kept for the error.
const maxOutput = 1 << 10

func (c *command) send(ctx context.Context, n *notify.Pending) error {
	input, err := n.JSON(c.host)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=" + path(), "LANG=C.UTF-8"}, n.Environment(c.host)...)
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return run(cmd, input)
}

// run runs a program to its end, and ends all that it has started with it.
func run(cmd *exec.Cmd, input []byte) error {
	said := &head{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endGroup := func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.Cancel = endGroup
	cmd.WaitDelay = 2 * time.Second // for who has left the group with its output
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it has succeeded; what it has started holds its output
		err = nil
	}
	if cmd.Process != nil {
		_ = endGroup() // what it has left behind; there is mostly nothing
	}
	if err != nil {
		if text := oneLine(said.text); text != "" {
			return fmt.Errorf("%s: %w: %s", cmd.Path, err, text)
		}
		return fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return nil
}

func path() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// head keeps the beginning of what is written, and takes the rest.
type head struct{ text []byte }

func (t *head) Write(b []byte) (int, error) {
	t.text = append(t.text, b[:min(len(b), maxOutput-len(t.text))]...)
	return len(b), nil
}
