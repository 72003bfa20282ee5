package network

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// No control group counts what sockets hold that nobody reads, nor rings of packets: it is a pod's all the same.
func TestSocketMemory(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		hider, other := newPod("hider", 1), newPod("other", 1)
		a := setUp(t, n, hider)
		setUp(t, n, other)
		held := func(uid string) (bytes int64, all bool) {
			t.Helper()
			bytes, all, err := n.SocketMemory(uid)
			if err != nil {
				t.Fatal(err)
			}
			return bytes, all
		}
		var open []int
		defer func() {
			for _, fd := range open {
				unix.Close(fd)
			}
		}()
		hold := func(fill func() (fd int, err error), times int) {
			t.Helper()
			if err := inside(t, a, func() error {
				for range times {
					fd, err := fill()
					if err != nil {
						return err
					}
					open = append(open, fd)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if bytes, all := held("hider"); bytes != 0 || !all {
			t.Fatalf("a new pod holds %d, %v", bytes, all)
		}
		hold(ring, 1)
		if bytes, all := held("hider"); bytes != 8<<20 || !all {
			t.Errorf("with a ring of 8 MiB it holds %d, %v", bytes, all)
		}
		hold(unreadMessages, 2*fewSockets)
		if bytes, all := held("hider"); bytes < 8<<20+2*fewSockets*100<<10 || !all {
			t.Errorf("with %d full sockets it holds %d, %v", 2*fewSockets, bytes, all)
		}
		for _, uid := range []string{"other", "none"} {
			if bytes, all := held(uid); bytes != 0 || !all {
				t.Errorf("%s holds %d, %v", uid, bytes, all)
			}
		}
		hold(func() (int, error) { return unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_USERSOCK) }, 100)
		if _, all := held("hider"); !all {
			t.Error("some hundred sockets are too many")
		}
		defer func(was int) { manySockets = was }(manySockets)
		manySockets = 50
		if bytes, all := held("hider"); bytes < 8<<20 || all {
			t.Errorf("of more sockets than are looked at %d, %v", bytes, all)
		}
	})
}

// Sockets that somebody else has are counted when their pod has ended.
func TestSocketMemoryOfAPodThatIsGone(t *testing.T) {
	inOwnNetwork(t, func() {
		root := t.TempDir()
		n := open(t, root, Bridge)
		defer n.remove(t, root)
		a := setUp(t, n, newPod("gone", 1))
		var given []int
		if err := inside(t, a, func() error {
			for range 2 * fewSockets {
				fd, err := unreadMessages()
				if err != nil {
					return err
				}
				given = append(given, fd)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		left, err := n.Sockets("gone")
		if err != nil {
			t.Fatal(err)
		}
		defer left.Close()
		if err := n.TearDown("gone"); err != nil {
			t.Fatal(err)
		}
		if bytes, all, err := left.Memory(); err != nil || !all || bytes < 2*fewSockets*100<<10 {
			t.Errorf("they hold %d, %v, %v", bytes, all, err)
		}
		for _, fd := range given {
			unix.Close(fd)
		}
		if bytes, all, err := left.Memory(); err != nil || !all || bytes != 0 {
			t.Errorf("when they are closed they hold %d, %v, %v", bytes, all, err)
		}
		if none, err := n.Sockets("gone"); none != nil || err != nil {
			t.Errorf("a pod that is gone has sockets: %v, %v", none, err)
		}
	})
}

// Version 1 of control groups does not count what waits to be read from sockets of UDP and TCP.
func TestSocketMemoryThatVersion1DoesNotCount(t *testing.T) {
	inOwnNetwork(t, func() {
		for _, network := range []string{"udp4", "udp6", "tcp4", "tcp6"} {
			before, _, err := socketMemory(slices.Concat(uncounted, uncountedByV1))
			if err != nil {
				t.Fatal(err)
			}
			var open []io.Closer
			for range 2 * fewSockets {
				ends, err := unread(network)
				open = append(open, ends...)
				if err != nil {
					t.Fatal(err)
				}
			}
			// What is sent on the loopback has arrived.
			if bytes, all, err := socketMemory(slices.Concat(uncounted, uncountedByV1)); err != nil || !all || bytes < before+2*fewSockets*50<<10 {
				t.Errorf("%s: they hold %d, before %d; %v, %v", network, bytes, before, all, err)
			}
			if bytes, _, err := socketMemory(uncounted); err != nil || bytes != 0 {
				t.Errorf("%s: for version 2 they hold %d, %v", network, bytes, err)
			}
			for _, end := range open {
				end.Close()
			}
		}
	})
}

// unread makes a socket from which nobody reads what has been sent to it, and that which has sent it.
func unread(network string) (ends []io.Closer, err error) {
	local := "127.0.0.1:0"
	if strings.HasSuffix(network, "6") {
		local = "[::1]:0"
	}
	var to net.Addr
	if strings.HasPrefix(network, "udp") {
		reader, err := net.ListenPacket(network, local)
		if err != nil {
			return ends, err
		}
		ends, to = append(ends, reader), reader.LocalAddr()
	} else {
		l, err := net.Listen(network, local)
		if err != nil {
			return ends, err
		}
		ends, to = append(ends, l), l.Addr() // nobody accepts
	}
	writer, err := net.Dial(network, to.String())
	if err != nil {
		return ends, err
	}
	ends = append(ends, writer)
	for sent := 0; sent < 120<<10; {
		n, err := writer.Write(make([]byte, 30<<10))
		if err != nil {
			return ends, err
		}
		sent += n
	}
	return ends, nil
}

// ring makes a socket with a ring of 8 MiB.
func ring() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{
		Block_size: 1 << 16, Block_nr: 128, Frame_size: 1 << 11, Frame_nr: 128 * 32,
	})
}

// unreadMessages makes a socket and sends it messages, until it has no more room.
func unreadMessages() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.NETLINK_USERSOCK)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fd, err
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		return fd, err
	}
	message := make([]byte, 3500)
	*(*unix.NlMsghdr)(unsafe.Pointer(&message[0])) = unix.NlMsghdr{Len: uint32(len(message)), Type: 0x20}
	for err == nil {
		err = unix.Sendto(fd, message, 0, self)
	}
	if err != unix.EAGAIN {
		return fd, err
	}
	return fd, nil
}
