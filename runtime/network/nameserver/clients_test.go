package nameserver

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/jobd/jobd/internal/fairshare"
)

// from returns a Dialer with a source address of its own.
func from(network, address string) *net.Dialer {
	at := netip.AddrPortFrom(netip.MustParseAddr(address), 0)
	if network == "udp" {
		return &net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(at)}
	}
	return &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(at)}
}

func TestClientHasItsShareOfConnections(t *testing.T) {
	server := serve(t, Config{Names: table{"db.default.svc": {"10.64.0.2"}}})
	dial := func(client string) *dns.Conn {
		c, err := from("tcp", client).Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return &dns.Conn{Conn: c}
	}
	asks := func(c *dns.Conn) error {
		m := &dns.Msg{}
		m.SetQuestion("db.default.svc.cluster.local.", dns.TypeA)
		if err := c.WriteMsg(m); err != nil {
			return err
		}
		_, err := c.ReadMsg()
		return err
	}
	var held []*dns.Conn
	for range maxConnections {
		c := dial("127.0.0.1")
		if err := asks(c); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if _, err := dial("127.0.0.1").Conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection more than a client may have is answered")
	}
	if err := asks(dial("127.0.0.2")); err != nil {
		t.Errorf("another client: %v", err)
	}
	held[0].Close()
	for limit := time.Now().Add(time.Minute); ; {
		if err := asks(dial("127.0.0.1")); err == nil {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("after a connection was closed: %v", err)
		}
	}
}

func TestConnectionOfAStranger(t *testing.T) {
	server := serve(t, Config{Names: table{}, Clients: netip.MustParsePrefix("127.0.0.2/32")})
	c, err := from("tcp", "127.0.0.1").Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v, want it closed at once", err)
	}
}

// resolverOfTheHost answers queries as it is told.
func resolverOfTheHost(t *testing.T, answer dns.HandlerFunc) (address string) {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	resolver := &dns.Server{PacketConn: packets, NotifyStartedFunc: func() { close(started) }, Handler: answer}
	go func() { _ = resolver.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = resolver.Shutdown() })
	return packets.LocalAddr().String()
}

// A client may send many queries at once: those that exceed its share of the host's resolvers wait.
func TestManyQueriesOfOneClientAreAllAnswered(t *testing.T) {
	const atATime, many = 2, 10
	var asked sync.WaitGroup
	asked.Add(atATime)
	var count atomic.Int32
	upstream := resolverOfTheHost(t, func(w dns.ResponseWriter, query *dns.Msg) {
		if count.Add(1) <= atATime { // none is answered before the client has its share
			asked.Done()
		}
		asked.Wait()
		_ = w.WriteMsg(new(dns.Msg).SetReply(query))
	})
	server := serve(t, Config{Names: table{}, Upstream: []string{upstream}, forwarding: fairshare.Limits{
		Total: 3, User: atATime, QueueAll: many, Queue: many, Wait: time.Minute,
	}})
	c, err := from("udp", "127.0.0.1").Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn := &dns.Conn{Conn: c}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	for i := range many {
		m := &dns.Msg{}
		m.SetQuestion(fmt.Sprintf("n%d.example.org.", i), dns.TypeA)
		if err := conn.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for range many {
		if reply, err := conn.ReadMsg(); err != nil || reply.Rcode != dns.RcodeSuccess {
			t.Fatalf("%v, %v", reply, err)
		}
	}
}

// A client whose queries the resolvers of the host do not answer leaves room for other clients.
func TestClientHasItsShareOfResolvers(t *testing.T) {
	upstream := resolverOfTheHost(t, func(w dns.ResponseWriter, query *dns.Msg) {
		if !strings.HasPrefix(query.Question[0].Name, "slow.") {
			_ = w.WriteMsg(new(dns.Msg).SetReply(query))
		}
	})
	limits := fairshare.Limits{Total: 8, User: 4, Queue: 4, QueueAll: 16, Wait: time.Minute}
	server := serve(t, Config{Names: table{}, Upstream: []string{upstream}, forwarding: limits})
	greedy, err := from("udp", "127.0.0.1").Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer greedy.Close()
	slow := &dns.Conn{Conn: greedy}
	_ = slow.SetDeadline(time.Now().Add(time.Minute))
	for range limits.User + limits.Queue + 10 {
		m := &dns.Msg{}
		m.SetQuestion("slow.example.org.", dns.TypeA)
		if err := slow.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if reply, err := slow.ReadMsg(); err != nil || reply.Rcode != dns.RcodeServerFailure {
		t.Errorf("one too many: %v, %v", reply, err)
	}
	m := &dns.Msg{}
	m.SetQuestion("fast.example.org.", dns.TypeA)
	client := &dns.Client{Net: "udp", Dialer: from("udp", "127.0.0.2")}
	if reply, _, err := client.Exchange(m, server); err != nil || reply.Rcode != dns.RcodeSuccess {
		t.Errorf("another client: %v, %v", reply, err)
	}
}

// slowNames are names of which one takes as long as the test lets it.
type slowNames struct {
	table
	release chan struct{}
	most    atomic.Int32
}

func (n *slowNames) Ports(port, protocol, service string, most int) ([]Port, bool) {
	n.most.Store(int32(most))
	<-n.release
	return n.table.Ports(port, protocol, service, most)
}

func TestNamesThatAreSlowToFindDoNotKeepOthersWaiting(t *testing.T) {
	names := &slowNames{table: table{"big.team.svc": {"10.64.0.2"}, "db.default.svc": {"10.64.0.3"}}, release: make(chan struct{})}
	server := serve(t, Config{Names: names})
	ask := func(client, name string, kind uint16) error {
		m := &dns.Msg{}
		m.SetQuestion(name, kind)
		c := &dns.Client{Dialer: from("udp", client), Timeout: time.Minute}
		reply, _, err := c.Exchange(m, server)
		if err == nil && reply.Rcode != dns.RcodeSuccess {
			err = fmt.Errorf("code %d", reply.Rcode)
		}
		return err
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { _ = ask("127.0.0.1", "big.team.svc.cluster.local.", dns.TypeSRV) })
	}
	for names.most.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, client := range []string{"127.0.0.2", "127.0.0.3"} {
		if err := ask(client, "db.default.svc.cluster.local.", dns.TypeA); err != nil {
			t.Errorf("%s: %v", client, err)
		}
	}
	if most := names.most.Load(); most > 100 {
		t.Errorf("%d records are made for a datagram of 512 bytes", most)
	}
	close(names.release)
	group.Wait()
}
