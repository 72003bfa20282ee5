package names

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/network/nameserver"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

// Service runs the name server for pods, tells the network where virtual addresses lead, and maintains the EndpointSlices
// of Services.
type Service struct {
	index   *index
	network *network.Network
	server  *nameserver.Server // nil: pods use the resolvers of the host
	address netip.Addr         // of the server
	logger  *slog.Logger
}

// Open opens the port of the name server on the pods' bridge, if there is one. n is nil if pods have no network.
func Open(n *network.Network, logger *slog.Logger) *Service {
	p := &Service{index: newIndex(), network: n, logger: logger}
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
	group.Go(func() { p.index.follow(ctx, s, p.logger) })
	group.Go(func() { p.index.publish(ctx, s, p.logger) })
	if p.network != nil && p.network.ServiceAddresses().IsValid() {
		group.Go(func() { p.index.lead(ctx, p.network.SetServices, p.logger) })
	}
	if p.server != nil {
		group.Go(func() { p.server.Serve(ctx) })
	}
}
