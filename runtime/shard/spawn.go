package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// readyTimeout bounds how long a new shard may take until it listens; it may first have to clean up after the
// containers of a dead one.
const readyTimeout = 30 * time.Second

func connect(ctx context.Context, o Options) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if client, err := Dial(ctx, protocol.SocketPath(o.Dir), o.OnExit); err == nil {
			o.enterCgroup(client.Hello().PID) // a daemon that died just after it had started it did not get that far
			return client, nil
		}
		err := spawn(ctx, o)
		if err == nil {
			return Dial(ctx, protocol.SocketPath(o.Dir), o.OnExit)
		}
		if !errors.Is(err, protocol.ErrHeld) {
			return nil, err
		}
		// Held by one that an earlier daemon started just before it died, and that is about to listen, or by one that
		// is about to exit.
		select {
		case <-time.After(heldPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// heldPause is the time between attempts to reach a shard that another process holds.
const heldPause = 20 * time.Millisecond

// spawn starts a shard detached from this process, and returns when it listens.
func spawn(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Dir, 0o711); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	output, err := os.OpenFile(protocol.LogPath(o.Dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	defer output.Close()
	ready, signal, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	defer ready.Close()
	cmd := exec.Command(o.Binary, "--dir", o.Dir, "--ready-fd", "3")
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{signal}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	signal.Close()
	if err != nil {
		return fmt.Errorf("start shard: %w", err)
	}
	crash.At("spawn.started")
	o.enterCgroup(cmd.Process.Pid)
	// The OOM killer should take anything else first. Not every process may ask for that.
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj"), []byte("-999"), 0)
	go cmd.Wait() // it outlives us, or else is reaped here

	stop := context.AfterFunc(ctx, func() { ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	word, err := io.ReadAll(ready)
	switch {
	case string(word) == protocol.ReadyWord:
		return nil
	case strings.HasPrefix(string(word), protocol.HeldWord):
		err = fmt.Errorf("%w: %s", protocol.ErrHeld, word[len(protocol.HeldWord):])
	}
	if err == nil {
		err = errors.New(cmp.Or(string(word), "it ended, see "+output.Name()))
	}
	return fmt.Errorf("start shard %s: %w: %w", o.Dir, errdefs.ErrUnavailable, err)
}

func (o *Options) enterCgroup(pid int) {
	if o.Cgroup == "" {
		return
	}
	if err := cgroup.Enter(o.Cgroup, pid); err != nil {
		o.Logger.Warn("cannot move a shard out of the daemon's control group", "shard", o.Dir, "error", err)
	}
}
