package policies

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/networking"
	"github.com/jobd/jobd/runtime/network"
)

// The world of these tests: two namespaces with two pods each, the gateway of their bridge, and two addresses elsewhere.
var (
	gateway = netip.MustParseAddr("10.64.0.1")
	spaces  = map[string]labels.Set{
		"red":  {corev1.LabelMetadataName: "red", "team": "red"},
		"blue": {corev1.LabelMetadataName: "blue", "team": "blue"},
	}
	ports = map[string][]network.NamedPort{
		"web": {{Name: "http", Protocol: corev1.ProtocolTCP, Number: 80}},
		"db":  {{Name: "http", Protocol: corev1.ProtocolTCP, Number: 81}, {Name: "sql", Protocol: corev1.ProtocolTCP, Number: 80}},
	}
	all       = map[string]Pod{}
	addresses = map[string]netip.Addr{
		"near": netip.MustParseAddr("192.0.2.7"), "far": netip.MustParseAddr("198.51.100.7"), "gateway": gateway,
	}
)

func init() {
	at := gateway
	for _, namespace := range []string{"red", "blue"} {
		for _, app := range []string{"web", "db"} {
			at = at.Next()
			name := namespace + "/" + app
			all[name] = Pod{Namespace: namespace, Labels: labels.Set{"app": app}, Ports: ports[app]}
			addresses[name] = at
		}
	}
}

// parse reads policies, each "NAMESPACE: SPEC".
func parse(t testing.TB, texts ...string) (out []*networkingv1.NetworkPolicy) {
	t.Helper()
	for i, text := range texts {
		namespace, spec, _ := strings.Cut(text, ": ")
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p", i)}}
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		networking.SetNetworkPolicyDefaults(p)
		out = append(out, p)
	}
	return out
}

func apply(policies []*networkingv1.NetworkPolicy) *network.Policies {
	c := compile(policies, spaces, gateway)
	out := &network.Policies{Pods: map[netip.Addr]network.PolicyPod{}}
	for name, p := range all {
		out.Pods[addresses[name]] = c.pod(p)
	}
	out.Lists = c.Lists()
	return out
}

