// Package network sets up the network of pods: namespaces of their own, and by default a bridge that joins them to each
// other, to the host and, by NAT, to what the host can reach. It uses netlink and nftables; no process is started for
// it, and none has to stay alive.
//
// Pods come in, the paths of their namespaces and their addresses go out. What it has made is its only record: the
// bridge carries the subnet, and a directory for each pod below STATE/ns holds the pinned namespaces and the pod's
// address; STATE/ns-prepared has the same for pods to come. On the host it touches the bridge, its links and the nft
// tables that are named after the root, and enables forwarding.
package network

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/google/nftables"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/internal/watchdog"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/pins"
)

const (
	// APIPort is the port of the gateway at which pods find the API, as in a cluster.
	APIPort = 443
	// NamesPort is the port of the gateway at which pods find the name server.
	NamesPort = 53
)

// Mode selects the network of pods that do not ask for the host's.
type Mode string

const (
	// Auto is Bridge where that is possible, and otherwise None.
	Auto Mode = ""
	// Bridge gives each pod an address on a bridge of this daemon.
	Bridge Mode = "bridge"
	// Host lets every pod use the host's network.
	Host Mode = "host"
	// None leaves pods with nothing but the loopback interface.
	None Mode = "none"
)

// Options configure a network.
type Options struct {
	// Root names the daemon: bridge, subnet and nft table follow from it, so that several daemons do not conflict.
	Root string
	// State is the daemon's state directory, where namespaces are pinned.
	State string
	// Pins keep the namespaces.
	Pins *pins.Pins
	Mode Mode
	// HostIP is shown as the address of pods that use the host's network.
	HostIP string
	// Reserved are endpoints of the host that no hostPort may take. Those of the bridge need not be named.
	Reserved []Reserved
	// ServiceRange is where the virtual addresses of Services are; not valid: a private network that the host does not
	// use.
	ServiceRange netip.Prefix
	// Services are the ports that Services have already. Their endpoints need not be known: until SetServices is called,
	// connections lead where they did before.
	Services []ServicePort
	Logger   *slog.Logger
	// Watch is told of the work under the lock of the network; nil for nobody.
	Watch *watchdog.Section

	withoutFib bool // act as if the kernel had no nft expression fib, for tests
}

// Network is safe for concurrent use.
type Network struct {
	pins   *pins.Pins
	dir    string
	mode   Mode
	why    error // why the mode is None although nobody asked for that
	hostIP string
	// bridge is nil if there is none. With Host or None it is that of an earlier run, for the pods that are on it.
	bridge *bridge
	logger *slog.Logger
	// reserved includes the endpoints of the bridge.
	reserved []Reserved

	mu        watchdog.Mutex // guards what follows
	addresses *addresses
	prepared  prepared
	ports     hostPorts
	rules     ownRules
	api       uint16 // where the daemon listens for pods, 0 if it does not
	services  services
	policies  policyState
	outlived  outlived
}

// Attachment is what a pod's containers need to know of its network.
type Attachment struct {
	// Namespaces are the paths of the namespaces that the containers share.
	Namespaces map[specs.LinuxNamespaceType]string
	IPs        []string
	// Host says that the network is the host's.
	Host bool
}

// Open creates the network, or finds the one that an earlier run has created, with the pods on it. If Bridge was asked
// for and is not possible, it fails; with Auto it falls back to None. With Host or None the bridge of an earlier run
// stays until the last of its pods has ended.
func Open(o Options) (*Network, error) {
	state := layout.State(o.State)
	n := &Network{
		pins: o.Pins, dir: state.Network(), prepared: newPrepared(o.Pins, state.PreparedNetworks()),
		mode: o.Mode, hostIP: o.HostIP, logger: o.Logger, outlived: outlived{more: make(chan struct{}, 1)},
	}
	n.mu.Watch(o.Watch)
	if err := n.prepared.clear(); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	if o.Mode == Host || o.Mode == None {
		if err := n.keepBridge(o); err != nil {
			n.bridge = nil
			o.Logger.Warn("cannot take over the bridge of an earlier run: its ports of the host may stay as they are",
				"bridge", runtime.RootName(o.Root), "error", err)
		}
		return n, nil
	}
	err := n.openBridge(o)
	switch {
	case err == nil:
		n.mode = Bridge
		if err := n.openServices(o); err != nil && o.ServiceRange.IsValid() {
			return nil, fmt.Errorf("network: %w", err)
		} else if err != nil {
			o.Logger.Warn("Services can have no virtual addresses on this host", "error", err)
		}
	case o.Mode == Bridge:
		return nil, fmt.Errorf("network: bridge: %w", err)
	default:
		n.mode, n.why, n.bridge = None, err, nil
		o.Logger.Warn("a bridge is not possible on this host: pods have no network but their loopback interface; "+
			"--network host gives them the host's", "error", err)
	}
	return n, nil
}

