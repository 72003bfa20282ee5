// Package conns knows the connections of the API's listeners: which are open, who has opened them, which give way to others, and
// whether a client is still there. It knows nothing of requests but that a connection serves one.
package conns

import (
	"container/list"
	"maps"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// MaxIdle bounds the connections of one listener on which no request is served: those that have sent nothing yet, are
// in the middle of a handshake or of the headers of a request, or wait for the client's next request. Those that a
// request is served on are bounded with the requests.
const MaxIdle = 1000

// A peer over the network may open connectBurst connections at once, and connectRate a second after that: a handshake of
// TLS costs a millisecond. Programs of the host are exempt, since they cannot be told apart.
const (
	connectRate  = 100
	connectBurst = 1000
	// manyRates is how many peers' rates are kept before those that have no effect are forgotten.
	manyRates = 1024
)

// MaxLoose bounds the streams of HTTP/2 of one listener that hold no place: their requests are refused, or served but for what the
// client has not read of the answer, which may be the headers and the body of the request, a goroutine and a few KiB each. A connection
// is hung up on for them only if they have taken looseTime together.
const (
	MaxLoose  = 1000
	looseTime = time.Second
)

// A client may break off breakBurst streams of a connection of HTTP/2, and breakRate a second after that, as watches that it needs no more.
// Beyond that it is hung up on: to begin a stream and break it off costs it nothing, and the server a request each time (CVE-2023-44487).
const (
	breakRate  = 10
	breakBurst = 100
)

// Table holds the open connections of a listener, by the peer that has opened them. There is always room for a
// new one: when too many do nothing, one of the peer that has most of those is closed, so that a client which opens
// connections without end takes the place of its own.
type Table struct {
	most int // that do nothing

	mu     sync.Mutex
	peers  map[string]*list.List // of *conn that do nothing, the one that was busy last at the back
	idle   int
	open   int
	rates  map[string]*rate.Limiter
	closed uint64 // to make room, or because they came too fast

	born  time.Time
	loose int                // streams that hold no place
	with  map[*Conn]struct{} // those that have some
}

// New makes the table of a listener. At most so many of its connections may do nothing.
func New(most int) *Table {
	return &Table{most: most, peers: map[string]*list.List{}, rates: map[string]*rate.Limiter{}, born: time.Now(), with: map[*Conn]struct{}{}}
}

// Listen returns a listener whose connections are counted.
func (t *Table) Listen(l net.Listener) net.Listener { return &countedListener{l, t} }

type countedListener struct {
	net.Listener
	table *Table
}

func (l *countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted := newConn(c, l.table, peerName(c))
		if _, local := c.LocalAddr().(*net.UnixAddr); !local && counted.Peer != Loopback &&
			!l.table.inTime(counted.Peer) {
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
func (t *Table) inTime(peer string) bool {
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

// Conn is one connection in the table.
type Conn struct {
	net.Conn
	table  *Table
	Peer   string
	breaks *rate.Limiter // of streams that the client breaks off

	// Guarded by the table.
	requests int           // that are served on it
	place    *list.Element // among those of its peer that do nothing; nil while it does something, and once it is closed
	gone     bool
	loose    int           // streams that hold no place
	since    time.Duration // the sum of the times since when that is so, from the table's beginning
}

func newConn(c net.Conn, t *Table, peer string) *Conn {
	return &Conn{Conn: c, table: t, Peer: peer, breaks: rate.NewLimiter(breakRate, breakBurst)}
}

// NetConn returns the connection itself.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Hold keeps the connection open while a request is served on it, until release.
func (c *Conn) Hold() {
	c.table.change(func() {
		c.requests++
		c.leave()
	})
}

// Release says that the request has been served.
func (c *Conn) Release() {
	c.table.change(func() {
		if c.requests--; c.requests == 0 && !c.gone {
			c.park()
		}
	})
}

// Close may be called again.
func (c *Conn) Close() error {
	c.table.change(func() {
		if !c.gone {
			c.gone = true
			c.table.open--
			c.leave()
			c.table.loose -= c.loose
			delete(c.table.with, c)
		}
	})
	return c.Conn.Close()
}

// park adds the connection to those that do nothing.
func (c *Conn) park() {
	t := c.table
	if t.peers[c.Peer] == nil {
		t.peers[c.Peer] = list.New()
	}
	c.place = t.peers[c.Peer].PushBack(c)
	t.idle++
}

// leave removes the connection from those that do nothing.
func (c *Conn) leave() {
	if c.place == nil {
		return
	}
	t := c.table
	if t.peers[c.Peer].Remove(c.place); t.peers[c.Peer].Len() == 0 {
		delete(t.peers, c.Peer)
	}
	c.place = nil
	t.idle--
}

// change changes the table by calling do, and then closes a connection if too many do nothing.
func (t *Table) change(do func()) {
	t.mu.Lock()
	do()
	var victim *Conn
	if t.idle > t.most {
		var most *list.List
		for _, of := range t.peers {
			if most == nil || of.Len() > most.Len() {
				most = of
			}
		}
		victim = most.Front().Value.(*Conn)
		victim.leave()
		t.closed++
	} else if t.loose > MaxLoose {
		if victim = t.loosest(); victim != nil {
			t.closed++
		}
	}
	t.mu.Unlock()
	if victim != nil {
		_ = victim.Close() // a client that still wants it connects again
	}
}

// Figures returns how many connections are open, how many of those do nothing, and how many were closed
// by the table.
func (t *Table) Figures() (open, idle int, closed uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open, t.idle, t.closed
}
