package network

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnetlink is a socket by which the kernel is asked to change links, addresses and routes of the network namespace in
// which the socket was made, from whatever thread. The kernel does so while it is asked, so that nobody has to wait for
// its answer. It is safe for concurrent use.
type rtnetlink struct {
	mu sync.Mutex
	fd int
}

func openRTNetlink() (*rtnetlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("rtnetlink: %w", os.NewSyscallError("socket", err))
	}
	return &rtnetlink{fd: fd}, nil
}

func (s *rtnetlink) close() { unix.Close(s.fd) }

// change is a request to change something.
type change struct {
	what    string // for errors
	request *nl.NetlinkRequest
	more    []byte // further requests, as they are sent after it; a change with such is not the last one
}

func newChange(what string, kind, flags int, data ...nl.NetlinkRequestData) change {
	c := change{what: what, request: nl.NewNetlinkRequest(kind, flags)}
	for _, d := range data {
		c.request.AddData(d)
	}
	return c
}

// do makes several changes in order, with one system call. The kernel tries each of them, even after one that has failed.
// The error is that of the first one.
func (s *rtnetlink) do(changes ...change) error {
	// An error is always answered, and success only if that is asked for. So the answer to the last one is also that
	// there was no error before it.
	last := changes[len(changes)-1].request
	last.Flags |= unix.NLM_F_ACK
	var message []byte
	for _, c := range changes {
		message = append(append(message, c.request.Serialize()...), c.more...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := unix.Sendto(s.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("%s: %w", changes[0].what, os.NewSyscallError("sendto", err))
	}
	var first error
	for {
		// What follows the error code is cut off: it only repeats the request.
		answer := make([]byte, unix.SizeofNlMsghdr+4)
		n, _, err := unix.Recvfrom(s.fd, answer, unix.MSG_DONTWAIT)
		if err != nil {
			return fmt.Errorf("%s: %w", changes[0].what, os.NewSyscallError("recvfrom", err))
		}
		if n < len(answer) || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
			continue
		}
		of, code := binary.NativeEndian.Uint32(answer[8:]), int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:]))
		for _, c := range changes {
			if c.request.Seq == of && code != 0 && first == nil {
				first = fmt.Errorf("%s: %w", c.what, unix.Errno(-code))
			}
		}
		if of == last.Seq {
			return first
		}
	}
}

// index returns the index of an interface.
func (s *rtnetlink) index(link string) (int, error) {
	request, err := unix.NewIfreq(link)
	if err != nil {
		return 0, fmt.Errorf("index of %s: %w", link, err)
	}
	if err := unix.IoctlIfreq(s.fd, unix.SIOCGIFINDEX, request); err != nil {
		return 0, fmt.Errorf("index of %s: %w", link, err)
	}
	return int(request.Uint32()), nil
}