// keepBridge takes over the bridge of an earlier run if there are pods on it, and otherwise removes it.
func (n *Network) keepBridge(o Options) error {
	name := runtime.RootName(o.Root)
	if _, err := netlink.LinkByName(name); errors.As(err, new(netlink.LinkNotFoundError)) {
		return remove(name) // rules may have been left
	} else if err != nil {
		return err
	}
	if err := n.openBridge(o); err != nil {
		return err
	}
	if n.addresses.none() {
		defer n.bridge.host.close()
		n.bridge = nil
		return remove(name)
	}
	o.Logger.Info("pods of an earlier run keep their network until they end, without the API, Services and the names of other pods",
		"bridge", name, "network", o.Mode)
	return removeTable(name+servicesSuffix, nftables.TableFamilyIPv4)
}

func (n *Network) openBridge(o Options) error {
	held, err := n.records()
	if err != nil {
		return err
	}
	if n.bridge, err = openBridge(o.Root, held); err != nil {
		return err
	}
	if o.withoutFib {
		n.bridge.listed = []hostAddress{}
	}
	names := netip.AddrPortFrom(n.bridge.address, NamesPort)
	n.reserved = append(slices.Clone(o.Reserved),
		Reserved{corev1.ProtocolUDP, names, "the name server of the pods"},
		Reserved{corev1.ProtocolTCP, names, "the name server of the pods"},
		Reserved{corev1.ProtocolTCP, netip.AddrPortFrom(n.bridge.address, APIPort), "the API for pods"},
	)
	n.addresses = newAddresses(n.bridge.subnet)
	for uid, r := range held {
		// An address outside the subnet is from an earlier boot, of which only the record is left.
		if n.addresses.claim(uid, r.Address) {
			n.ports.add(r)
		}
	}
	if err := n.findOutlived(); err != nil {
		return err
	}
	// Until SetServices says more, ports of the host that an earlier run gave to Services stay reachable.
	n.bridge.nodePorts = n.bridge.hasServices()
	if err := n.writeRules(); err != nil {
		n.bridge.undo()
		return err
	}
	if err := n.bridge.guardFrames(); err != nil {
		o.Logger.Warn("the kernel does not look at the frames on the bridge: a pod with CAP_NET_RAW can pass for the "+
			"gateway or for another pod", "bridge", n.bridge.name, "error", err)
	}
	if err := n.bridge.boundQueries(); err != nil {
		o.Logger.Warn("the kernel does not count the queries of pods: one that sends very many keeps the name server from those of others",
			"bridge", n.bridge.name, "error", err)
	}
	if n.bridge.listed != nil {
		o.Logger.Info("the kernel has no nft expression fib: the rules for ports of the host list its addresses",
			"bridge", n.bridge.name)
	}
	if policy := droppingForward(); policy != "" {
		o.Logger.Warn("the firewall of the host drops what is forwarded: pods reach each other and the host, "+
			"and others only once it lets the bridge through; with NetworkPolicies this also goes for other pods",
			"chain", policy, "bridge", n.bridge.name)
	}
	return nil
}

// Mode returns the network that pods get.
func (n *Network) Mode() Mode { return n.mode }

// Gateway returns the host's address on the bridge; not valid unless the mode is Bridge.
func (n *Network) Gateway() netip.Addr {
	if n.mode != Bridge {
		return netip.Addr{}
	}
	return n.bridge.address
}

// Subnet returns the subnet of the bridge; not valid unless the mode is Bridge.
func (n *Network) Subnet() netip.Prefix {
	if n.mode != Bridge {
		return netip.Prefix{}
	}
	return n.bridge.subnet
}

// LeadToAPI redirects APIPort of the gateway to a port of the gateway where the daemon listens, whoever else listens on
// all addresses of the host.
func (n *Network) LeadToAPI(port uint16) error {
	if err := n.leadToAPI(port); err != nil {
		return fmt.Errorf("network: the port of the API: %w", err)
	}
	if n.services.known() {
		if err := n.writeServices(); err != nil {
			return err
		}
	}
	return n.rewritePolicies()
}

