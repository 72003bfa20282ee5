// Package server is a shard itself: the process (cmd/jobd-shim) that holds containers for the daemon and outlives it.
// Run takes over a directory, serves the socket in there, and launches the OCI runtime for each container that it is
// asked to start.
//
// Everything of a container is in a directory of its own below the shard's: its bundle, the pipes of its output, the
// record of its start and that of its end. Beside those the shard writes logs, where it is told to, and removes the
// control groups of what has ended. Mounts are in mount namespaces that end with the containers. What a dead shard has
// left in the directory the next one recovers.
//
// The daemon does not import this package: it speaks to the process through package shard.
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/filelock"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Server is a shard. There is only one in a process, since it reaps all of the process's children, and only one for a
// directory.
type Server struct {
	dir    string
	build  string
	logger *slog.Logger
	lock   *filelock.Lock // for as long as the process lives
	host   *host

	mu         sync.Mutex
	containers map[string]*container
	peers      map[*peer]struct{}
	closing    bool

	listener net.Listener
}

// Options are the choices a shard has.
type Options struct {
	// Build is the version of the program, for people.
	Build  string
	Logger *slog.Logger
	// NeverAdopt kills the containers of a dead shard and reports them as lost, even where the kernel would report how
	// they end.
	NeverAdopt bool
}

const (
	// removeTime is how long Delete waits for the end of a container it has killed.
	removeTime = 30 * time.Second
	// sendTime is how long a daemon may leave its socket full before it is taken for dead.
	sendTime = 10 * time.Second
)

// New takes a directory over from whatever shard died there. It fails when one is alive.
func New(dir string, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{dir: dir, build: o.Build, logger: o.Logger, peers: map[*peer]struct{}{}}
	if err := os.MkdirAll(protocol.ContainersDir(dir), 0o711); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	var err error
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	cgroups, err := cgroup.Find()
	if err != nil {
		return nil, err
	}
	launcher, err := newLauncher(cgroups.Extra(), calmMonitor())
	if err != nil {
		return nil, err
	}
	reaper, err := newReaper()
	if err != nil {
		return nil, err
	}
	s.host = &host{
		dir: dir, state: filepath.Join(dir, protocol.RuntimeDir), cgroups: cgroups, reaper: reaper, launcher: launcher,
		buffers: &logs.Buffers{}, logger: o.Logger, ended: s.tell,
		places: placesIn(dir), nulls: sync.OnceValues(newNulls),
	}
	s.containers, err = recoverAll(s.host, s.containerDir(""), !o.NeverAdopt && tellsExits())
	if err != nil {
		return nil, err
	}
	return s, nil
}

func lockDir(dir string) (*filelock.Lock, error) {
	l, err := filelock.Take(protocol.LockPath(dir))
	if held := (*filelock.HeldError)(nil); errors.As(err, &held) {
		return nil, fmt.Errorf("shard %s is held by process %d: %w: %w", dir, held.PID, protocol.ErrHeld, errdefs.ErrUnavailable)
	} else if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return l, nil
}

func (s *Server) containerDir(id string) string {
	return filepath.Join(protocol.ContainersDir(s.dir), id)
}

// Listen opens the socket; nobody but root may connect.
func (s *Server) Listen(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("shard: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		l.Close()
		return fmt.Errorf("shard: %w", err)
	}
	s.listener = l
	return nil
}

// Serve answers daemons until Shutdown, which is no error.
func (s *Server) Serve() error {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.closing {
				return nil
			}
			return fmt.Errorf("shard: %w", err)
		}
		go s.serve(&peer{conn: conn, gone: make(chan struct{})})
	}
}

// Shutdown ends Serve, unless the shard holds containers: errdefs.ErrFailedPrecondition.
func (s *Server) Shutdown() error {
	if err := s.refuseStarts(); err != nil {
		return err
	}
	return s.listener.Close()
}

// refuseStarts begins the end of a shard that holds nothing.
func (s *Server) refuseStarts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.containers); n > 0 {
		return fmt.Errorf("shard holds %d containers: %w", n, errdefs.ErrFailedPrecondition)
	}
	s.closing = true
	return nil
}

// peer is a daemon that is connected.
type peer struct {
	mu   sync.Mutex
	conn net.Conn
	gone chan struct{} // closed when it has hung up
}