// TestTruthTable has, for policies, the connections that are allowed of those that are tried: "FROM>TO:PORT".
func TestTruthTable(t *testing.T) {
	const (
		pods    = "red/web red/db blue/web blue/db"
		outside = "near far"
	)
	// tries returns the connections from each of some to each of others at TCP ports 80 and 81 and UDP port 80.
	tries := func(from, to string) (out []string) {
		for _, f := range strings.Fields(from) {
			for _, t := range strings.Fields(to) {
				for _, port := range []string{"80", "81", "80u"} {
					out = append(out, f+">"+t+":"+port)
				}
			}
		}
		return out
	}
	everything := append(tries(pods, pods+" "+outside+" gateway"), tries(outside, pods)...)
	toWeb := tries(pods+" "+outside, "red/web")
	fromWeb := tries("red/web", pods+" "+outside+" gateway")
	for _, tc := range []struct {
		rule     string
		policies []string
		tried    []string
		allowed  string // separated by spaces; * for all; those of a pod to itself are left out
	}{
		{"without policies everything is allowed", nil, everything, "*"},
		{"a policy for ingress isolates what it selects", []string{`red: {podSelector: {matchLabels: {app: web}}}`}, toWeb, ""},
		{"and leaves what that sends", []string{`red: {podSelector: {matchLabels: {app: web}}}`}, fromWeb, "*"},
		{"and leaves others", []string{`red: {podSelector: {matchLabels: {app: web}}}`}, tries(pods+" "+outside, "red/db blue/web blue/db"), "*"},
		{"an empty selector selects all pods of the namespace", []string{`red: {podSelector: {}}`}, tries(pods, "red/web red/db"), ""},
		{"and none of another", []string{`red: {podSelector: {}}`}, tries(pods, "blue/web blue/db"), "*"},
		{"a policy for egress alone", []string{`red: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}`}, fromWeb, ""},
		{"leaves ingress", []string{`red: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}`}, toWeb, "*"},
		{"rules for egress make it a policy for both", []string{`red: {podSelector: {matchLabels: {app: web}}, egress: [{}]}`}, append(toWeb, fromWeb...),
			strings.Join(slices.DeleteFunc(slices.Clone(fromWeb), func(s string) bool { return strings.Contains(s, ">red/web") }), " ")},
		{
			"rules of a direction that the policy is not for mean nothing",
			[]string{`red: {podSelector: {}, policyTypes: [Ingress], egress: [{to: [{podSelector: {}}]}]}`},
			tries("red/web", "blue/web near"), "*",
		},
		{"an empty rule allows everything", []string{`red: {podSelector: {}, ingress: [{}]}`}, toWeb, "*"},
		{
			"an empty list of peers allows everybody",
			[]string{`red: {podSelector: {}, ingress: [{from: [], ports: [{port: 80}]}]}`}, tries("blue/web near", "red/web"),
			"blue/web>red/web:80 near>red/web:80",
		},
		{"a pod selector selects in the policy's namespace", []string{
			`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}]}]}`,
		}, tries(pods, "red/web"),
			"red/db>red/web:80 red/db>red/web:81 red/db>red/web:80u"},
		{"a namespace selector selects all pods there", []string{
			`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]}`,
		}, tries("red/db blue/web blue/db near", "red/web"),
			"blue/web>red/web:80 blue/web>red/web:81 blue/web>red/web:80u blue/db>red/web:80 blue/db>red/web:81 blue/db>red/web:80u"},
		{
			"both in one peer must match",
			[]string{
				`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: db}}}], ports: [{port: 80}]}]}`,
			},
			tries("red/db blue/web blue/db", "red/web"), "blue/db>red/web:80",
		},
		{"of two peers one suffices", []string{
			`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}, {podSelector: {matchLabels: {app: db}}}], ports: [{port: 80}]}]}`,
		}, tries(pods, "red/web"),
			"blue/web>red/web:80 blue/db>red/web:80 red/db>red/web:80"},
		{"an empty namespace selector selects all pods, and nothing outside", []string{
			`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 80}]}]}`,
		}, tries(pods+" "+outside, "red/web"),
			"red/db>red/web:80 blue/web>red/web:80 blue/db>red/web:80"},
		{"expressions", []string{
			`red: {podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}, podSelector: {matchExpressions: [{key: app, operator: In, values: [db, x]}]}}], ports: [{port: 80}]}]}`,
		}, tries(pods, "red/web"),
			"red/db>red/web:80 blue/db>red/web:80"},
		{
			"the name of a namespace is a label",
			[]string{
				`red: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: blue}}, podSelector: {matchLabels: {app: web}}}], ports: [{port: 80}]}]}`,
			},
			tries(pods, "red/web"), "blue/web>red/web:80",
		},
		{
			"blocks of addresses, with exceptions",
			[]string{
				`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [198.51.100.0/24]}}], ports: [{port: 80}]}]}`,
			},
			tries("near far blue/web", "red/web"), "near>red/web:80 blue/web>red/web:80",
		},
		{
			"an exception of one rule does not take from another",
			[]string{
				`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [198.51.100.0/24]}}, {ipBlock: {cidr: 198.51.100.7/32}}], ports: [{port: 80}]}]}`,
			},
			tries("near far", "red/web"), "near>red/web:80 far>red/web:80",
		},
		{"blocks of IPv6 match nothing", []string{`red: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "::/0"}}]}]}`}, toWeb, ""},
		{"a port is of TCP", []string{`red: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}`}, tries("near", "red/web"), "near>red/web:80"},
		{
			"or of another protocol", []string{`red: {podSelector: {}, ingress: [{ports: [{port: 80, protocol: UDP}]}]}`},
			tries("near", "red/web"), "near>red/web:80u",
		},
		{
			"a protocol without a port is all its ports",
			[]string{`red: {podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]}`}, tries("near", "red/web"),
			"near>red/web:80 near>red/web:81",
		},
		{"a range", []string{`red: {podSelector: {}, ingress: [{ports: [{port: 81, endPort: 90}]}]}`}, tries("near", "red/web"), "near>red/web:81"},
		{
			"the name of a port is that of the receiver", []string{`red: {podSelector: {}, ingress: [{ports: [{port: http}]}]}`},
			tries("near", "red/web red/db"), "near>red/web:80 near>red/db:81",
		},
		{
			"also for egress", []string{`red: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: http}]}]}`},
			tries("red/web", "blue/web blue/db near"), "red/web>blue/web:80 red/web>blue/db:81",
		},
		{"a name without such a port is nothing", []string{`red: {podSelector: {}, ingress: [{ports: [{port: grpc}]}]}`}, toWeb, ""},
		{"a name of another protocol neither", []string{`red: {podSelector: {}, ingress: [{ports: [{port: http, protocol: UDP}]}]}`}, toWeb, ""},
		{"several policies allow what one of them does", []string{
			`red: {podSelector: {}}`,
			`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]}`,
			`red: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: 81}]}]}`,
		}, tries("red/db blue/web near far", "red/web"), "red/db>red/web:80 near>red/web:81"},
		{"a policy of another namespace allows nothing", []string{`red: {podSelector: {}}`, `blue: {podSelector: {}, ingress: [{}]}`}, toWeb, ""},
		{"both ends have a say", []string{
			`red: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: blue}}}], ports: [{port: 80, endPort: 81}]}]}`,
			`blue: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}}], ports: [{port: 81}, {port: 80, protocol: UDP}]}]}`,
		}, tries("red/web", "red/db blue/web blue/db near"), "red/web>blue/web:81 red/web>blue/db:80 red/web>blue/db:81"},
		{
			"the host is reached by its address alone",
			[]string{`red: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}]}]}`},
			tries("red/web", "gateway near"), "",
		},
		{
			"which a block may have",
			[]string{`red: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.64.0.1/32}}]}]}`},
			tries("red/web", "gateway near"), "red/web>gateway:80 red/web>gateway:81 red/web>gateway:80u",
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			p := apply(parse(t, tc.policies...))
			var want []string
			for _, try := range tc.tried {
				flow := parseFlow(t, try)
				// Nobody can forbid a pod to reach itself.
				expected := tc.allowed == "*" || slices.Contains(strings.Fields(tc.allowed), try) || flow.From == flow.To
				if p.Allow(flow) != expected {
					want = append(want, fmt.Sprintf("%s: allowed is not %v", try, expected))
				}
			}
			if len(want) > 0 {
				t.Errorf("%s", strings.Join(want, "\n"))
			}
		})
	}
}

