// Package listen opens what the API is served on: the socket, an address of the network, and one for pods alone; and it keeps the
// authority whose certificates the server shows and recognizes. What is answered there is not its concern.
package listen

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jobd/jobd/api/conns"
)

// Listener is what a Server serves on: made by Unix, Users, TLS, ForPods or ForManagers.
type Listener struct {
	net.Listener
	tls         *tls.Config // nil on the socket
	path        string      // of the socket
	late        *late       // nil if it listens from the start
	pods, users bool
	managers    bool
}

// TLS returns how clients are answered; nil on the socket.
func (l *Listener) TLS() *tls.Config { return l.tls }

// ForPods reports whether only ServiceAccounts are let in.
func (l *Listener) ForPods() bool { return l.pods }

// ForUsers reports whether all users of this machine are let in, each as who they are.
func (l *Listener) ForUsers() bool { return l.users }

// Waits returns why it does not listen yet, which it tries again while it is served; nil if it does.
func (l *Listener) Waits() error {
	if l.late == nil {
		return nil
	}
	return l.late.waits()
}

// Opened is closed when one that Waits listens.
func (l *Listener) Opened() <-chan struct{} { return l.late.opened }

// Serve answers by a server until that is shut down, when it returns nil. The connections are kept in a table.
func (l *Listener) Serve(server *http.Server, c *conns.Table) error {
	var err error
	if l.tls != nil {
		err = server.ServeTLS(c.Listen(l), "", "")
	} else {
		err = server.Serve(c.Listen(l))
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", l.Addr(), err)
}

// Close removes the socket and stops listening, in this order: as long as it is served, nobody else takes the path.
func (l *Listener) Close() error {
	var err error
	if l.path != "" {
		if err = os.Remove(l.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, l.Listener.Close())
}

// SocketInUseError reports that another process serves the socket.
type SocketInUseError struct {
	Path string
	Peer conns.Peer
}

func (e *SocketInUseError) Error() string {
	return fmt.Sprintf("the socket %s is served by process %d (%s): stop it, or choose another --socket", e.Path,
		e.Peer.PID, processName(e.Peer.PID))
}

// AddressInUseError reports that another process has the port.
type AddressInUseError struct{ Address string }

func (e *AddressInUseError) Error() string {
	_, port, _ := net.SplitHostPort(e.Address)
	return fmt.Sprintf("another process has the port of %s: find it with ss -tanp sport = :%s, or choose another address", e.Address, port)
}

// NotLoopbackError reports that an address can be reached from outside, which was not asked for.
type NotLoopbackError struct{ Address string }

func (e *NotLoopbackError) Error() string {
	return fmt.Sprintf("%s is not a loopback address: other machines could reach it", e.Address)
}

// Unix makes the socket of administrators, for its owner and the members of a group, if there is one of that name: they can start
// containers as root, which is as good as being root. A socket that nobody serves any more is replaced; one that is served is a
// *SocketInUseError.
func Unix(path, group string) (*Listener, error) {
	return unixSocket(path, func(young string) error {
		if err := os.Chmod(young, 0o660); err != nil {
			return err
		}
		g, err := user.LookupGroup(group)
		if err != nil {
			return nil
		}
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			return err
		}
		return os.Chown(young, -1, gid)
	})
}

// Users makes a socket that all users of this machine can open.
func Users(path string) (*Listener, error) {
	l, err := unixSocket(path, func(young string) error { return os.Chmod(young, 0o666) })
	if l != nil {
		l.users = true
	}
	return l, err
}

func unixSocket(path string, open func(young string) error) (*Listener, error) {
	if err := checkStale(path); err != nil {
		return nil, err
	}
	// It gets its name only when its mode is set, so that nobody can connect too early.
	young := youngSocket(path)
	if longest := 107; len(young) > longest || len(path) > longest {
		return nil, fmt.Errorf("the path of the socket %s is too long: the system allows %d bytes", path,
			longest-len(filepath.Base(young)))
	}
	// One may have been left by a process of the same number that was killed.
	if err := os.Remove(young); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make the socket %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: young, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make the socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err = open(young); err == nil {
		err = os.Rename(young, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the socket %s: %w", path, err), l.Close(), os.Remove(young))
	}
	return &Listener{Listener: l, path: path}, nil
}

// youngSocket returns the temporary path of a socket of this process, until it may be found.
func youngSocket(path string) string {
	return filepath.Join(filepath.Dir(path), "."+strconv.Itoa(os.Getpid())+".sock")
}

// checkStale lets a socket be replaced that was left behind by a process that is gone. Until then it stays: clients try
// again where nobody answers, but some give up where nothing is.
func checkStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is not a socket: it is left alone, choose another --socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask who serves the socket: %w", err)
	}
	defer c.Close()
	p, err := conns.PeerOf(c)
	if err != nil {
		return fmt.Errorf("ask who serves the socket %s: %w", path, err)
	}
	return &SocketInUseError{Path: path, Peer: p}
}

func processName(pid int32) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "of unknown name"
	}
	return strings.TrimSpace(string(name))
}

// TLS listens on host:port with certificates of the authority, as soon as no other process does (Waits). Addresses that are not
// loopback are refused with a *NotLoopbackError unless exposed is set.
func TLS(address string, authority *Authority, exposed bool) (*Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: an address is HOST:PORT, such as 127.0.0.1:6443: %w", address, err)
	}
	if ip := net.ParseIP(host); !exposed && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &NotLoopbackError{address}
	}
	l, err := listenLate(address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Listener{Listener: l, late: l, tls: authority.serverConfig(host)}, nil
}

// ForPods takes a free port of an address, or the one given, for clients whose addresses are among those given:
// it authenticates them by the tokens of their ServiceAccounts, and by nothing else.
func ForPods(at netip.AddrPort, clients netip.Prefix, authority *Authority) (*Listener, error) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	// The users of the machine may have taken all ports that are given out: there are others, which only root can take.
	for port := highestOfRoot; at.Port() == 0 && errors.Is(err, syscall.EADDRINUSE) && port >= lowestTried; port-- {
		l, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), port)))
	}
	if err != nil {
		return nil, fmt.Errorf("serve the API to pods: %w", err)
	}
	return &Listener{Listener: within{l, clients}, tls: authority.serverConfig(""), pods: true}, nil
}

// The ports that only root can take, as far as one of them is looked for.
const (
	highestOfRoot uint16 = 1023
	lowestTried   uint16 = 512
)

// within accepts connections from some addresses only. The network should keep others from the port; a connection that
// it lets through is closed before a byte is read.
type within struct {
	*net.TCPListener
	clients netip.Prefix
}

func (w within) Accept() (net.Conn, error) {
	for {
		c, err := w.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(); w.clients.Contains(from) {
			return c, nil
		}
		_ = c.Close()
	}
}
