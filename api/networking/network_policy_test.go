package networking

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, spec string) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte("{metadata: {name: a, namespace: n}, spec: "+spec+"}"), p); err != nil {
		t.Fatal(err)
	}
	SetNetworkPolicyDefaults(p)
	return p
}

func TestNetworkPolicies(t *testing.T) {
	for spec, want := range map[string]string{
		`{podSelector: {}}`: "",
		`{podSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}, ingress: [{}], egress: [{}]}`:          "",
		`{podSelector: {matchExpressions: [{key: a, operator: In}]}}`:                                                    "spec.podSelector.matchExpressions[0].values: Required value",
		`{podSelector: {matchLabels: {a: "b c"}}}`:                                                                       "spec.podSelector.matchLabels: Invalid value",
		`{podSelector: {}, ingress: [{ports: [{port: 80}, {port: http}, {port: 1, endPort: 65535}, {protocol: SCTP}]}]}`: "",
		`{podSelector: {}, ingress: [{ports: [{protocol: ICMP}]}]}`:                                                      `spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"`,
		`{podSelector: {}, ingress: [{ports: [{port: 0}]}]}`:                                                             "spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
		`{podSelector: {}, egress: [{ports: [{port: 80}, {port: 65536}]}]}`:                                              "spec.egress[0].ports[1].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
		`{podSelector: {}, egress: [{ports: [{port: No_Name}]}]}`:                                                        `spec.egress[0].ports[0].port: Invalid value: "No_Name"`,
		`{podSelector: {}, egress: [{ports: [{port: 80, endPort: 79}]}]}`:                                                "spec.egress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`",
		`{podSelector: {}, egress: [{ports: [{port: 80, endPort: 70000}]}]}`:                                             "spec.egress[0].ports[0].endPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
		`{podSelector: {}, egress: [{ports: [{port: http, endPort: 81}]}]}`:                                              "spec.egress[0].ports[0].endPort: Invalid value: 81: may not be specified when `port` is non-numeric",
		`{podSelector: {}, egress: [{ports: [{endPort: 81}]}]}`:                                                          "spec.egress[0].ports[0].endPort: Invalid value: 81: may not be specified when `port` is not specified",
		`{podSelector: {}, ingress: [{from: [{podSelector: {}, namespaceSelector: {}}, {namespaceSelector: {}}]}]}`:      "",
		`{podSelector: {}, ingress: [{from: [{}]}]}`:                                                                     "spec.ingress[0].from[0]: Required value: must specify a peer",
		`{podSelector: {}, egress: [{to: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]}`:                            "spec.egress[0].to[0]: Forbidden: may not specify both ipBlock and another peer",
		`{podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {"a b": c}}}]}]}`:                            "spec.egress[0].to[0].namespaceSelector.matchLabels: Invalid value",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}]}`:                      "",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: "2001:db8::/32", except: ["2001:db8:1::/48"]}}]}]}`:           "",
		`{podSelector: {}, egress: [{to: [{ipBlock: {}}]}]}`:                                                             "spec.egress[0].to[0].ipBlock.cidr: Required value",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.1}}]}]}`:                                               `spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.1": must be a valid CIDR value`,
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.1/8}}]}]}`:                                             "spec.egress[0].to[0].ipBlock.cidr: Invalid value",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]}`:                      "spec.egress[0].to[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}]}]}`:                       "must be a strict subset of `cidr`",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, all]}}]}]}`:                 "spec.egress[0].to[0].ipBlock.except[1]: Invalid value",
		`{podSelector: {}, policyTypes: [Egress]}`:                                                                       "",
		`{podSelector: {}, policyTypes: [Ingress, Outgress]}`:                                                            `spec.policyTypes[1]: Unsupported value: "Outgress": supported values: "Ingress", "Egress"`,
		`{podSelector: {}, policyTypes: [Ingress, Egress, Ingress]}`:                                                     "spec.policyTypes: Invalid value: [\"Ingress\",\"Egress\",\"Ingress\"]: may not specify more than two policyTypes",
	} {
		got := fmt.Sprint(validateNetworkPolicy(parse(t, spec)).ToAggregate())
		if want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%s:\ngot %s,\nwant %s", spec, got, want)
		}
	}
}