func parseFlow(t testing.TB, text string) network.Flow {
	t.Helper()
	from, to, _ := strings.Cut(text, ">")
	to, port, _ := strings.Cut(to, ":")
	number, udp := strings.CutSuffix(port, "u")
	f := network.Flow{From: addresses[from], To: addresses[to], Protocol: corev1.ProtocolTCP}
	if udp {
		f.Protocol = corev1.ProtocolUDP
	}
	if _, err := fmt.Sscan(number, &f.Port); err != nil || !f.From.IsValid() || !f.To.IsValid() {
		t.Fatalf("%s is no connection", text)
	}
	return f
}

// TestNameServer tries policies as people write them for the names of a cluster.
func TestNameServer(t *testing.T) {
	for _, tc := range []struct{ egress, udp, tcp string }{
		{
			`[{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}], ports: [{protocol: UDP, port: 53}]}]`,
			"yes", "no",
		},
		{
			`[{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}], ports: [{protocol: UDP, port: 53}, {port: 53}]}]`,
			"yes", "yes",
		},
		{`[{to: [{namespaceSelector: {}}], ports: [{protocol: UDP, port: dns}, {port: dns-tcp}]}]`, "yes", "yes"},
		{`[{to: [{namespaceSelector: {}}]}]`, "yes", "yes"},
		{`[{to: [{namespaceSelector: {}}], ports: [{protocol: UDP, port: 1, endPort: 1000}]}]`, "yes", "no"},
		{`[{ports: [{protocol: UDP, port: 53}]}]`, "yes", "no"},
		{`[{to: [{podSelector: {}}]}]`, "no", "no"},
		{`[{to: [{namespaceSelector: {}}], ports: [{port: 80}]}]`, "no", "no"},
		{`[{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: other}}}]}]`, "no", "no"},
		{`[]`, "no", "no"},
	} {
		p := apply(parse(t, `red: {podSelector: {}, policyTypes: [Egress], egress: `+tc.egress+`}`))
		for protocol, want := range map[corev1.Protocol]string{corev1.ProtocolUDP: tc.udp, corev1.ProtocolTCP: tc.tcp} {
			if p.Allow(network.Flow{From: addresses["red/web"], To: gateway, Protocol: protocol, Port: 53}) != (want == "yes") {
				t.Errorf("%s: names by %s are not allowed: %s", tc.egress, protocol, want)
			}
		}
		if strings.Contains(tc.egress, "to:") && p.Allow(network.Flow{From: addresses["red/web"], To: gateway, Protocol: corev1.ProtocolTCP, Port: 22}) {
			t.Errorf("%s: also other ports of the host are allowed", tc.egress)
		}
	}
}

