package server

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Run is the life of a shard's process: it serves a directory until it is told to shut down, by a daemon or by SIGTERM while it
// holds nothing. ready may be nil.
func Run(dir, socket string, ready *os.File, o Options) error {
	s, err := New(dir, o)
	if err == nil {
		if socket == "" {
			socket = protocol.SocketPath(dir)
		}
		err = s.Listen(socket)
	}
	if ready != nil {
		word := protocol.ReadyWord
		if err != nil {
			word = err.Error()
			if errors.Is(err, protocol.ErrHeld) {
				word = protocol.HeldWord + word
			}
		}
		fmt.Fprint(ready, word)
		ready.Close()
	}
	if err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM)
	signal.Ignore(unix.SIGHUP, unix.SIGINT) // whoever sends these means somebody else
	go func() {
		for range asked {
			if err := s.Shutdown(); err != nil {
				s.logger.Warn("not ended", "error", err)
			}
		}
	}()
	return s.Serve()
}