// Peers and ports multiply, so a small manifest could take all the memory of the daemon.
func TestPoliciesAreBounded(t *testing.T) {
	many := func(n int, what string) string { return strings.TrimSuffix(strings.Repeat(what+", ", n), ", ") }
	for spec, want := range map[string]string{
		`{podSelector: {}, ingress: [{from: [` + many(100, "{podSelector: {}}") + `], ports: [` + many(50, "{port: 1}") + `]}]}`:               "",
		`{podSelector: {}, ingress: [{from: [` + many(100, "{podSelector: {}}") + `], ports: [` + many(50, "{port: 1}") + `]}], egress: [{}]}`: "spec: Forbidden: may not have more than 5000 peers, counted once for each port of their rules, and has 5001",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [` + many(5000, "10.0.0.0/8") + `]}}]}]}`:                        "",
		`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [` + many(5001, "10.0.0.0/8") + `]}}]}]}`:                        "spec: Forbidden: may not have more than 5000 exceptions (ipBlock.except), and has 5001",
		`{podSelector: {}, egress: [` + many(5001, "{}") + `]}`:                                                                                "and has 5001",
	} {
		got := fmt.Sprint(validateNetworkPolicy(parse(t, spec)).ToAggregate())
		if want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%.80s: got %s, want %s", spec, got, want)
		}
	}
}

func TestDefaultsOfNetworkPolicies(t *testing.T) {
	for spec, want := range map[string]string{
		`{podSelector: {}}`:                                       "[Ingress]",
		`{podSelector: {}, ingress: [{}]}`:                        "[Ingress]",
		`{podSelector: {}, egress: [{}]}`:                         "[Ingress Egress]",
		`{podSelector: {}, egress: []}`:                           "[Ingress]",
		`{podSelector: {}, egress: [{}], policyTypes: [Egress]}`:  "[Egress]",
		`{podSelector: {}, egress: [{}], policyTypes: [Ingress]}`: "[Ingress]",
	} {
		if got := fmt.Sprint(parse(t, spec).Spec.PolicyTypes); got != want {
			t.Errorf("%s is for %s, want %s", spec, got, want)
		}
	}
	p := parse(t, `{podSelector: {}, ingress: [{ports: [{port: 1}, {protocol: UDP}]}], egress: [{ports: [{port: 2}]}]}`)
	if got := *p.Spec.Ingress[0].Ports[0].Protocol + *p.Spec.Ingress[0].Ports[1].Protocol + *p.Spec.Egress[0].Ports[0].Protocol; got != "TCPUDPTCP" {
		t.Errorf("protocols %s", got)
	}
}

func TestWarningsOfNetworkPolicies(t *testing.T) {
	p := parse(t, `{podSelector: {}, ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: "::/0"}}]}], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}`)
	want := "[spec.ingress[0].from[1].ipBlock.cidr: pods have IPv4 only, so ::/0 matches nothing]"
	if got := fmt.Sprint(networkPolicyWarnings(p)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A change of the spec is a new generation, one of labels is not.
func TestGenerationsOfNetworkPolicies(t *testing.T) {
	old := parse(t, `{podSelector: {}}`)
	old.Generation = 3
	same := old.DeepCopy()
	same.Labels = map[string]string{"a": "b"}
	prepareNetworkPolicyUpdate(same, old)
	changed := parse(t, `{podSelector: {}, ingress: [{}]}`)
	prepareNetworkPolicyUpdate(changed, old)
	if same.Generation != 3 || changed.Generation != 4 {
		t.Errorf("generations %d and %d", same.Generation, changed.Generation)
	}
}
