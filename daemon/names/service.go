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

// Service lets pods find each other by name, and shows clients where Services lead.
type Service struct {
	index   *Index
	server  *nameserver.Server // nil: pods have the resolvers of the host
	address netip.Addr         // of the server
	logger  *slog.Logger
}

// Open takes the port of the name server on the bridge, if there is one. n is nil where pods have no network.
func Open(n *network.Network, logger *slog.Logger) *Service {
	p := &Service{index: New(), logger: logger}
	if n == nil || !n.Gateway().IsValid() {
		return p
	}
	server, err := nameserver.Listen(nameserver.Config{
		Address: netip.AddrPortFrom(n.Gateway(), network.NamesPort), Clients: n.Subnet(), Domain: oci.ClusterDomain,
		Names: p.index, Logger: logger,
	})
	if err != nil {
		logger.Warn("pods do not find each other by name, and have the resolvers of the host", "error", err)
		return p
	}
	p.server, p.address = server, n.Gateway()
	return p
}

// Address is that of the name server; empty where pods have the resolvers of the host.
func (p *Service) Address() string {
	if p.server == nil {
		return ""
	}
	return p.address.String()
}

// Run answers from what is in the store until ctx ends.
func (p *Service) Run(ctx context.Context, s *store.Store) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { p.index.Follow(ctx, s, p.logger) })
	group.Go(func() { p.index.Publish(ctx, s, p.logger) })
	if p.server != nil {
		group.Go(func() { p.server.Serve(ctx) })
	}
}
