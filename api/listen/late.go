package listen

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A port that is taken is tried again after the first of these, and later after twice as long each time, up to the second.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
)

// late listens on an address that another process may have at first: any user of the machine can take one of most ports, as while
// jobd restarts. It tries again until that process lets go of it, so that nothing else has to wait for the address.
type late struct {
	at     *net.TCPAddr
	opened chan struct{} // closed when it listens
	closed chan struct{}

	mu   sync.Mutex
	open net.Listener // nil until it listens
	why  error        // that it does not
	shut bool
}

// listenLate listens on host:port, now or later. It fails only where waiting would not help.
func listenLate(address string) (*late, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &late{at: at, opened: make(chan struct{}), closed: make(chan struct{})}
	l.try()
	if taken := (*AddressInUseError)(nil); l.why != nil && (at.Port == 0 || !errors.As(l.why, &taken)) {
		return nil, l.why
	}
	return l, nil
}

// try listens, unless it has been closed meanwhile.
func (l *late) try() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return
	}
	open, err := net.Listen("tcp", l.at.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		l.why = &AddressInUseError{l.at.String()}
	case err != nil:
		l.why = err
	default:
		l.open, l.why = open, nil
		close(l.opened)
	}
}

// waits returns why it does not listen yet; nil if it does.
func (l *late) waits() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

func (l *late) listener() net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Accept implements net.Listener.
func (l *late) Accept() (net.Conn, error) {
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		if open := l.listener(); open != nil {
			return open.Accept()
		}
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
			l.try()
		}
	}
}

// Addr implements net.Listener.
func (l *late) Addr() net.Addr {
	if open := l.listener(); open != nil {
		return open.Addr()
	}
	return l.at
}

// Close implements net.Listener.
func (l *late) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return net.ErrClosed
	}
	l.shut = true
	close(l.closed)
	if l.open == nil {
		return nil
	}
	return l.open.Close()
}
