package e2e

import (
	"net"
	"sync"
	"testing"
)

// line is a TCP proxy before a server that can be cut, as the network between two machines can.
type line struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	mode  cut
	moved chan struct{} // closed when the mode changes
	open  map[net.Conn]struct{}
}

// cut is how a line is cut.
type cut string

const (
	lineWhole   cut = ""
	lineRefused cut = "refused" // connections are closed
	lineStalled cut = "stalled" // nothing passes, and nobody is told
)

// lineTo makes a line to a server.
func lineTo(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, to: to, moved: make(chan struct{}), open: map[net.Conn]struct{}{}}
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(lineRefused)
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.connect(c)
		}
	}()
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

// set cuts the line, or mends it.
func (l *line) set(mode cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = mode
	close(l.moved)
	l.moved = make(chan struct{})
	if mode == lineRefused {
		for c := range l.open {
			_ = c.Close()
		}
	}
}

// pass waits while the line is stalled, and reports whether something may pass.
func (l *line) pass() bool {
	for {
		l.mu.Lock()
		mode, moved := l.mode, l.moved
		l.mu.Unlock()
		if mode != lineStalled {
			return mode == lineWhole
		}
		<-moved
	}
}

func (l *line) connect(c net.Conn) {
	defer c.Close()
	if !l.pass() {
		return
	}
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	l.mu.Lock()
	l.open[c], l.open[server] = struct{}{}, struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.open, c)
		delete(l.open, server)
		l.mu.Unlock()
	}()
	go l.copy(server, c)
	l.copy(c, server)
}

// copy copies from one end to the other until the line is cut, or one of them closes.
func (l *line) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !l.pass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
