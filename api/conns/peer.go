package conns

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a unix socket, as the kernel knows it.
type Peer struct {
	PID      int32
	UID, GID uint32
}

type peerKey struct{}

// WithPeer keeps the peer of a connection for its requests.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	if p, err := PeerOf(c); err == nil {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}

// PeerFrom returns the peer of a request, and whether it has come by the socket.
func PeerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// PeerOf asks the kernel for the process at the other end; on anything but a unix socket it fails.
func PeerOf(c net.Conn) (Peer, error) {
	u, ok := innermost(c).(*net.UnixConn)
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

// innermost returns the connection of the kernel's below those of TLS and of the table.
func innermost(c net.Conn) net.Conn {
	for {
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = inner.NetConn()
	}
}

// Loopback is the name of all programs of the host that connect by TCP.
const Loopback = "loopback"

// peerName returns who has opened a connection: the user, on the socket, or else the address. All of the host's own
// programs share one, since any of them may use any address of the loopback network; and a network of IPv6 is one,
// since a machine has as many addresses there as it likes.
func peerName(c net.Conn) string {
	if p, err := PeerOf(c); err == nil {
		return fmt.Sprintf("uid:%d", p.UID)
	}
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	at := from.Addr().Unmap()
	switch {
	case at.IsLoopback():
		return Loopback
	case at.Is6():
		network, err := at.Prefix(64)
		if err == nil {
			return network.String()
		}
	}
	return at.String()
}