func (n *Network) leadToAPI(port uint16) error {
	n.mu.Lock()
	n.api = port
	n.mu.Unlock()
	return n.writeRules()
}

// own returns the endpoints of the host that lead neither to pods nor to Services.
func (n *Network) own() (own []endpoint) {
	for _, reserved := range n.reserved {
		if at := reserved.At.Addr(); at.Is4() || at.IsUnspecified() {
			own = append(own, endpoint{reserved.At, reserved.Protocol})
		}
	}
	if n.api != 0 {
		own = append(own, endpoint{netip.AddrPortFrom(n.bridge.address, n.api), corev1.ProtocolTCP})
	}
	return own
}

// PortTaken fails if a port of all addresses of the host is reserved or leads to a pod, so that no Service may have it.
func (n *Network) PortTaken(protocol corev1.Protocol, port uint16) error {
	if n.mode != Bridge {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ports := []hostPort{{Protocol: protocol, HostPort: port}}
	if err := taken(ports, n.reserved, n.bridge.address); err != nil {
		return err
	}
	return n.ports.free(ports)
}

// Describe says, for people to read, which network pods get.
func (n *Network) Describe() string {
	switch {
	case n.mode == Bridge:
		return fmt.Sprintf("bridge %s, %s", n.bridge.name, n.bridge.subnet)
	case n.why != nil:
		return fmt.Sprintf("none, since a bridge is not possible: %v", n.why)
	}
	return string(n.mode)
}

// SetUp ensures that a pod has its network, and returns it. made are the network and IPC namespaces that it already has
// because they belong to its own user namespace; nil for a pod in the host's user namespace.
func (n *Network) SetUp(pod *corev1.Pod, made map[specs.LinuxNamespaceType]string) (Attachment, error) {
	a := Attachment{Namespaces: map[specs.LinuxNamespaceType]string{}}
	maps.Copy(a.Namespaces, made)
	p := n.namespaces(string(pod.UID))
	p.made = made[specs.NetworkNamespace]
	several := len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 1
	switch {
	case pod.Spec.HostNetwork:
		a.IPs, a.Host = n.hostIPs(), true
	case n.mode == Bridge || n.isOnBridge(pod):
		r, err := n.attach(pod, p)
		if err != nil {
			return a, err
		}
		a.Namespaces[specs.NetworkNamespace] = p.path("net")
		a.IPs = []string{r.Address.String()}
	case n.mode == Host && p.made != "":
		return a, fmt.Errorf("all pods use the host's network (--network host), which a user namespace of its own rules out: %w",
			errdefs.ErrFailedPrecondition)
	case n.mode == Host:
		for _, p := range portsOf(pod) {
			if p.Port != p.HostPort {
				return a, fmt.Errorf("port %d of the host cannot lead to port %d of a pod that uses the host's network: %w",
					p.HostPort, p.Port, errdefs.ErrFailedPrecondition)
			}
		}
		for _, s := range sysctls(pod) {
			if strings.HasPrefix(strings.ReplaceAll(s.Name, "/", "."), "net.") {
				return a, fmt.Errorf("sysctl %s would be the host's, whose network all pods use: %w",
					s.Name, errdefs.ErrFailedPrecondition)
			}
		}
		a.Namespaces[specs.NetworkNamespace] = fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
		a.IPs, a.Host = n.hostIPs(), true
	case len(portsOf(pod)) > 0:
		return a, fmt.Errorf("a port of the host leads to no pod without a bridge: %w", errdefs.ErrFailedPrecondition)
	case several || p.made != "":
		if err := p.network(loopback); err != nil {
			return a, err
		}
		a.Namespaces[specs.NetworkNamespace] = p.path("net")
	}
	if several && !pod.Spec.HostIPC && made[specs.IPCNamespace] == "" {
		path, err := p.ipc()
		if err != nil {
			return a, err
		}
		a.Namespaces[specs.IPCNamespace] = path
	}
	return a, nil
}

func (n *Network) namespaces(podUID string) namespaces {
	return namespaces{pins: n.pins, dir: filepath.Join(n.dir, podUID)}
}

// isOnBridge reports whether a pod has an address.
func (n *Network) isOnBridge(pod *corev1.Pod) bool {
	if n.bridge == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses.of(string(pod.UID)).IsValid()
}

// AddressOf returns the address that a pod has by the network's own record, which nobody but the network writes: an object's
// status may say something else. Not valid if it has none, as a pod that is reached only from within.
func (n *Network) AddressOf(pod *corev1.Pod) netip.Addr {
	if pod.Spec.HostNetwork || n.mode == Host && !n.isOnBridge(pod) {
		at, _ := netip.ParseAddr(n.hostIP)
		return at
	}
	if n.bridge == nil {
		return netip.Addr{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses.of(string(pod.UID))
}

func sysctls(pod *corev1.Pod) []corev1.Sysctl {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.Sysctls
}

func (n *Network) hostIPs() []string {
	if n.hostIP == "" {
		return nil
	}
	return []string{n.hostIP}
}

// attach puts a pod on the bridge. The record is written first, so that what is made afterwards can be found again.
func (n *Network) attach(pod *corev1.Pod, p namespaces) (record, error) {
	r, err := n.reserve(pod, p)
	if err != nil {
		return r, err
	}
	crash.At("network.recorded")
	if err := p.network(func() error { return n.bridge.connect(r.Address) }); err != nil {
		return r, err
	}
	crash.At("network.pinned")
	if len(r.Ports) > 0 {
		if err := n.writeRules(); err != nil {
			return r, fmt.Errorf("host ports: %w", err)
		}
		n.endConnections("of others at its ports of the host", pod.UID, func() error { return n.bridge.takeConnections(r) })
	}
	return r, nil
}

// endConnections calls end, which makes the kernel forget connections. If that fails, they end by themselves within
// minutes.
func (n *Network) endConnections(which string, pod types.UID, end func() error) {
	if err := end(); err != nil {
		n.logger.Warn("cannot end connections of a pod", "pod", pod, "connections", which, "error", err)
	}
}

// reserve allocates a pod's address and its ports of the host.
func (n *Network) reserve(pod *corev1.Pod, p namespaces) (record, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.On("pods/" + pod.Namespace + "/" + pod.Name)
	crash.Hang("network", pod.Namespace, pod.Name)
	uid := string(pod.UID)
	r, err := p.record()
	if err == nil && n.addresses.of(uid) == r.Address {
		return r, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	r = record{Ports: portsOf(pod)}
	if len(r.Ports) == 0 && p.made == "" {
		if r, ok := n.takePrepared(uid, p); ok {
			return r, nil
		}
	}
	if err := n.bridge.onHost(r.Ports); err != nil {
		return r, err
	}
	if err := taken(r.Ports, n.reserved, n.bridge.address); err != nil {
		return r, err
	}
	if err := n.ports.free(r.Ports); err != nil {
		return r, err
	}
	if err := n.services.free(r.Ports); err != nil {
		return r, err
	}
	if r.Address, err = n.addresses.take(uid); err != nil {
		return r, err
	}
	if err := p.write(r); err != nil {
		n.addresses.release(uid)
		return r, err
	}
	n.ports.add(r)
	return r, nil
}

// TearDown removes a pod's network. It is no error if the pod has none. Its processes must have ended: then the kernel
// removes the namespace and both ends of its link together with the pin, unless somebody else has a socket of the pod's (see outlived).
func (n *Network) TearDown(podUID string) error {
	p := n.namespaces(podUID)
	r, err := p.record()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if n.bridge != nil && len(r.Ports) > 0 {
		n.mu.Lock()
		n.ports.remove(r)
		n.mu.Unlock()
		if err := n.writeRules(); err != nil {
			return fmt.Errorf("host ports: %w", err)
		}
		n.endConnections("by its ports of the host", types.UID(podUID), func() error { return n.bridge.endConnections(r.Address) })
	}
	crash.At("network.rules-removed")
	if n.bridge != nil && r.Address.IsValid() {
		if err := n.cutOff(r.Address); err != nil {
			return err
		}
	}
	if err := p.release(); err != nil {
		return err
	}
	if n.bridge != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		if last := n.addresses.release(podUID); last && n.mode != Bridge {
			return remove(n.bridge.name)
		}
	}
	return nil
}

// Has reports whether something is set up for a pod.
func (n *Network) Has(podUID string) bool {
	_, err := os.Lstat(filepath.Join(n.dir, podUID))
	return err == nil
}

// Held lists the UIDs of the pods that something is set up for.
func (n *Network) Held() ([]string, error) { return files.Names(n.dir) }

// records returns the records of all pods that have an address.
func (n *Network) records() (map[string]record, error) {
	uids, err := n.Held()
	if err != nil {
		return nil, err
	}
	out := make(map[string]record, len(uids))
	for _, uid := range uids {
		r, err := n.namespaces(uid).record()
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		out[uid] = r
	}
	return out, nil
}
