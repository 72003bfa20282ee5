package server

import (
	"context"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a unix socket, as the kernel knows it.
type Peer struct {
	PID      int32
	UID, GID uint32
}

type peerKey struct{}

// withPeer keeps the peer of a connection for its requests.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if p, err := peerOf(c); err == nil {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}

func peerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

func peerOf(c net.Conn) (Peer, error) {
	c, _ = innermost(c)
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, net.UnknownNetworkError(c.LocalAddr().Network())
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Peer{}, err
	}
	if credErr != nil {
		return Peer{}, credErr
	}
	return Peer{PID: cred.Pid, UID: cred.Uid, GID: cred.Gid}, nil
}
