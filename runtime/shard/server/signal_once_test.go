package server

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// signals counts the signals that a process gets.
type signals struct {
	failed error
	sent   int
}

func (*signals) killed() {}

func (s *signals) signal(unix.Signal) error {
	if s.failed == nil {
		s.sent++
	}
	return s.failed
}

func TestASignalIsSentOnce(t *testing.T) {
	got := &signals{failed: errors.New("not now")}
	c := &container{host: &host{}, process: got, status: protocol.Container{State: protocol.Running}}
	if err := c.signalOnce(unix.SIGUSR1); !errors.Is(err, got.failed) {
		t.Error(err)
	}
	got.failed = nil
	for range 3 { // one daemon after the other
		if err := c.signalOnce(unix.SIGUSR1); err != nil {
			t.Error(err)
		}
	}
	if got.sent != 1 {
		t.Errorf("it was sent %d times", got.sent)
	}
	if err := c.signal(unix.SIGTERM, false); err != nil || got.sent != 2 {
		t.Errorf("another signal: %v, %d", err, got.sent)
	}
}
