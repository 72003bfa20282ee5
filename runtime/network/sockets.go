package network

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/thread"
)

const (
	// Of a pod with so few sockets it is only asked which rings they have: the kernel finds most others among those of all pods.
	fewSockets = 64

	// From linux/packet_diag.h.
	packetShowRings                   = 1 << 2
	packetReceiveRing, packetSendRing = 2, 3
)

// manySockets is how many of a pod are looked at: the kernel begins anew with each page that is read, and programs have a handful.
var manySockets = 10_000

// socketColumn is the index of the column that says how much memory a socket holds, in tables of /proc/net. In those of IP that is what waits
// to be sent and what waits to be read, as hexadecimal numbers; of TCP the bytes alone.
const socketColumn = 4

// uncounted are the tables of sockets whose memory the kernel counts for no control group, uncountedByV1 those for which version 1 of
// control groups does not either.
var (
	uncounted     = []string{"netlink", "raw", "raw6", "icmp", "icmp6"}
	uncountedByV1 = []string{"udp", "udp6", "tcp", "tcp6"}
)

// uncountedHere returns the tables of this machine.
var uncountedHere = sync.OnceValue(func() []string {
	if groups, err := cgroup.Find(); err == nil && !groups.CountSockets() {
		return slices.Concat(uncounted, uncountedByV1)
	}
	return uncounted
})

// SocketMemory returns how much memory a pod's sockets hold in no control group, in its own network namespace: messages that
// nobody reads, and rings of packets. It takes no rights to hold 200 kB in each of any number of them. all is false where there are more
// than can be looked at.
func (n *Network) SocketMemory(podUID string) (bytes int64, all bool, err error) {
	s, err := n.Sockets(podUID)
	if err != nil || s == nil {
		return 0, true, err
	}
	defer s.Close()
	return s.Memory()
}

// Sockets are those of a network namespace of a pod, which somebody may have when the pod is gone.
type Sockets struct {
	pod       string
	namespace *os.File
}

// Sockets returns the sockets of a pod. They are to be closed. Nil: it has the host's network.
func (n *Network) Sockets(podUID string) (*Sockets, error) {
	namespace, err := n.pins.Find(n.namespaces(podUID).path("net"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sockets of pod %s: %w", podUID, err)
	}
	return &Sockets{podUID, namespace}, nil
}

// Close lets go of the namespace.
func (s *Sockets) Close() error { return s.namespace.Close() }

// Memory is what SocketMemory says of them.
func (s *Sockets) Memory() (bytes int64, all bool, err error) {
	err = thread.Run(func() error {
		if err := unix.Setns(int(s.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		bytes, all, err = socketMemory(uncountedHere())
		return err
	})
	if err != nil {
		return bytes, all, fmt.Errorf("sockets of pod %s: %w", s.pod, err)
	}
	return bytes, all, nil
}

// socketMemory is SocketMemory of the thread's namespace.
func socketMemory(tables []string) (bytes int64, all bool, err error) {
	sum, left := int64(0), manySockets
	add := func(table string, column int) error {
		return socketRows(table, func(fields []string) bool {
			if left--; left < 0 || column >= len(fields) {
				return left >= 0
			}
			sum += rowMemory(fields[column])
			return true
		})
	}
	used, err := socketsUsed()
	if err == nil && used > 0 {
		err = add("packet", 6)
	}
	if err == nil && left < manySockets && left >= 0 {
		var rings int64
		rings, err = ringMemory()
		sum += rings
	}
	if err == nil && used > fewSockets {
		for _, table := range tables {
			err = errors.Join(err, add(table, socketColumn))
		}
	}
	return sum, left >= 0, err
}

// rowMemory reads a column: a number, or two in hexadecimal.
func rowMemory(column string) int64 {
	waiting, unread, pair := strings.Cut(column, ":")
	if !pair {
		n, _ := strconv.ParseInt(column, 10, 64)
		return n
	}
	a, _ := strconv.ParseInt(waiting, 16, 64)
	b, _ := strconv.ParseInt(unread, 16, 64)
	return a + b
}

// socketRows calls fn with the fields of each row below the head of a table, until it returns false. A table that the kernel does not have
// is empty.
func socketRows(table string, fn func([]string) bool) error {
	f, err := os.Open("/proc/thread-self/net/" + table)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	rows := bufio.NewScanner(f)
	for head := true; rows.Scan(); head = false {
		if !head && !fn(strings.Fields(rows.Text())) {
			return nil
		}
	}
	return rows.Err()
}

// socketsUsed returns how many sockets there are.
func socketsUsed() (used int, err error) {
	content, err := os.ReadFile("/proc/thread-self/net/sockstat")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(string(content), "sockets: used %d", &used)
	return used, err
}

// ringMemory returns what the rings of sockets for packets hold.
func ringMemory() (sum int64, err error) {
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	ask := make([]byte, 20)
	ask[0] = unix.AF_PACKET
	binary.NativeEndian.PutUint32(ask[8:], packetShowRings)
	request.AddRawData(ask)
	const head = 16
	err = request.ExecuteIter(unix.NETLINK_SOCK_DIAG, 0, func(m []byte) bool {
		if len(m) < head {
			return true
		}
		attributes, err := nl.ParseRouteAttr(m[head:])
		if err != nil {
			return true
		}
		for _, a := range attributes {
			if kind := a.Attr.Type; (kind == packetReceiveRing || kind == packetSendRing) && len(a.Value) >= 8 {
				size, count := binary.NativeEndian.Uint32(a.Value), binary.NativeEndian.Uint32(a.Value[4:])
				sum += int64(size) * int64(count)
			}
		}
		return true
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil // this kernel does not say, or says what there was meanwhile
	}
	return sum, err
}
