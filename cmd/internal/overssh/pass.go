package overssh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jobd/jobd/internal/printable"
)

// passing is the line that Pass writes first, since a shell may have written something before it.
const passing = "jobctl passes on\n"

// Pass connects what is read and written to a connection, until the other side ends it.
func Pass(c net.Conn, in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, passing); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(c, in) // what is wrong with the connection is seen below
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err := io.Copy(out, c)
	return err
}

// passCommand is what runs Pass there.
func (a Address) passCommand() string { return "jobctl pass --socket " + a.Socket }

// maxBefore is how much may come before the line of Pass.
const maxBefore = 64 << 10

// program is one that runs Pass there.
type program struct {
	in   io.WriteCloser
	out  io.Reader
	said *words       // its standard error
	wait func() error // until it has ended
	kill func()       // ends it, and waits for nothing
}

// patience is how long a program may take to end once it has neither input nor output.
const patience = 2 * time.Second

// connection returns the connection that the program passes on.
func (p *program) connection(ctx context.Context, a Address) (net.Conn, error) {
	c := &pipes{program: p, out: bufio.NewReaderSize(p.out, maxBefore)}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	for read := 0; read < maxBefore; {
		line, err := c.out.ReadSlice('\n')
		read += len(line)
		switch {
		case err == nil && string(line) == passing:
			return newTimed(c), nil
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
			continue
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		_ = p.in.Close()
		late := time.AfterFunc(patience, p.kill)
		defer late.Stop()
		err = p.wait()
		return nil, a.notPassed(p.said.String(), err)
	}
	_ = c.Close()
	return nil, fmt.Errorf("%s: \"%s\" writes much and does not pass anything on", a.Host, a.passCommand())
}

// notPassed returns the error of a program that was to pass on and has ended.
func (a Address) notPassed(said string, err error) error {
	_, own, isOwn := strings.Cut(said, "error: ")
	switch {
	case strings.Contains(said, "not found"), strings.Contains(said, "unknown command"), strings.Contains(said, "not recognized"):
		return fmt.Errorf("%s needs \"%s\" there, and has no jobctl in the PATH that can do that: install jobd's package there%s", a.Host, a.passCommand(),
			a.forwardingHelps())
	case isOwn:
		return fmt.Errorf("on %s: %s", a.Host, strings.TrimSpace(own))
	case strings.TrimSpace(said) != "":
		return a.noWay(said, err)
	}
	return fmt.Errorf("on %s \"%s\" has ended at once: %w", a.Host, a.passCommand(), err)
}

// pipes are a connection made of the standard input and output of a program.
type pipes struct {
	*program
	out *bufio.Reader
}

func (p *pipes) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p *pipes) CloseWrite() error { return p.in.Close() }

func (p *pipes) Close() error {
	err := p.in.Close()
	p.kill()
	return err
}

func (p *pipes) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (p *pipes) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (p *pipes) SetDeadline(time.Time) error      { return nil }
func (p *pipes) SetReadDeadline(time.Time) error  { return nil }
func (p *pipes) SetWriteDeadline(time.Time) error { return nil }

// words keep the end of what somebody says, who may go on to speak.
type words struct {
	mu   sync.Mutex
	also io.Writer // may be nil
	text []byte
}

const maxWords = 8 << 10

// shown returns words that are written to the terminal as well. They may be those of whoever answers there, and not only of ssh: on
// Windows its standard error is also that of the program on the other machine.
func shown(to io.Writer) *words { return &words{also: lines{printable.Writer(to)}} }

// lines are written without the carriage returns with which ssh ends its own.
type lines struct{ to io.Writer }

func (l lines) Write(b []byte) (int, error) {
	if _, err := l.to.Write(bytes.ReplaceAll(b, []byte("\r"), nil)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = bytes.Clone(w.text[max(0, len(w.text)-maxWords):])
	if w.also != nil {
		return w.also.Write(b)
	}
	return len(b), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}