// send sends a message. It hangs up on a daemon that does not read, which finds everything again when it comes back.
func (p *peer) send(m *protocol.Message) {
	frame, err := protocol.Encode(m, nil)
	if err != nil {
		p.conn.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if _, err := p.conn.Write(frame); err != nil {
		p.conn.Close()
	}
}

// sendFiles is send with open files.
func (p *peer) sendFiles(m *protocol.Message, files []*os.File) {
	frame, err := protocol.Encode(m, nil)
	conn, ok := p.conn.(*net.UnixConn)
	if err != nil || !ok {
		p.conn.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if err := protocol.WriteFiles(conn, frame, files); err != nil {
		p.conn.Close()
	}
}

// tell sends an exit to every daemon that is connected.
func (s *Server) tell(c protocol.Container) {
	s.mu.Lock()
	peers := make([]*peer, 0, len(s.peers))
	for p := range s.peers {
		peers = append(peers, p)
	}
	s.mu.Unlock()
	for _, p := range peers {
		p.send(&protocol.Message{Op: protocol.OpExit, Container: &c})
	}
}

func (s *Server) serve(p *peer) {
	defer func() {
		s.mu.Lock()
		delete(s.peers, p)
		s.mu.Unlock()
		p.conn.Close()
		close(p.gone)
	}()
	r := bufio.NewReaderSize(p.conn, 4<<10)
	for {
		m, body, err := protocol.Decode(r)
		if err != nil {
			return
		}
		if m.Op == protocol.OpHello {
			s.mu.Lock()
			s.peers[p] = struct{}{}
			s.mu.Unlock()
		}
		switch m.Op {
		case protocol.OpExec:
			go s.serveExec(p, &m)
			continue
		case protocol.OpAttach:
			go s.serveAttach(p, &m)
			continue
		}
		go func() {
			reply := protocol.Message{Op: protocol.OpReply, Seq: m.Seq}
			if err := s.do(&m, body, &reply); err != nil {
				reply.Error = protocol.EncodeError(err)
			}
			p.send(&reply)
			if m.Op == protocol.OpShutdown && reply.Error == nil {
				s.listener.Close() // after the answer: with it the process ends
			}
		}()
	}
}

func (s *Server) do(m *protocol.Message, body []byte, reply *protocol.Message) error {
	switch m.Op {
	case protocol.OpHello:
		reply.Hello = &protocol.Hello{
			Version: protocol.Version, PID: os.Getpid(), Build: s.build,
			Capabilities: protocol.Capabilities(),
		}
		return nil
	case protocol.OpStart:
		if m.Start == nil {
			return fmt.Errorf("start of nothing: %w", errdefs.ErrInvalidArgument)
		}
		m.Start.Spec = body
		c, err := s.start(*m.Start)
		if err == nil || c.ID != "" {
			reply.Container = &c
		}
		return err
	case protocol.OpCallOff:
		return s.callOff(m.ID)
	case protocol.OpSignal:
		c, err := s.find(m.ID)
		if err != nil {
			return err
		}
		if m.Once {
			return c.signalOnce(unix.Signal(m.Signal))
		}
		return c.signal(unix.Signal(m.Signal), m.All)
	case protocol.OpCloseStdin:
		c, err := s.find(m.ID)
		if err != nil {
			return err
		}
		return c.closeStdin()
	case protocol.OpDelete:
		c, err := s.remove(m.ID)
		reply.Container = &c
		return err
	case protocol.OpList:
		reply.Containers = s.list()
		return nil
	case protocol.OpShutdown:
		return s.refuseStarts()
	}
	return fmt.Errorf("operation %s: %w", m.Op, errdefs.ErrNotImplemented)
}

func (s *Server) find(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[id]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("container %s: %w", id, errdefs.ErrNotFound)
}

func (s *Server) start(start protocol.Start) (protocol.Container, error) {
	if start.ID == "" || start.ID == "." || start.ID == ".." || strings.ContainsRune(start.ID, '/') {
		return protocol.Container{}, fmt.Errorf("container ID %q: %w", start.ID, errdefs.ErrInvalidArgument)
	}
	if !filepath.IsAbs(start.Runtime) {
		return protocol.Container{}, fmt.Errorf("OCI runtime %q is no absolute path: %w", start.Runtime, errdefs.ErrInvalidArgument)
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return protocol.Container{}, protocol.ErrEnding
	}
	if c := s.containers[start.ID]; c != nil {
		s.mu.Unlock()
		return c.result()
	}
	c := newContainer(s.host, s.containerDir(start.ID), start)
	s.containers[start.ID] = c
	s.mu.Unlock()
	c.start()
	if c.err != nil {
		s.forget(c)
	}
	return c.result()
}

func (s *Server) forget(c *container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers[c.record.ID] == c { // the start may have been repeated
		delete(s.containers, c.record.ID)
	}
}

func (s *Server) remove(id string) (protocol.Container, error) {
	c, err := s.find(id)
	if err != nil {
		return protocol.Container{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	if err := c.remove(ctx); err != nil {
		return c.current(), err
	}
	crash.At("shard.removed")
	s.forget(c)
	return c.current(), nil
}

// callOff ends the start of a container, if it is under way, and returns when nothing of it is left.
func (s *Server) callOff(id string) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	if !c.callOff() {
		return fmt.Errorf("container %s: its start is over: %w", id, errdefs.ErrFailedPrecondition)
	}
	_, err = s.remove(id)
	if errors.Is(err, errdefs.ErrNotFound) { // whoever has started it was faster
		return nil
	}
	return err
}

func (s *Server) list() []protocol.Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]protocol.Container, 0, len(s.containers))
	for _, c := range s.containers {
		all = append(all, c.current())
	}
	slices.SortFunc(all, func(a, b protocol.Container) int { return strings.Compare(a.ID, b.ID) })
	return all
}
