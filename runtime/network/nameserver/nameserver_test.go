package nameserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"
)

// table implements Names from a map; a value that is not an address is an alias.
type table map[string][]string

func (n table) Lookup(name string) (addrs []netip.Addr, alias string, found bool) {
	values, ok := n[name]
	for _, v := range values {
		if a, err := netip.ParseAddr(v); err == nil {
			addrs = append(addrs, a)
		} else {
			alias = v
		}
	}
	return addrs, alias, ok
}

func (n table) Ports(port, protocol, service string, most int) (all []Port, found bool) {
	addrs, _, found := n.Lookup(service)
	if (port != "http" || protocol != "tcp") && port+protocol != "" {
		return nil, false
	}
	for i, a := range addrs[:min(len(addrs), most)] {
		all = append(all, Port{Target: fmt.Sprintf("pod-%d.%s", i, service), Addr: a, Number: 8080})
	}
	return all, found
}

func (n table) Reverse(addr netip.Addr) (all []string) {
	for name, values := range n {
		if slices.Contains(values, addr.String()) {
			all = append(all, name)
		}
	}
	return all
}

func serve(t *testing.T, c Config) string {
	t.Helper()
	c.Address, c.Domain, c.Logger = netip.MustParseAddrPort("127.0.0.1:0"), "cluster.local", slog.New(slog.DiscardHandler)
	if !c.Clients.IsValid() {
		c.Clients = netip.MustParsePrefix("127.0.0.0/8")
	}
	s, err := Listen(c)
	for errors.Is(err, syscall.EADDRINUSE) { // the port that was free for UDP is somebody's for TCP
		s, err = Listen(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s.servers[0].PacketConn.LocalAddr().String()
}

func query(t *testing.T, network, server, name string, kind uint16) *dns.Msg {
	t.Helper()
	m := &dns.Msg{}
	m.SetQuestion(name, kind)
	reply, _, err := (&dns.Client{Net: network}).Exchange(m, server)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return reply
}

func answers(m *dns.Msg) (out []string) {
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			out = append(out, rr.A.String())
		case *dns.CNAME:
			out = append(out, rr.Target)
		case *dns.SRV:
			out = append(out, fmt.Sprintf("%s:%d weight %d", rr.Target, rr.Port, rr.Weight))
		case *dns.PTR:
			out = append(out, rr.Ptr)
		}
	}
	slices.Sort(out)
	return out
}

