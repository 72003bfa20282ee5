package nameserver

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/fairshare"
)

const (
	// maxConnections is how many TCP connections one client may have at a time.
	maxConnections = 16
	// writeTimeout is how long a client may take to read an answer.
	writeTimeout = 2 * time.Second
	// unread is how much the kernel may hold of queries over UDP that nobody has read yet, some ten thousand: all clients share it.
	unread = 4 << 20
)

// forwarding bounds the queries that resolvers of the host are asked at a time, so that no client uses up what is there
// for all. A query waits at most two seconds for its turn: a client asks again after five, and a resolver takes some of
// these.
var forwarding = fairshare.Limits{Total: 256, User: 64, QueueAll: 4096, Queue: 512, Wait: 2 * time.Second}

// answering bounds the queries about names of the cluster that are looked up at a time. Most take a few microseconds, and those
// about a Service with very many endpoints a thousand times that.
var answering = fairshare.Limits{Total: 8, User: 2, QueueAll: 4096, Queue: 256, Wait: 2 * time.Second}

// shares counts how many of something each client has. The zero value is ready.
type shares struct {
	mu   sync.Mutex
	held map[netip.Addr]int
}

// take counts one more for a client and reports true, or false if the client has its share already.
func (s *shares) take(client netip.Addr, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[client] >= most {
		return false
	}
	if s.held == nil {
		s.held = map[netip.Addr]int{}
	}
	s.held[client]++
	return true
}

func (s *shares) giveBack(client netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[client]--; s.held[client] == 0 {
		delete(s.held, client)
	}
}

// clientOf returns the address of a client; not valid if it is not an IP address.
func clientOf(from net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// fairListener accepts connections of clients that may ask, up to its share for each.
type fairListener struct {
	net.Listener
	clients netip.Prefix
	shares  shares
}

// Accept closes the connections of others, and those beyond a client's share.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(c.RemoteAddr())
		if l.clients.Contains(client) && l.shares.take(client, maxConnections) {
			return &fairConn{Conn: c, giveBack: sync.OnceFunc(func() { l.shares.giveBack(client) })}, nil
		}
		c.Close()
	}
}

// fairConn does not wait long for a client that does not read.
type fairConn struct {
	net.Conn
	giveBack func()
}

func (c *fairConn) Write(data []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(data)
}

func (c *fairConn) Close() error {
	c.giveBack()
	return c.Conn.Close()
}

// holdQueries lets the kernel hold more datagrams than usual, for a moment in which many clients ask and others have the processor.
func holdQueries(c net.PacketConn) {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if socket, err := raw.SyscallConn(); err == nil {
		_ = socket.Control(func(fd uintptr) { // without CAP_NET_ADMIN it holds what is usual
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, unread)
		})
	}
}