// TestRandomPolicies compares what policies are compiled to with the words of the API, read literally.
func TestRandomPolicies(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		policies := randomPolicies(r)
		p := apply(policies)
		for from := range addresses {
			for to := range addresses {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, ""} {
					for _, port := range []uint16{79, 80, 81, 90} {
						f := network.Flow{From: addresses[from], To: addresses[to], Protocol: protocol, Port: port}
						want := from == to ||
							literally(policies, from, to, f, networkingv1.PolicyTypeEgress) && literally(policies, to, from, f, networkingv1.PolicyTypeIngress)
						if p.Allow(f) != want {
							t.Fatalf("seed %d: %s to %s, %s port %d: allowed is not %v", seed, from, to, protocol, port, want)
						}
					}
				}
			}
		}
	}
}

// literally reports whether the policies of one end of a connection allow it, in one direction.
func literally(policies []*networkingv1.NetworkPolicy, end, peer string, f network.Flow, direction networkingv1.PolicyType) bool {
	isolated := false
	for _, p := range policies {
		pod, ok := all[end]
		if !ok || pod.Namespace != p.Namespace || !selector(&p.Spec.PodSelector).Matches(pod.Labels) || !slices.Contains(p.Spec.PolicyTypes, direction) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range p.Spec.Ingress {
				if portMatches(rule.Ports, f) && peerMatches(rule.From, p.Namespace, peer) {
					return true
				}
			}
			continue
		}
		for _, rule := range p.Spec.Egress {
			if portMatches(rule.Ports, f) && peerMatches(rule.To, p.Namespace, peer) {
				return true
			}
		}
	}
	return !isolated
}

func portMatches(ports []networkingv1.NetworkPolicyPort, f network.Flow) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if *p.Protocol != f.Protocol {
			return false
		}
		if p.Port == nil {
			return true
		}
		if p.Port.Type == intstr.String {
			for name, pod := range all {
				if addresses[name] == f.To {
					return slices.Contains(pod.Ports, network.NamedPort{Name: p.Port.StrVal, Protocol: *p.Protocol, Number: f.Port})
				}
			}
			return false
		}
		return p.Port.IntVal <= int32(f.Port) && int32(f.Port) <= ptr.Deref(p.EndPort, p.Port.IntVal)
	})
}

