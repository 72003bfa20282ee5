package server

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// Run is the whole life of a shard's process: it serves a directory until a daemon tells it to shut down, or until
// SIGTERM, which it follows only while it holds nothing. ready may be nil.
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
				s.logger.Warn("cannot end at SIGTERM", "error", err)
			}
		}
	}()
	return s.Serve()
}
