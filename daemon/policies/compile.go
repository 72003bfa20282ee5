package policies

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/runtime/network"
)

// The name server, at the gateway of the bridge, is to policies what the pods are that serve names in a cluster.
const (
	namesNamespace       = "kube-system"
	namesUDP, namesTCP   = "dns", "dns-tcp"
	namesLabel, namesApp = "k8s-app", "kube-dns"
)

// Pod is what policies see of a pod on the bridge.
type Pod struct {
	Namespace string
	Labels    labels.Set
	Ports     []network.NamedPort
}

// compiled are policies that are ready to be applied to pods. It serves one goroutine.
type compiled struct {
	policies []policy
	groups   []group
	// named are the names and protocols of the ports that policies name.
	named map[network.NamedPort]bool
	// lists are those that pods were given, by name; memo are their names, by the policies that they are made of.
	lists map[string][]network.Allowance
	memo  map[string]string
}

// policy is a NetworkPolicy. A direction that it is not for is nil.
type policy struct {
	namespace       string
	pods            labels.Selector
	ingress, egress *[]network.Allowance
}

// group is what a peer with selectors selects.
type group struct {
	name       string
	namespaces map[string]bool
	pods       labels.Selector
}

// compile prepares policies, with the labels of all namespaces. gateway is the address of the name server for pods. A
// policy that is not valid, which the API does not store, isolates what it selects and allows nothing.
func compile(all []*networkingv1.NetworkPolicy, namespaces map[string]labels.Set, gateway netip.Addr) *compiled {
	c := &compiled{
		named: map[network.NamedPort]bool{}, lists: map[string][]network.Allowance{}, memo: map[string]string{},
	}
	b := builder{c, namespaces, gateway, map[string]*group{}}
	for _, p := range all {
		next := policy{namespace: p.Namespace, pods: selector(&p.Spec.PodSelector)}
		if slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			allowed := []network.Allowance{}
			for _, rule := range p.Spec.Ingress {
				allowed = append(allowed, b.rule(p.Namespace, rule.From, rule.Ports, false)...)
			}
			next.ingress = &allowed
		}
		if slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			allowed := []network.Allowance{}
			for _, rule := range p.Spec.Egress {
				allowed = append(allowed, b.rule(p.Namespace, rule.To, rule.Ports, true)...)
			}
			next.egress = &allowed
		}
		c.policies = append(c.policies, next)
	}
	for _, g := range b.groups {
		c.groups = append(c.groups, *g)
	}
	slices.SortFunc(c.groups, func(a, b group) int { return cmp.Compare(a.name, b.name) })
	return c
}

// selector returns a selector; one that is not valid selects nothing.
func selector(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// builder collects what peers select.
type builder struct {
	to         *compiled
	namespaces map[string]labels.Set
	gateway    netip.Addr
	groups     map[string]*group
}

// rule returns what a rule of a policy allows.
func (b builder) rule(
	namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, egress bool,
) (allowed []network.Allowance) {
	var reached []network.Allowance // peers, with any port
	names := false                  // whether the name server is one of them
	if len(peers) == 0 {
		reached = []network.Allowance{{Anyone: true}}
	}
	var blocks []network.AddressRange
	for i := range peers {
		if block := peers[i].IPBlock; block != nil {
			blocks = append(blocks, ranges(block)...)
			continue
		}
		g := b.group(namespace, &peers[i])
		reached = append(reached, network.Allowance{Group: g.name})
		names = names || egress && g.has(namesNamespace, labels.Set{namesLabel: namesApp})
	}
	if len(blocks) > 0 {
		reached = append(reached, network.Allowance{Blocks: network.Merge(blocks)})
	}
	for _, peer := range reached {
		allowed = append(allowed, b.ports(peer, ports)...)
	}
	if names {
		allowed = append(allowed, b.nameServer(ports)...)
	}
	return allowed
}

// ports returns what a peer may do, with each of the ports of a rule.
func (b builder) ports(peer network.Allowance, ports []networkingv1.NetworkPolicyPort) (allowed []network.Allowance) {
	if len(ports) == 0 {
		return []network.Allowance{peer}
	}
	for _, p := range ports {
		a := peer
		a.Protocol = ptr.Deref(p.Protocol, corev1.ProtocolTCP)
		switch {
		case p.Port == nil:
		case p.Port.Type == intstr.String:
			a.Name = p.Port.StrVal
			b.to.named[network.NamedPort{Name: a.Name, Protocol: a.Protocol}] = true
		default:
			a.First = uint16(p.Port.IntVal)
			a.Last = uint16(ptr.Deref(p.EndPort, p.Port.IntVal))
		}
		allowed = append(allowed, a)
	}
	return allowed
}

// nameServer returns what of the name server a rule allows that selects it.
func (b builder) nameServer(ports []networkingv1.NetworkPolicyPort) (allowed []network.Allowance) {
	for _, served := range []network.NamedPort{
		{Name: namesUDP, Protocol: corev1.ProtocolUDP, Number: network.NamesPort},
		{Name: namesTCP, Protocol: corev1.ProtocolTCP, Number: network.NamesPort},
	} {
		selects := func(p networkingv1.NetworkPolicyPort) bool {
			switch {
			case ptr.Deref(p.Protocol, corev1.ProtocolTCP) != served.Protocol:
				return false
			case p.Port == nil:
				return true
			case p.Port.Type == intstr.String:
				return p.Port.StrVal == served.Name
			}
			number := int32(served.Number)
			return p.Port.IntVal <= number && number <= ptr.Deref(p.EndPort, p.Port.IntVal)
		}
		if b.gateway.Is4() && (len(ports) == 0 || slices.ContainsFunc(ports, selects)) {
			allowed = append(allowed, network.Allowance{
				Blocks:   []network.AddressRange{{First: b.gateway, Last: b.gateway}},
				Protocol: served.Protocol, First: served.Number, Last: served.Number,
			})
		}
	}
	return allowed
}

// ranges returns the addresses of a block; none if they are not of IPv4, which pods do not have.
func ranges(b *networkingv1.IPBlock) []network.AddressRange {
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return nil
	}
	var except []netip.Prefix
	for _, text := range b.Except {
		e, err := netip.ParsePrefix(text)
		if err != nil {
			return nil
		}
		except = append(except, e)
	}
	return network.Ranges(block, except...)
}

