package sandbox

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/network"
)

// API is where pods reach the API.
type API struct {
	at netip.AddrPort
	// onHost says that only pods in the host's network reach it.
	onHost   bool
	listener *listen.Listener
}

// APIOptions say where pods could reach the API.
type APIOptions struct {
	// Network is the network of the pods; nil if they have none of their own.
	Network *network.Network
	// TLS is where the API is served over TLS anyway; not valid if it is not.
	TLS       netip.AddrPort
	Authority *listen.Authority
	State     layout.State
}

// Of returns where a pod reaches the API; not valid if it cannot.
func (a *API) Of(pod *corev1.Pod) netip.AddrPort {
	if a.onHost && !pod.Spec.HostNetwork {
		return netip.AddrPort{}
	}
	return a.at
}

// At returns the address that pods are given: where the API is served over TLS anyway, or a listener for pods alone. It
// is not valid if they cannot reach the API.
func (a *API) At() netip.AddrPort { return a.at }

// Listener returns the listener for pods alone, which the caller closes; nil if there is none.
func (a *API) Listener() *listen.Listener { return a.listener }

// OpenAPI chooses where pods reach the API: at the gateway of the bridge, which only they can reach, or else on the
// loopback interface of the host, for pods that share its network.
func OpenAPI(o APIOptions) (*API, error) {
	mode := network.None
	if o.Network != nil {
		mode = o.Network.Mode()
	}
	switch mode {
	case network.Bridge:
		// Any port will do: the network redirects the port that pods use to it.
		gateway := o.Network.Gateway()
		l, err := listen.ForPods(netip.AddrPortFrom(gateway, 0), o.Network.Subnet(), o.Authority)
		if err != nil {
			return nil, err
		}
		if err := o.Network.LeadToAPI(portOf(l).Port()); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return &API{at: netip.AddrPortFrom(gateway, network.APIPort), listener: l}, nil
	case network.Host:
		if o.TLS.IsValid() {
			return &API{at: o.TLS}, nil
		}
		l, err := listenOnLoopback(o.State, o.Authority)
		if err != nil {
			return nil, err
		}
		return &API{at: portOf(l), listener: l}, nil
	}
	return &API{at: o.TLS, onHost: true}, nil
}

func portOf(l *listen.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// listenOnLoopback takes the port of an earlier run if it is still free, since running pods were given it.
func listenOnLoopback(state layout.State, authority *listen.Authority) (*listen.Listener, error) {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	path := state.PodAPI()
	if before, err := os.ReadFile(path); err == nil {
		if at, err := netip.ParseAddrPort(string(before)); err == nil {
			if l, err := listen.ForPods(at, loopback, authority); err == nil {
				return l, nil
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := listen.ForPods(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0), loopback, authority)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, []byte(l.Addr().String()), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
