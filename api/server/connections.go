package server

import (
	"container/list"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// maxIdle bounds the connections of one listener on which no request is served: those that have sent nothing yet, are
// in the middle of a handshake or of the headers of a request, or wait for the client's next request. Those that a
// request is served on are bounded with the requests.
const maxIdle = 1000

// A peer over the network may open connectBurst connections at once, and connectRate a second after that: a handshake of
// TLS costs a millisecond. Programs of the host are exempt, since they cannot be told apart.
const (
	connectRate  = 100
	connectBurst = 1000
	// manyRates is how many peers' rates are kept before those that have no effect are forgotten.
	manyRates = 1024
)

// connections holds the open connections of a listener, by the peer that has opened them. There is always room for a
// new one: when too many do nothing, one of the peer that has most of those is closed, so that a client which opens
// connections without end takes the place of its own.
type connections struct {
	most int // that do nothing

	mu     sync.Mutex
	peers  map[string]*list.List // of *conn that do nothing, the one that was busy last at the back
	idle   int
	open   int
	rates  map[string]*rate.Limiter
	closed uint64 // to make room, or because they came too fast
}

func newConnections(most int) *connections {
	return &connections{most: most, peers: map[string]*list.List{}, rates: map[string]*rate.Limiter{}}
}

// listen returns a listener whose connections are counted.
func (t *connections) listen(l net.Listener) net.Listener { return &countedListener{l, t} }

type countedListener struct {
	net.Listener
	table *connections
}

func (l *countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted := &conn{Conn: c, table: l.table, peer: peerName(c)}
		if _, local := c.LocalAddr().(*net.UnixAddr); !local && counted.peer != loopback &&
			!l.table.inTime(counted.peer) {
			_ = c.Close()
			continue
		}
		l.table.change(func() {
			l.table.open++
			counted.park()
		})
		return counted, nil
	}
}

// inTime reports whether a peer may open another connection now.
func (t *connections) inTime(peer string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rates) >= manyRates && t.rates[peer] == nil {
		maps.DeleteFunc(t.rates, func(_ string, r *rate.Limiter) bool { return r.Tokens() >= connectBurst })
	}
	if t.rates[peer] == nil {
		t.rates[peer] = rate.NewLimiter(connectRate, connectBurst)
	}
	if !t.rates[peer].Allow() {
		t.closed++
		return false
	}
	return true
}

// conn is one connection in the table.
type conn struct {
	net.Conn
	table *connections
	peer  string

	// Guarded by the table.
	requests int           // that are served on it
	place    *list.Element // among those of its peer that do nothing; nil while it does something, and once it is closed
	gone     bool
}

// NetConn returns the connection itself.
func (c *conn) NetConn() net.Conn { return c.Conn }

// hold keeps the connection open while a request is served on it, until release.
func (c *conn) hold() {
	c.table.change(func() {
		c.requests++
		c.leave()
	})
}

func (c *conn) release() {
	c.table.change(func() {
		if c.requests--; c.requests == 0 && !c.gone {
			c.park()
		}
	})
}

// Close may be called again.
func (c *conn) Close() error {
	c.table.change(func() {
		if !c.gone {
			c.gone = true
			c.table.open--
			c.leave()
		}
	})
	return c.Conn.Close()
}

// park adds the connection to those that do nothing.
func (c *conn) park() {
	t := c.table
	if t.peers[c.peer] == nil {
		t.peers[c.peer] = list.New()
	}
	c.place = t.peers[c.peer].PushBack(c)
	t.idle++
}

// leave removes the connection from those that do nothing.
func (c *conn) leave() {
	if c.place == nil {
		return
	}
	t := c.table
	if t.peers[c.peer].Remove(c.place); t.peers[c.peer].Len() == 0 {
		delete(t.peers, c.peer)
	}
	c.place = nil
	t.idle--
}

// change changes the table by calling do, and then closes a connection if too many do nothing.
func (t *connections) change(do func()) {
	t.mu.Lock()
	do()
	var victim *conn
	if t.idle > t.most {
		var most *list.List
		for _, of := range t.peers {
			if most == nil || of.Len() > most.Len() {
				most = of
			}
		}
		victim = most.Front().Value.(*conn)
		victim.leave()
		t.closed++
	}
	t.mu.Unlock()
	if victim != nil {
		_ = victim.Close() // a client that still wants it connects again
	}
}

// figures returns how many connections are open, how many of those do nothing, and how many were closed
// by the table.
func (t *connections) figures() (open, idle int, closed uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open, t.idle, t.closed
}

// innermost returns the connection of the kernel's below those of TLS and of the table, and that of the table if there
// is one.
func innermost(c net.Conn) (net.Conn, *conn) {
	var counted *conn
	for {
		if found, ok := c.(*conn); ok {
			counted = found
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c, counted
		}
		c = inner.NetConn()
	}
}

// peerName returns who has opened a connection: the user, on the socket, or else the address. All of the host's own
// programs share one, since any of them may use any address of the loopback network; and a network of IPv6 is one,
// since a machine has as many addresses there as it likes.
func peerName(c net.Conn) string {
	if p, err := peerOf(c); err == nil {
		return fmt.Sprintf("uid:%d", p.UID)
	}
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	at := from.Addr().Unmap()
	switch {
	case at.IsLoopback():
		return loopback
	case at.Is6():
		network, err := at.Prefix(64)
		if err == nil {
			return network.String()
		}
	}
	return at.String()
}

const loopback = "loopback"
