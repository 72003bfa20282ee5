package logind

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	// largestMessage is what is read of one message. Answers of logind have some hundred bytes.
	largestMessage = 64 << 10
	// manyDescriptors are as many as the kernel passes at once.
	manyDescriptors = 253
)

// bus is a connection to the system bus that keeps nothing of strangers. Every user of the machine can send messages to any client of the
// bus, by its number: signals of any name, of 32 MB, with open files. A connection of the library decodes all of them, tells of each
// signal, and closes none of the files.
type bus struct {
	conn *net.UnixConn
	stop func() bool // close at the end of the context
	ears ears
	said chan bool     // what logind says: that the machine goes down, or that it stays up
	lost chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	serial  uint32
	waiting map[uint32]chan<- answer // by the serial of the call
}

// answer is one to a call. Its files belong to whoever takes it.
type answer struct {
	body  []any
	files []*os.File
	err   error
}

// connect connects to the system bus until close, or the end of ctx.
func connect(ctx context.Context) (*bus, error) {
	address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	if address == "" {
		address = "unix:path=/run/dbus/system_bus_socket"
	}
	socket, err := socketOf(address)
	if err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{Timeout: callTime}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	b := &bus{conn: c.(*net.UnixConn), said: make(chan bool, 16), lost: make(chan struct{}), waiting: map[uint32]chan<- answer{}}
	b.stop = context.AfterFunc(ctx, func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(callTime))
	if err := greet(c); err != nil {
		b.close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	_ = c.SetDeadline(time.Time{})
	go b.read()
	if _, err := b.call(ctx, busName, busPath, busName, "Hello"); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bus) close() {
	b.stop()
	_ = b.conn.Close()
}

// call calls a method, and waits for its answer.
func (b *bus) call(ctx context.Context, to string, path dbus.ObjectPath, iface, member string, args ...any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	m := dbus.Message{Type: dbus.TypeMethodCall, Body: args, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to), dbus.FieldPath: dbus.MakeVariant(path),
		dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member),
	}}
	if len(args) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(args...))
	}
	var out bytes.Buffer
	if err := m.EncodeTo(&out, binary.LittleEndian); err != nil {
		return answer{}, err
	}
	answers := make(chan answer, 1)
	b.mu.Lock()
	b.serial++
	serial := b.serial
	b.waiting[serial] = answers
	binary.LittleEndian.PutUint32(out.Bytes()[8:], serial)
	_ = b.conn.SetWriteDeadline(time.Now().Add(callTime))
	_, err := b.conn.Write(out.Bytes())
	b.mu.Unlock()
	defer b.forget(serial, answers)
	if err != nil {
		return answer{}, err
	}
	select {
	case a := <-answers:
		return a, a.err
	case <-b.lost:
		return answer{}, errClosed
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s.%s does not answer: %w", iface, member, ctx.Err())
	}
}

var errClosed = errors.New("the bus has closed the connection")

// forget ends the wait for an answer. One that has come in the meantime is dropped.
func (b *bus) forget(serial uint32, answers <-chan answer) {
	b.mu.Lock()
	delete(b.waiting, serial)
	b.mu.Unlock()
	select {
	case a := <-answers:
		closeAll(a.files)
	default:
	}
}

// read takes in what comes, until the connection ends.
func (b *bus) read() {
	defer close(b.lost)
	for {
		m, files, err := readMessage(b.conn)
		if err != nil {
			b.close()
			return
		}
		if m != nil && b.answered(m, files) {
			continue
		}
		closeAll(files)
		if m == nil {
			continue
		}
		if goes, heard := b.ears.hear(m); heard {
			select {
			case b.said <- goes:
			default: // logind never says as much; it is asked anew on the next connection
				b.close()
				return
			}
		}
	}
}

// answered hands an answer to whoever waits for it, with its files.
func (b *bus) answered(m *dbus.Message, files []*os.File) bool {
	a := answer{body: m.Body, files: files}
	switch m.Type {
	case dbus.TypeMethodReply:
	case dbus.TypeError:
		name, _ := m.Headers[dbus.FieldErrorName].Value().(string)
		a.err = dbus.Error{Name: name, Body: m.Body}
	default:
		return false
	}
	serial, _ := m.Headers[dbus.FieldReplySerial].Value().(uint32)
	b.mu.Lock()
	defer b.mu.Unlock()
	to, waits := b.waiting[serial]
	if waits {
		delete(b.waiting, serial)
		to <- a
	}
	return waits
}

// readMessage reads one message, and the files that came with it. It is nil if it is too large, or not as the library has it.
func readMessage(c *net.UnixConn) (*dbus.Message, []*os.File, error) {
	var files []*os.File
	fail := func(err error) (*dbus.Message, []*os.File, error) {
		closeAll(files)
		return nil, nil, err
	}
	start := make([]byte, 16) // the part of the header that is always there
	if err := readFull(c, start, &files); err != nil {
		return fail(err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch start[0] {
	case 'l':
	case 'B':
		order = binary.BigEndian
	default:
		return fail(errors.New("the bus sends what is no message"))
	}
	fields := (int64(order.Uint32(start[12:])) + 7) &^ 7
	rest := fields + int64(order.Uint32(start[4:]))
	if rest > largestMessage {
		for left := rest; left > 0; {
			part := make([]byte, min(left, largestMessage))
			if err := readFull(c, part, &files); err != nil {
				return fail(err)
			}
			left -= int64(len(part))
		}
		return nil, files, nil
	}
	all := append(start, make([]byte, rest)...)
	if err := readFull(c, all[16:], &files); err != nil {
		return fail(err)
	}
	m, err := dbus.DecodeMessage(bytes.NewReader(all))
	if err != nil {
		m = nil
	}
	return m, files, nil
}

// readFull fills b, and adds the files that came with it.
func readFull(c *net.UnixConn, b []byte, files *[]*os.File) error {
	oob := make([]byte, unix.CmsgSpace(manyDescriptors*4))
	for len(b) > 0 {
		n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
		*files = append(*files, filesOf(oob[:oobn])...)
		switch {
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		b = b[n:]
	}
	return nil
}

func filesOf(oob []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		all, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // something else
		}
		for _, fd := range all {
			files = append(files, os.NewFile(uintptr(fd), "file from the system bus"))
		}
	}
	return files
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