// group returns the group of what a peer of a policy in a namespace selects.
func (b builder) group(namespace string, peer *networkingv1.NetworkPolicyPeer) *group {
	if peer.NamespaceSelector != nil {
		namespace = ""
	}
	name := hash(namespace, peer.NamespaceSelector, peer.PodSelector)
	if g := b.groups[name]; g != nil {
		return g
	}
	g := &group{name: name, namespaces: map[string]bool{namespace: true}, pods: labels.Everything()}
	if peer.NamespaceSelector != nil {
		g.namespaces = b.selected(selector(peer.NamespaceSelector))
	}
	if peer.PodSelector != nil {
		g.pods = selector(peer.PodSelector)
	}
	b.groups[name] = g
	return g
}

// selected returns the namespaces that a selector selects. That of the name server need not exist.
func (b builder) selected(s labels.Selector) map[string]bool {
	found := map[string]bool{}
	for name, set := range b.namespaces {
		found[name] = s.Matches(set)
	}
	if _, ok := found[namesNamespace]; !ok {
		found[namesNamespace] = s.Matches(labels.Set{corev1.LabelMetadataName: namesNamespace})
	}
	return found
}

func (g *group) has(namespace string, set labels.Set) bool {
	return g.namespaces[namespace] && g.pods.Matches(set)
}

// pod returns what the policies make of a pod.
func (c *compiled) pod(p Pod) network.PolicyPod {
	var out network.PolicyPod
	for _, g := range c.groups {
		if g.has(p.Namespace, p.Labels) {
			out.Groups = append(out.Groups, g.name)
		}
	}
	for _, port := range p.Ports {
		if c.named[network.NamedPort{Name: port.Name, Protocol: port.Protocol}] && !slices.Contains(out.Ports, port) {
			out.Ports = append(out.Ports, port)
		}
	}
	slices.SortFunc(out.Ports, func(a, b network.NamedPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
	})
	var ingress, egress []int
	for i, policy := range c.policies {
		if policy.namespace != p.Namespace || !policy.pods.Matches(p.Labels) {
			continue
		}
		if policy.ingress != nil {
			ingress = append(ingress, i)
		}
		if policy.egress != nil {
			egress = append(egress, i)
		}
	}
	out.Ingress = c.list("in", ingress, func(p policy) []network.Allowance { return *p.ingress })
	out.Egress = c.list("out", egress, func(p policy) []network.Allowance { return *p.egress })
	return out
}

// list returns the name of the list of what some of the policies allow together; empty if there are none.
func (c *compiled) list(direction string, of []int, allowed func(policy) []network.Allowance) string {
	if len(of) == 0 {
		return ""
	}
	key := direction + fmt.Sprint(of)
	if name, ok := c.memo[key]; ok {
		return name
	}
	var all []network.Allowance
	seen := map[string]bool{}
	for _, i := range of {
		for _, a := range allowed(c.policies[i]) {
			if id := hash(a); !seen[id] {
				seen[id] = true
				all = append(all, a)
			}
		}
	}
	name := hash(all)
	c.memo[key], c.lists[name] = name, all
	return name
}

// Lists returns the lists of all pods that pod was called with.
func (c *compiled) Lists() map[string][]network.Allowance { return c.lists }

// hash returns a name that follows from values.
func hash(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // they are of types that have JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:10])
}
