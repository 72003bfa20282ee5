package conns

import (
	"context"
	"errors"
	"net"
)

// ErrStopping is the cause of the end of requests that the server has ended.
var ErrStopping = errors.New("jobd is stopping")

type connKey struct{}

// WithConn keeps a connection for its requests.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// From returns the connection of a request; nil if it is in no table.
func From(ctx context.Context) *Conn {
	for c, _ := ctx.Value(connKey{}).(net.Conn); c != nil; {
		if counted, ok := c.(*Conn); ok {
			return counted
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = inner.NetConn()
	}
	return nil
}
