package protocol

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ReadFiles reads once, and also returns the files that were sent along.
func ReadFiles(conn *net.UnixConn, buffer []byte) (n int, files []*os.File, err error) {
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
			// So that a deadline can end a read.
			if err := unix.SetNonblock(fd, true); err != nil {
				return n, files, err
			}
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	return n, files, nil
}

// WriteFiles writes once, and sends files along, which stay open here.
func WriteFiles(conn *net.UnixConn, b []byte, files []*os.File) error {
	return WithDescriptors(files, nil, func(fds []int) error {
		_, _, err := conn.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
		return err
	})
}

// WithDescriptors calls fn with the numbers of files. Unlike os.File.Fd it leaves them nonblocking or not, as
// they are: that is a property of the open file, which a terminal here shares with its copies elsewhere.
func WithDescriptors(files []*os.File, fds []int, fn func(fds []int) error) error {
	if len(files) == 0 {
		return fn(fds)
	}
	conn, err := files[0].SyscallConn()
	if err != nil {
		return fmt.Errorf("file %s: %w", files[0].Name(), err)
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = WithDescriptors(files[1:], append(fds, int(fd)), fn) }); err != nil {
		return fmt.Errorf("file %s: %w", files[0].Name(), err)
	}
	return inner
}

// CloseAll closes files, some of which may be nil.
func CloseAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