func peerMatches(peers []networkingv1.NetworkPolicyPeer, namespace, peer string) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return netip.MustParsePrefix(p.IPBlock.CIDR).Contains(addresses[peer]) && !slices.ContainsFunc(p.IPBlock.Except, func(e string) bool {
				return netip.MustParsePrefix(e).Contains(addresses[peer])
			})
		}
		pod, ok := all[peer]
		if !ok {
			return false
		}
		if p.NamespaceSelector == nil && pod.Namespace != namespace ||
			p.NamespaceSelector != nil && !selector(p.NamespaceSelector).Matches(spaces[pod.Namespace]) {
			return false
		}
		return p.PodSelector == nil || selector(p.PodSelector).Matches(pod.Labels)
	})
}

func randomPolicies(r *rand.Rand) (out []*networkingv1.NetworkPolicy) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	selectors := func(key string, values ...string) *metav1.LabelSelector {
		if r.IntN(3) == 0 {
			return &metav1.LabelSelector{}
		}
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: pick(values...)}}
	}
	somePorts := func() (ports []networkingv1.NetworkPolicyPort) {
		for range r.IntN(3) {
			p := networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.Protocol(pick("TCP", "UDP", "SCTP")))}
			switch r.IntN(4) {
			case 0:
				p.Port = ptr.To(intstr.FromString(pick("http", "sql", "none")))
			case 1:
				p.Port = ptr.To(intstr.FromInt32(80))
			case 2:
				p.Port, p.EndPort = ptr.To(intstr.FromInt32(80)), ptr.To[int32](80+r.Int32N(12))
			}
			ports = append(ports, p)
		}
		return ports
	}
	somePeers := func() (peers []networkingv1.NetworkPolicyPeer) {
		for range r.IntN(3) {
			var p networkingv1.NetworkPolicyPeer
			switch r.IntN(4) {
			case 0:
				p.IPBlock = &networkingv1.IPBlock{
					CIDR:   "0.0.0.0/0",
					Except: []string{pick("192.0.2.0/24", "198.51.100.7/32"), pick("10.64.0.0/30", "128.0.0.0/1")},
				}
			case 1:
				p.IPBlock = &networkingv1.IPBlock{CIDR: pick("192.0.2.0/24", "10.64.0.0/20", "::/0", "10.64.0.4/31")}
			case 2:
				p.NamespaceSelector = selectors("team", "red", "blue")
			}
			if p.IPBlock == nil && (p.NamespaceSelector == nil || r.IntN(2) == 0) {
				p.PodSelector = selectors("app", "web", "db", "none")
			}
			peers = append(peers, p)
		}
		return peers
	}
	for range r.IntN(5) {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pick("red", "blue")}}
		p.Spec.PodSelector = *selectors("app", "web", "db")
		for range r.IntN(3) {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: somePorts(), From: somePeers()})
		}
		for range r.IntN(3) {
			p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: somePorts(), To: somePeers()})
		}
		switch r.IntN(4) {
		case 0:
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		case 1:
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		}
		networking.SetNetworkPolicyDefaults(p)
		out = append(out, p)
	}
	return out
}

// The names of lists and groups follow from what is in them alone, so that nothing changes where nothing has changed.
func TestNamesAreStable(t *testing.T) {
	texts := []string{
		`red: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b, c: d, app: web}}}]}]}`,
		`red: {podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: http}]}]}`,
	}
	first, second := apply(parse(t, texts...)), apply(parse(t, append(texts, `blue: {podSelector: {}, ingress: [{}]}`)...))
	at := addresses["red/web"]
	if a, b := first.Pods[at], second.Pods[at]; a.Ingress != b.Ingress || a.Egress != b.Egress || !slices.Equal(a.Groups, b.Groups) {
		t.Errorf("%v, and with one policy more %v", a, b)
	}
	if a := first.Pods[at]; len(first.Lists[a.Ingress]) != 1 {
		t.Errorf("lists %v", slices.Collect(maps.Keys(first.Lists)))
	}
}
