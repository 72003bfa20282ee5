package network

import (
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
