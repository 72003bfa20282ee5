package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/jobd/jobd/daemon/names"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/runtime/network/nameserver"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

const dnsPort = 53

// podNames lets pods find each other by name, and shows clients where Services lead.
type podNames struct {
	index  *names.Index
	server *nameserver.Server // nil: pods have the resolvers of the host
	logger *slog.Logger
}

// openNames takes the port of the name server on the bridge, if there is one.
func openNames(n *network.Network, logger *slog.Logger) *podNames {
	p := &podNames{index: names.New(), logger: logger}
	if n == nil || !n.Gateway().IsValid() {
		return p
	}
	server, err := nameserver.Listen(nameserver.Config{
		Address: netip.AddrPortFrom(n.Gateway(), dnsPort), Clients: n.Subnet(), Domain: oci.ClusterDomain, Names: p.index, Logger: logger,
	})
	if err != nil {
		logger.Warn("pods do not find each other by name, and have the resolvers of the host", "error", err)
		return p
	}
	p.server = server
	return p
}

// serve starts answering, from what is in the store. The function that it returns ends that.
func (p *podNames) serve(s *store.Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { p.index.Follow(ctx, s, p.logger) })
	group.Go(func() { p.index.Publish(ctx, s, p.logger) })
	if p.server != nil {
		group.Go(func() { p.server.Serve(ctx) })
	}
	return func() {
		cancel()
		group.Wait()
	}
}
