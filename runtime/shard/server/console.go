package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// consoleTime is how long an OCI runtime that has succeeded may keep us waiting for the terminal.
const consoleTime = 10 * time.Second

// console is a socket over which an OCI runtime hands over a new terminal.
type console struct {
	path     string
	listener *net.UnixListener
}

func (h *host) listenConsole() (*console, error) {
	// Beside the bundles, whose paths may be too long for a socket.
	path := filepath.Join(filepath.Dir(h.state), protocol.ConsolePrefix+strconv.FormatUint(h.named.Add(1), 10))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &console{path, l}, nil
}

func (c *console) close() { c.listener.Close() }

func (c *console) terminal() (*os.File, error) {
	if err := c.listener.SetDeadline(time.Now().Add(consoleTime)); err != nil {
		return nil, err
	}
	conn, err := c.listener.AcceptUnix()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(consoleTime)); err != nil {
		return nil, err
	}
	_, files, err := protocol.ReadFiles(conn, make([]byte, 4<<10))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		protocol.CloseAll(files)
		return nil, fmt.Errorf("the OCI runtime sent %d terminals: %w", len(files), errdefs.ErrUnknown)
	}
	return files[0], nil
}
