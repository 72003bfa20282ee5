package daemon

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/runtime/network"
)

// podAPI is how pods reach the API, and what they are known by there.
type podAPI struct {
	authority *server.Authority
	tokens    *tokens.Tokens
	// at is what pods are told: where it is served over TLS anyway, or a place for pods alone. It is not valid where they
	// cannot reach the API.
	at netip.AddrPort
	// onHost says that only pods in the host's network reach it.
	onHost bool
	// listener is one for pods alone; nil where there is none.
	listener *server.Listener
}

// of is where a pod reaches the API; not valid if it cannot.
func (a *podAPI) of(pod *corev1.Pod) netip.AddrPort {
	if a.onHost && !pod.Spec.HostNetwork {
		return netip.AddrPort{}
	}
	return a.at
}

// open finds the API's place in the network of the pods: the gateway of the bridge, which they alone can reach, or else the
// loopback of the host for those that share it.
func (a *podAPI) open(n *network.Network, state layout.State) (err error) {
	switch n.Mode() {
	case network.Bridge:
		// Any port: the network leads the one that pods ask for to it.
		if a.listener, err = server.ListenForPods(netip.AddrPortFrom(n.Gateway(), 0), n.Subnet(), a.authority); err != nil {
			return err
		}
		a.at, a.onHost = netip.AddrPortFrom(n.Gateway(), network.APIPort), false
		return n.LeadToAPI(portOf(a.listener).Port())
	case network.Host:
		a.onHost = false
		if a.at.IsValid() {
			return nil
		}
		if a.listener, err = listenOnLoopback(state, a.authority); err != nil {
			return err
		}
		a.at = portOf(a.listener)
	}
	return nil
}

func portOf(l *server.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// listenOnLoopback takes the port that an earlier run had, if it is still free: pods that run were told of it.
func listenOnLoopback(state layout.State, authority *server.Authority) (*server.Listener, error) {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	path := state.PodAPI()
	if before, err := os.ReadFile(path); err == nil {
		if at, err := netip.ParseAddrPort(string(before)); err == nil {
			if l, err := server.ListenForPods(at, loopback, authority); err == nil {
				return l, nil
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := server.ListenForPods(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0), loopback, authority)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, []byte(l.Addr().String()), 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
