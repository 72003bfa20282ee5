package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// recoverContainer takes over what a dead shard has left of a container. It returns nil when the start of the container
// had not begun.
//
// One that still runs is adopted where the kernel will report how it ends. Its output has waited in the pipes; only the
// beginning of a line that the dead shard held is missing from the log. Elsewhere it is killed and reported as lost at
// once, since nobody could tell success from failure when it ends. So is one in the middle of its start.
func recoverContainer(h *host, dir string, mayAdopt bool) (*container, error) {
	c := newContainer(h, dir, protocol.Start{})
	if err := readRecord(dir, startFile, &c.record); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, c.removeDir() // the start record comes before anything is run
		}
		return nil, err
	}
	c.status = protocol.Container{
		ID: c.record.ID, State: protocol.Starting, LogPath: c.record.LogPath, Labels: c.record.Labels,
	}
	if err := readRecord(dir, stateFile, &c.status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	close(c.started)
	if c.status.State.Ended() {
		c.cleanFound()
		return c, nil
	}
	if c.status.State == protocol.Running && mayAdopt {
		if err := c.adopt(); err == nil {
			crash.At("shard.recover.adopted")
			return c, nil
		}
	}
	// First, since what the container has written is lost with the last process that has its pipes open.
	out, err := c.openOutput()
	h.cgroups.Kill(c.record.Cgroup)
	crash.At("shard.recover.ended")
	c.lost(out, err)
	crash.At("shard.recover.lost")
	c.cleanFound()
	return c, nil
}

// cleanFound is clean, except that the shard does not delay its own start for an OCI runtime that has to be run for it.
func (c *container) cleanFound() {
	if c.deletedByRuntime() {
		go c.clean()
		return
	}
	c.clean()
}

func (c *container) adopt() error {
	process, err := adopt(c.status.PID, c.host.cgroups, c.record.Cgroup)
	if err != nil {
		return err
	}
	out, err := c.openOutput()
	if err != nil {
		process.handle.Close()
		return err
	}
	c.process = process
	if !c.record.Terminal {
		c.output = out
	}
	if c.record.Stdin && !c.record.Terminal {
		c.stdin = adoptStdin(stdinPath(c.dir), c.record.StdinOnce)
	}
	out.copy(c.host.buffers)
	go func() {
		status, told := process.wait()
		end := c.current()
		end.FinishedAt = time.Now()
		if told {
			fold(&end, status)
		} else {
			end.State = protocol.Lost
		}
		c.end(end, out)
	}()
	return nil
}

func (c *container) lost(out *output, unopened error) {
	end := c.current()
	end.State, end.FinishedAt = protocol.Lost, time.Now()
	if end.StartedAt.IsZero() {
		end.StartedAt = end.FinishedAt
	}
	c.noteUsage(&end)
	err := unopened
	if err == nil {
		out.copy(c.host.buffers)
		err = out.drain()
		out.close()
	}
	if err != nil {
		end.LogError = err.Error()
	}
	c.finish(end)
}

// recoverAll takes over everything in a directory of containers.
func recoverAll(h *host, dir string, mayAdopt bool) (map[string]*container, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	found := map[string]*container{}
	for _, e := range entries {
		c, err := recoverContainer(h, filepath.Join(dir, e.Name()), mayAdopt)
		if err != nil {
			return nil, fmt.Errorf("recover container %s: %w", e.Name(), err)
		}
		if c != nil {
			found[c.record.ID] = c
		}
	}
	return found, nil
}
