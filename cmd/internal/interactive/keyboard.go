package interactive

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
	kubeterm "k8s.io/kubectl/pkg/util/term"
)

// keyboard reads the standard input once, and gives it to one attachment after the other: what is typed while a connection is lost is
// for the next.
type keyboard struct {
	chunks chan []byte
	left   chan struct{} // closed: the keys were typed that leave the session
	hangup chan struct{} // closed: the terminal is gone
}

// newKeyboard begins to read. On a terminal the detach keys leave the session, and its end is a hang-up; else it is the end of the input.
func newKeyboard(in io.Reader, tty bool, detachKeys string) *keyboard {
	k := &keyboard{chunks: make(chan []byte), left: make(chan struct{}), hangup: make(chan struct{})}
	from := &source{Reader: in}
	reader := io.Reader(from)
	if tty {
		if escaping, err := kubeterm.NewDetachableReader(from, detachKeys); err == nil { // CheckKeys was asked
			reader = escaping
		}
	}
	go func() {
		for {
			b := make([]byte, 4096)
			n, err := reader.Read(b)
			if n > 0 {
				k.chunks <- b[:n]
			}
			switch {
			case err == nil:
				continue
			case tty && !from.ended:
				close(k.left)
			case tty:
				close(k.hangup)
			default:
				close(k.chunks)
			}
			return
		}
	}()
	return k
}

// CheckKeys returns an error for detach keys that are none.
func CheckKeys(keys string) error {
	_, err := kubeterm.NewDetachableReader(nil, keys)
	return err
}

// source remembers whether what it reads has ended: whoever finds the detach keys in it says so as the end.
type source struct {
	io.Reader
	ended bool
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.ended = s.ended || err != nil
	return n, err
}

// keys is what is typed during one attachment.
type keys struct {
	from *keyboard
	rest []byte
	done chan struct{}
	once sync.Once
}

func (k *keyboard) begin() *keys { return &keys{from: k, done: make(chan struct{})} }

func (k *keys) end() { k.once.Do(func() { close(k.done) }) }

func (k *keys) Read(b []byte) (int, error) {
	if len(k.rest) == 0 {
		select {
		case <-k.done:
			return 0, io.EOF
		default:
		}
		select {
		case chunk, more := <-k.from.chunks:
			if !more {
				return 0, io.EOF
			}
			k.rest = chunk
		case <-k.done:
			return 0, io.EOF
		}
	}
	n := copy(b, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// IsTerminal reports whether something is a terminal.
func IsTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// makeRaw passes each key on as it is, and returns what ends that.
func makeRaw(in io.Reader) (restore func()) {
	f, ok := in.(*os.File)
	if !ok {
		return func() {}
	}
	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	return func() { _ = term.Restore(int(f.Fd()), state) } // a terminal that is gone has no mode
}
