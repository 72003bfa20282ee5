package overssh

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		c := newTimed(silent{here})
		begin := time.Now()
		read := make(chan error, 1)
		_ = c.SetReadDeadline(begin.Add(time.Second))
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		_ = c.SetReadDeadline(begin.Add(time.Hour)) // while it is being read
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if _, err := there.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the other side: %v", err)
		}
	})
}

// One that passes while nothing is being done does nothing by itself.
func TestADeadlineOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		c := newTimed(silent{here})
		defer c.Close()
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		time.Sleep(time.Minute)
		_ = c.SetDeadline(time.Time{})
		go func() { _, _ = io.Copy(there, there) }()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

// silent has no deadlines, as channels of ssh have none.
type silent struct{ net.Conn }

func (silent) SetDeadline(time.Time) error      { return errors.New("there is no deadline") }
func (silent) SetReadDeadline(time.Time) error  { return errors.New("there is no deadline") }
func (silent) SetWriteDeadline(time.Time) error { return errors.New("there is no deadline") }
