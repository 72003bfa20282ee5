package overssh

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// timed is a connection with deadlines, which channels of ssh and pipes do not have. One that has passed closes the connection.
type timed struct {
	net.Conn
	read, write deadline
	expired     atomic.Bool
}

func newTimed(c net.Conn) *timed {
	t := &timed{Conn: c}
	t.read.expire, t.write.expire = t.expire, t.expire
	return t
}

func (t *timed) expire() {
	t.expired.Store(true)
	_ = t.Close()
}

func (t *timed) Read(b []byte) (int, error)  { return t.within(&t.read, t.Conn.Read, b) }
func (t *timed) Write(b []byte) (int, error) { return t.within(&t.write, t.Conn.Write, b) }

func (t *timed) within(d *deadline, do func([]byte) (int, error), b []byte) (int, error) {
	d.begin()
	defer d.end()
	n, err := do(b)
	if err != nil && t.expired.Load() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (t *timed) SetReadDeadline(at time.Time) error {
	t.read.set(at)
	return nil
}

func (t *timed) SetWriteDeadline(at time.Time) error {
	t.write.set(at)
	return nil
}

func (t *timed) SetDeadline(at time.Time) error {
	t.read.set(at)
	t.write.set(at)
	return nil
}

// deadline is for what is being done, if anything is.
type deadline struct {
	expire func()

	mu    sync.Mutex
	at    time.Time
	busy  int
	timer *time.Timer
}

func (d *deadline) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy++
	d.arm()
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	d.arm()
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	d.arm()
}

func (d *deadline) arm() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.busy > 0 && !d.at.IsZero() {
		d.timer = time.AfterFunc(time.Until(d.at), d.expire)
	}
}