func TestAnswers(t *testing.T) {
	// The resolver of the host is another server of this test.
	host := serve(t, Config{Names: table{"elsewhere": {"192.0.2.80"}}, Upstream: []string{}})
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("10.64.0.%d", i+1)
	}
	server := serve(t, Config{Upstream: []string{host}, Names: table{
		"db.default.svc": {"10.64.0.2", "10.64.0.3"}, "empty.default.svc": nil, "many.default.svc": many,
		"alias.default.svc": {"example.org"}, "home.default.svc": {"127.0.0.9"},
	}})
	for _, c := range []struct {
		name, ask string
		kind      uint16
		code      int
		want      []string
	}{
		{"a Service is its pods", "db.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.64.0.2", "10.64.0.3"}},
		{"case does not matter", "DB.default.SVC.cluster.Local.", dns.TypeA, dns.RcodeSuccess, []string{"10.64.0.2", "10.64.0.3"}},
		{"there is no IPv6, which is no error", "db.default.svc.cluster.local.", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"a Service without pods exists", "empty.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, nil},
		{"a name that is not there is not asked elsewhere", "nobody.default.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"nor is the reverse name of a pod", "5.0.0.127.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, nil},
		{"a pod's reverse name", "9.0.0.127.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, []string{"home.default.svc.cluster.local."}},
		{"which has no address", "9.0.0.127.in-addr.arpa.", dns.TypeA, dns.RcodeSuccess, nil},
		{"a port of a Service", "_http._tcp.db.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess,
			[]string{"pod-0.db.default.svc.cluster.local.:8080 weight 50", "pod-1.db.default.svc.cluster.local.:8080 weight 50"}},
		{"case does not matter there either", "_HTTP._TCP.db.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess,
			[]string{"pod-0.db.default.svc.cluster.local.:8080 weight 50", "pod-1.db.default.svc.cluster.local.:8080 weight 50"}},
		{"all ports of a Service", "db.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess,
			[]string{"pod-0.db.default.svc.cluster.local.:8080 weight 50", "pod-1.db.default.svc.cluster.local.:8080 weight 50"}},
		{"of one without pods", "empty.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess, nil},
		{"of none", "nobody.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeNameError, nil},
		{"nobody has it yet", "_http._tcp.empty.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess, nil},
		{"a port is no address", "_http._tcp.db.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, nil},
		{"another protocol", "_http._udp.db.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeNameError, nil},
		{"an alias leads on", "alias.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"example.org."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, network := range []string{"udp", "tcp"} {
				reply := query(t, network, server, c.ask, c.kind)
				if reply.Rcode != c.code || !slices.Equal(answers(reply), c.want) {
					t.Errorf("%s: %s %v", network, dns.RcodeToString[reply.Rcode], answers(reply))
				}
				if !reply.Authoritative || !strings.EqualFold(reply.Question[0].Name, c.ask) {
					t.Errorf("%s: %v", network, reply)
				}
			}
		})
	}
	t.Run("what does not fit is asked for again over TCP", func(t *testing.T) {
		if reply := query(t, "udp", server, "many.default.svc.cluster.local.", dns.TypeA); !reply.Truncated || len(reply.Answer) == 0 {
			t.Errorf("over UDP: truncated %v, %d answers", reply.Truncated, len(reply.Answer))
		}
		if reply := query(t, "tcp", server, "many.default.svc.cluster.local.", dns.TypeA); len(reply.Answer) != 200 {
			t.Errorf("over TCP: %d answers", len(reply.Answer))
		}
		for size, want := range map[uint16]bool{1232: true, 65535: false} {
			m := &dns.Msg{}
			m.SetQuestion("many.default.svc.cluster.local.", dns.TypeA)
			m.SetEdns0(size, false)
			reply, _, err := (&dns.Client{}).Exchange(m, server)
			if err != nil {
				t.Fatal(err)
			}
			reply.Compress = true // as it came
			if reply.Truncated != want || reply.Len() > int(size) || reply.IsEdns0() == nil {
				t.Errorf("with room for %d: truncated %t, %d bytes", size, reply.Truncated, reply.Len())
			}
		}
	})
}

// Names of other domains are answered by the resolvers of the host, in turn.
func TestOtherNamesGoToTheHostsResolvers(t *testing.T) {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		reply := &dns.Msg{}
		reply.SetReply(q)
		rr, _ := dns.NewRR(q.Question[0].Name + " 60 IN A 192.0.2.80")
		reply.Answer = []dns.RR{rr}
		_ = w.WriteMsg(reply)
	})
	started := make(chan struct{})
	upstream := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: handler, NotifyStartedFunc: func() { close(started) }}
	go func() { _ = upstream.ListenAndServe() }()
	<-started
	t.Cleanup(func() { _ = upstream.Shutdown() })

	// The first resolver does not exist.
	server := serve(t, Config{Upstream: []string{"127.0.0.1:1", upstream.PacketConn.LocalAddr().String()}, Names: table{}})
	if reply := query(t, "udp", server, "example.org.", dns.TypeA); !slices.Equal(answers(reply), []string{"192.0.2.80"}) {
		t.Errorf("got %v", reply)
	}
	// A refusal by one of them is not the end either.
	refuses := serve(t, Config{Clients: netip.MustParsePrefix("10.64.0.0/20"), Names: table{}})
	if reply := query(
		t, "udp", serve(t, Config{Upstream: []string{refuses, upstream.PacketConn.LocalAddr().String()}, Names: table{}}),
		"example.org.", dns.TypeA,
	); len(answers(reply)) != 1 {
		t.Errorf("after a refusal: %v", reply)
	}
	if reply := query(t, "udp", serve(t, Config{Upstream: []string{refuses}, Names: table{}}), "example.org.", dns.TypeA); reply.Rcode != dns.RcodeRefused {
		t.Errorf("with a refusal only: %v", reply)
	}
	none := serve(t, Config{Upstream: []string{}, Names: table{}})
	if reply := query(t, "udp", none, "example.org.", dns.TypeA); reply.Rcode != dns.RcodeServerFailure {
		t.Errorf("without resolvers: %v", reply)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	server := serve(t, Config{Clients: netip.MustParsePrefix("10.64.0.0/20"), Names: table{"db.default.svc": {"10.64.0.2"}}})
	if reply := query(t, "udp", server, "db.default.svc.cluster.local.", dns.TypeA); reply.Rcode != dns.RcodeRefused {
		t.Errorf("got %v", reply)
	}
}
