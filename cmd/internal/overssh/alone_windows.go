package overssh

import (
	"context"
	"io"
	"net"
	"os/exec"
	"sync"
)

// Line makes connections to one socket. The ssh of Windows can neither share one with others nor forward a socket, so each has a process of
// its own.
type Line struct {
	address Address
	errOut  io.Writer
}

// New returns the line to a socket. What ssh says while it connects goes to errOut; what it asks goes to the console itself.
func New(a Address, errOut io.Writer) *Line { return &Line{a, errOut} }

// Dial makes a connection by an ssh of its own.
func (l *Line) Dial(ctx context.Context) (net.Conn, error) {
	args := []string{"-T"}
	for _, option := range []string{
		"ServerAliveInterval=15", "ServerAliveCountMax=3", "ConnectTimeout=20",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no",
	} {
		args = append(args, "-o", option)
	}
	p := &program{said: shown(l.errOut)}
	cmd := exec.Command("ssh", append(append(args, l.address.arguments()...), l.address.passCommand())...)
	cmd.Stderr = p.said
	cmd.WaitDelay = patience
	p.wait = sync.OnceValue(cmd.Wait)
	p.kill = func() {
		_ = cmd.Process.Kill()
		go func() { _ = p.wait() }()
	}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, l.address.noWay("", err)
	}
	return p.connection(ctx, l.address)
}

func (a Address) forwardingHelps() string { return "" }
