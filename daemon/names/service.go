package names

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/network/nameserver"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

// Service runs the name server for pods, tells the network where virtual addresses lead, and maintains the EndpointSlices
// of Services.
type Service struct {
	index   *index
	config  Config
	server  *nameserver.Server // nil: pods use the resolvers of the host
	address netip.Addr         // of the server
	events  *events.Recorder
}

// Config is what a Service needs.
type Config struct {
	Network *network.Network // nil: pods have none
	Node    string
	// EventTTL is how long events are kept.
	EventTTL time.Duration
	Logger   *slog.Logger
}

// Open opens the port of the name server on the pods' bridge, if there is one.
func Open(c Config) *Service {
	p := &Service{index: newIndex(), config: c, events: events.New(c.Node)}
	n, logger := c.Network, c.Logger
	if n != nil {
		p.index.addressOf = p.addressOf
	}
	if n == nil || !n.Gateway().IsValid() {
		return p
	}
	server, err := nameserver.Listen(nameserver.Config{
		Address: netip.AddrPortFrom(n.Gateway(), network.NamesPort), Clients: n.Subnet(), Services: n.ServiceAddresses(),
		Domain: oci.ClusterDomain, Names: p.index, Logger: logger,
	})
	if err != nil {
		logger.Warn("cannot serve names to pods, which use the resolvers of the host instead", "error", err)
		return p
	}
	p.server, p.address = server, n.Gateway()
	return p
}

// addressOf returns the address of a pod: on this node the one that the network has on record, whatever the status says. What
// the agent of another node says of its pods is believed, as long as it names nothing of this machine.
func (p *Service) addressOf(obj *corev1.Pod) (at netip.Addr) {
	n := p.config.Network
	if obj.Spec.NodeName == p.config.Node {
		return n.AddressOf(obj)
	}
	at, err := netip.ParseAddr(obj.Status.PodIP)
	if err != nil || !canLead(at) || n.Subnet().IsValid() && n.Subnet().Contains(at) {
		return netip.Addr{}
	}
	return at
}

// tell records an event about a Service of which something was left out.
func (p *Service) tell(ctx context.Context, s *store.Store, l leftOut) {
	now := time.Now()
	e := p.events.Event(corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service", Namespace: l.namespace, Name: l.name, UID: l.uid,
	}, events.Services, corev1.EventTypeWarning, "TooManyEndpoints", l.why, now)
	if e == nil {
		return
	}
	value, err := scheme.Encode(e)
	if err == nil {
		err = s.Update(ctx, func(tx *store.Tx) error {
			_, err := storage.Put(tx, &store.Object{
				Key: objects.Key(objects.Events, e), UID: string(e.UID), Value: value, Expires: now.Add(p.config.EventTTL).Unix(),
			})
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		p.config.Logger.Warn("cannot write an event about a Service", "service", l.namespace+"/"+l.name, "error", err)
	}
}

// Address returns the address of the name server, empty if pods use the resolvers of the host.
func (p *Service) Address() string {
	if p.server == nil {
		return ""
	}
	return p.address.String()
}

// Run follows the store and serves names until ctx ends.
func (p *Service) Run(ctx context.Context, s *store.Store) {
	var group sync.WaitGroup
	defer group.Wait()
	logger := p.config.Logger
	group.Go(func() { p.index.follow(ctx, s, logger) })
	group.Go(func() { p.index.publish(ctx, s, logger) })
	if n := p.config.Network; n != nil && n.ServiceAddresses().IsValid() {
		tell := func(ctx context.Context, l leftOut) { p.tell(ctx, s, l) }
		group.Go(func() { p.index.lead(ctx, n.SetServices, tell, logger) })
	}
	if p.server != nil {
		group.Go(func() { p.server.Serve(ctx) })
	}
}
