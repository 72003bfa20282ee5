package shard

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readFiles reads once, with the files that were sent along.
func readFiles(conn *net.UnixConn, buffer []byte) (n int, files []*os.File, err error) {
	rights := make([]byte, unix.CmsgSpace(4*8))
	n, m, _, _, err := conn.ReadMsgUnix(buffer, rights)
	if err != nil {
		return n, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return n, nil, err
	}
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			continue // it is about something else
		}
		for _, fd := range fds {
			// So that a read can be given up.
			if err := unix.SetNonblock(fd, true); err != nil {
				return n, files, err
			}
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	return n, files, nil
}

// sendFiles is send with open files.
func (p *peer) sendFiles(m *message, files []*os.File) {
	frame, err := encode(m, nil)
	conn, ok := p.conn.(*net.UnixConn)
	if err != nil || !ok {
		p.conn.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.SetWriteDeadline(time.Now().Add(sendTime))
	err = withFDs(files, nil, func(fds []int) error {
		_, _, err := conn.WriteMsgUnix(frame, unix.UnixRights(fds...), nil)
		return err
	})
	if err != nil {
		p.conn.Close()
	}
}

// withFDs calls fn with the numbers of files. Other than os.File.Fd it leaves them as they are: not to block is a property
// of what is open, which a terminal here shares with its copies elsewhere.
func withFDs(files []*os.File, fds []int, fn func(fds []int) error) error {
	if len(files) == 0 {
		return fn(fds)
	}
	conn, err := files[0].SyscallConn()
	if err != nil {
		return fmt.Errorf("file %s: %w", files[0].Name(), err)
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = withFDs(files[1:], append(fds, int(fd)), fn) }); err != nil {
		return fmt.Errorf("file %s: %w", files[0].Name(), err)
	}
	return inner
}
