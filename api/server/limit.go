package server

import (
	"net"
	"sync"
)

// limitConnections has a listener accept no further connection while most of them are open. Unlike those of
// netutil.LimitListener they tell which socket they are of, for watchHangUp.
func limitConnections(l net.Listener, most int) net.Listener {
	limited := &limitedListener{Listener: l, places: make(chan struct{}, most), closed: make(chan struct{})}
	limited.close = sync.OnceFunc(func() { close(limited.closed) })
	return limited
}

type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	close  func()
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{c, sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limitedListener) Close() error {
	l.close()
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	leave func()
}

func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// NetConn is the connection itself.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }
