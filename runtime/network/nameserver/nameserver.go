// Package nameserver answers the pods' DNS queries: names of the cluster's domain from what is known here, all others
// by asking the resolvers of the host.
package nameserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/jobd/jobd/internal/fairshare"
)

const (
	// ttl is the time to live of our own answers, in seconds: it is short because pods come and go.
	ttl = 5
	// upstreamTimeout is how long one resolver of the host may take. A client asks again after five seconds.
	upstreamTimeout = 2 * time.Second
	// maxUpstream is how many resolvers of the host are asked at most, as by the host's own library.
	maxUpstream = 3
	// maxDatagram bounds an answer over UDP, whatever the client says.
	maxDatagram = dns.DefaultMsgSize
	resolvConf  = "/etc/resolv.conf"
)

// Names knows the names of the cluster's domain.
type Names interface {
	// Lookup returns the addresses of a name without the domain, in lower case, or the name that it is an alias of.
	Lookup(name string) (addrs []netip.Addr, alias string, found bool)
	// Ports returns where a port of a Service leads, by the port's name and protocol and the Service's name without the
	// domain, all in lower case. Without a name and a protocol it returns all its ports, including those without a
	// name. It looks for no more than most of them.
	Ports(port, protocol, service string, most int) (all []Port, found bool)
	// Reverse returns the names of an address, without the domain.
	Reverse(addr netip.Addr) []string
}

// Port is a port of a pod.
type Port struct {
	Target string // the pod's name, without the domain
	Addr   netip.Addr
	Number uint16
}

// Config configures a Server.
type Config struct {
	// Address is where it listens.
	Address netip.AddrPort
	// Clients are the addresses whose queries are answered.
	Clients netip.Prefix
	// Services are the virtual addresses, whose names are known here; not valid if there are none.
	Services netip.Prefix
	// Domain is the cluster's domain, without leading or trailing dots.
	Domain string
	Names  Names
	// Upstream are the resolvers, host:port; those of /etc/resolv.conf if nil.
	Upstream []string
	Logger   *slog.Logger

	forwarding fairshare.Limits // limits of forwarding; zero: the usual ones
}

// Server answers over UDP and TCP.
type Server struct {
	config     Config
	zone       string // the domain as it appears in messages
	servers    []*dns.Server
	forwarding *fairshare.Places
	answering  *fairshare.Places

	mu       sync.Mutex
	read     time.Time // modification time of resolv.conf when it was read
	upstream []string
}

// Listen binds the ports. Queries are answered once Serve is called.
func Listen(c Config) (*Server, error) {
	s := &Server{
		config: c, zone: dns.Fqdn(c.Domain),
		forwarding: fairshare.New(cmp.Or(c.forwarding, forwarding)), answering: fairshare.New(answering),
	}
	udp, err := net.ListenPacket("udp4", c.Address.String())
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	tcp, err := net.Listen("tcp4", udp.LocalAddr().String())
	if err != nil {
		udp.Close()
		return nil, fmt.Errorf("name server: %w", err)
	}
	holdQueries(udp)
	handler := dns.HandlerFunc(s.answer)
	s.servers = []*dns.Server{
		{PacketConn: udp, Handler: handler},
		{Listener: &fairListener{Listener: tcp, clients: c.Clients}, Handler: handler},
	}
	return s, nil
}

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) {
	var group sync.WaitGroup
	for _, server := range s.servers {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		ended := make(chan struct{})
		group.Go(func() {
			defer close(ended)
			if err := server.ActivateAndServe(); err != nil && ctx.Err() == nil {
				s.config.Logger.Error("the name server has stopped: pods find no names", "error", err)
			}
		})
		group.Go(func() {
			select {
			case <-ended:
				return
			case <-ctx.Done():
			}
			select {
			case <-ended:
			case <-started:
				_ = server.Shutdown()
			}
		})
	}
	group.Wait()
}

// answer answers one query.
func (s *Server) answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := &dns.Msg{}
	switch {
	case !s.mayAsk(w.RemoteAddr()):
		reply.SetRcode(query, dns.RcodeRefused)
	case query.Opcode != dns.OpcodeQuery:
		reply.SetRcode(query, dns.RcodeNotImplemented)
	case len(query.Question) != 1:
		reply.SetRcode(query, dns.RcodeFormatError)
	default:
		reply = s.resolve(w, query)
	}
	_ = w.WriteMsg(reply) // a client that did not get it asks again
}

// mayAsk reports whether a query comes from a pod or the host: nobody else may use this server, however it reaches the
// address.
func (s *Server) mayAsk(from net.Addr) bool {
	return s.config.Clients.Contains(clientOf(from))
}

func (s *Server) resolve(w dns.ResponseWriter, query *dns.Msg) *dns.Msg {
	name := strings.ToLower(query.Question[0].Name)
	overUDP := w.LocalAddr().Network() == "udp"
	size := dns.MaxMsgSize
	if overUDP {
		size = dns.MinMsgSize
		if opt := query.IsEdns0(); opt != nil {
			size = min(max(size, int(opt.UDPSize())), maxDatagram)
		}
	}
	client := clientOf(w.RemoteAddr())
	addr, reverse := s.ownReverse(name)
	var reply *dns.Msg
	if reverse || dns.IsSubDomain(s.zone, name) {
		reply = s.known(client, query, name, addr, maxRecords(size))
		if alias := s.aliasIn(reply, query); alias != "" {
			target := &dns.Msg{}
			target.SetQuestion(alias, query.Question[0].Qtype)
			reply.Answer = append(reply.Answer, s.forward(client, target, overUDP).Answer...)
		}
	} else {
		reply = s.forward(client, query, overUDP)
	}
	reply.Truncate(size)
	return reply
}

// maxRecords is how many records are made for an answer of a size in bytes. Each takes at least 16, so this is one more than
// fits, and the answer is marked as cut. There are never more than there can be pods.
func maxRecords(size int) int { return min(size/16+1, 1024) }

// known answers for a name that is known here, or for an address if that is valid, in a client's turn.
func (s *Server) known(client netip.Addr, query *dns.Msg, name string, addr netip.Addr, most int) *dns.Msg {
	release, ok := s.answering.Take(context.Background(), fairshare.Client{Name: client.String()})
	if !ok {
		return failure(query)
	}
	defer release()
	if addr.IsValid() {
		return s.reverse(query, addr)
	}
	return s.own(query, name, most)
}

func failure(query *dns.Msg) *dns.Msg {
	failed := &dns.Msg{}
	failed.SetRcode(query, dns.RcodeServerFailure)
	return failed
}

// aliasIn returns the name outside of the cluster's domain that an answer has for the name of the query, if more than that was asked for.
func (s *Server) aliasIn(reply, query *dns.Msg) string {
	if len(reply.Answer) != 1 || query.Question[0].Qtype == dns.TypeCNAME {
		return ""
	}
	if alias, ok := reply.Answer[0].(*dns.CNAME); ok && !dns.IsSubDomain(s.zone, alias.Target) {
		return alias.Target
	}
	return ""
}

// own answers for a name of the cluster's domain.
func (s *Server) own(query *dns.Msg, name string, most int) *dns.Msg {
	inside := strings.TrimSuffix(strings.TrimSuffix(name, s.zone), ".")
	if port, service, ok := portName(inside); ok {
		return s.ports(query, port, service, most)
	}
	if query.Question[0].Qtype == dns.TypeSRV {
		if all, found := s.config.Names.Ports("", "", inside, most); found && len(all) > 0 {
			return s.portsAt(query, all)
		}
	}
	addrs, alias, found := s.config.Names.Lookup(inside)
	if !found {
		return s.negative(query, dns.RcodeNameError)
	}
	question := query.Question[0]
	reply := s.authoritative(query)
	header := dns.RR_Header{Name: question.Name, Class: dns.ClassINET, Ttl: ttl}
	if alias != "" {
		header.Rrtype = dns.TypeCNAME
		reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: header, Target: dns.Fqdn(alias)})
		return reply
	}
	if question.Qtype == dns.TypeA || question.Qtype == dns.TypeANY {
		header.Rrtype = dns.TypeA
		// In another order each time, for clients that take the first one.
		rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
		for _, a := range addrs[:min(len(addrs), most)] {
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: a.AsSlice()})
		}
	}
	if len(reply.Answer) == 0 {
		return s.negative(query, dns.RcodeSuccess)
	}
	return reply
}

func (s *Server) authoritative(query *dns.Msg) *dns.Msg {
	reply := &dns.Msg{}
	reply.SetReply(query)
	reply.Authoritative, reply.RecursionAvailable = true, true
	if opt := query.IsEdns0(); opt != nil {
		reply.SetEdns0(opt.UDPSize(), false)
	}
	return reply
}

// negative returns a reply without answers, which says for how long that may be cached.
func (s *Server) negative(query *dns.Msg, code int) *dns.Msg {
	reply := s.authoritative(query)
	reply.Rcode = code
	reply.Ns = []dns.RR{&dns.SOA{
		Hdr: dns.RR_Header{Name: s.zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "ns.dns." + s.zone, Mbox: "hostmaster." + s.zone,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}}
	return reply
}

// portName splits _PORT._PROTOCOL.SERVICE.
func portName(name string) (port [2]string, service string, ok bool) {
	parts := strings.SplitN(name, ".", 3)
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "_") || !strings.HasPrefix(parts[1], "_") {
		return port, "", false
	}
	return [2]string{parts[0][1:], parts[1][1:]}, parts[2], true
}

// ports answers for a port of a Service (RFC 2782): which pods have it, all with the same weight, and at which
// addresses.
func (s *Server) ports(query *dns.Msg, port [2]string, service string, most int) *dns.Msg {
	all, found := s.config.Names.Ports(port[0], port[1], service, most)
	switch {
	case !found:
		return s.negative(query, dns.RcodeNameError)
	case len(all) == 0 || query.Question[0].Qtype != dns.TypeSRV && query.Question[0].Qtype != dns.TypeANY:
		return s.negative(query, dns.RcodeSuccess)
	}
	return s.portsAt(query, all)
}

func (s *Server) portsAt(query *dns.Msg, all []Port) *dns.Msg {
	reply := s.authoritative(query)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all {
		target := p.Target + "." + s.zone
		reply.Answer = append(reply.Answer, &dns.SRV{
			Hdr:    dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeSRV, Class: dns.ClassINET, Ttl: ttl},
			Weight: uint16(max(1, 100/len(all))), Port: p.Number, Target: target,
		})
		reply.Extra = append(reply.Extra, &dns.A{
			Hdr: dns.RR_Header{Name: target, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: p.Addr.AsSlice(),
		})
	}
	return reply
}

// ownReverse reports whether a name is the reverse name of a pod, which no other resolver is asked for, and returns the
// pod's address.
func (s *Server) ownReverse(name string) (addr netip.Addr, own bool) {
	parts := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa."), ".")
	if len(parts) != 4 {
		return addr, false
	}
	slices.Reverse(parts)
	addr, err := netip.ParseAddr(strings.Join(parts, "."))
	return addr, err == nil && (s.config.Clients.Contains(addr) || s.config.Services.Contains(addr))
}

// reverse answers with the names of a pod.
func (s *Server) reverse(query *dns.Msg, addr netip.Addr) *dns.Msg {
	names := s.config.Names.Reverse(addr)
	switch {
	case len(names) == 0:
		return s.negative(query, dns.RcodeNameError)
	case query.Question[0].Qtype != dns.TypePTR && query.Question[0].Qtype != dns.TypeANY:
		return s.negative(query, dns.RcodeSuccess)
	}
	reply := s.authoritative(query)
	for _, name := range names {
		reply.Answer = append(reply.Answer, &dns.PTR{
			Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl},
			Ptr: name + "." + s.zone,
		})
	}
	return reply
}

// forward asks the resolvers of the host, one after the other.
func (s *Server) forward(client netip.Addr, query *dns.Msg, overUDP bool) *dns.Msg {
	release, ok := s.forwarding.Take(context.Background(), fairshare.Client{Name: client.String()})
	if !ok {
		return failure(query)
	}
	defer release()
	resolver := &dns.Client{Net: "udp", Timeout: upstreamTimeout, UDPSize: dns.DefaultMsgSize}
	if !overUDP {
		resolver.Net = "tcp"
	}
	asked := query.Copy()
	asked.Id = dns.Id()
	var refused *dns.Msg
	for _, server := range first(maxUpstream, s.resolvers()) {
		reply, _, err := resolver.Exchange(asked, server)
		if err != nil {
			s.config.Logger.Debug("a resolver of the host does not answer", "resolver", server, "error", err)
			continue
		}
		reply.Id = query.Id
		switch reply.Rcode {
		case dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented:
			// Another one may know: the host's own library goes on asking too.
			refused = reply
		default:
			return reply
		}
	}
	if refused != nil {
		return refused
	}
	return failure(query)
}

func first(most int, list []string) []string { return list[:min(most, len(list))] }

// resolvers returns the resolvers of the host, as they are now.
func (s *Server) resolvers() []string {
	if s.config.Upstream != nil {
		return s.config.Upstream
	}
	info, err := os.Stat(resolvConf)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.config.Logger.Warn("cannot read the resolvers of the host", "error", err)
		}
		return s.upstream
	}
	if info.ModTime().Equal(s.read) {
		return s.upstream
	}
	config, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		s.config.Logger.Warn("cannot read the resolvers of the host", "error", err)
		return s.upstream
	}
	s.read, s.upstream = info.ModTime(), nil
	for _, server := range config.Servers {
		if server != s.config.Address.Addr().String() {
			s.upstream = append(s.upstream, net.JoinHostPort(server, config.Port))
		}
	}
	return s.upstream
}
