package discovery

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

func TestEndpointSlices(t *testing.T) {
	many := func(n int, what string) string { return strings.TrimSuffix(strings.Repeat(what+", ", n), ", ") }
	for spec, want := range map[string]string{
		`addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}]`:                       "",
		`addressType: IPv6, endpoints: [{addresses: ["2001:db8::1"]}]`:                   "",
		`addressType: IPv4, endpoints: [{addresses: ["fd00::1234"]}]`:                    "endpoints[0].addresses[0]: Invalid value: \"fd00::1234\": must be a valid IPv4 address",
		`addressType: IPv4, endpoints: [{addresses: [192.0.2.1, 127.0.0.1]}]`:            "endpoints[0].addresses[1]: Invalid value: \"127.0.0.1\": may not be in the loopback range",
		`addressType: IPv4, endpoints: [{addresses: [169.254.169.254]}]`:                 "may not be in the link-local range",
		`addressType: IPv4, endpoints: [{addresses: [0.0.0.0]}]`:                         "may not be unspecified",
		`addressType: IPv4, endpoints: [{addresses: [224.0.0.1]}]`:                       "may not be in the link-local multicast range",
		`addressType: IPv6, endpoints: [{addresses: ["::1"]}]`:                           "may not be in the loopback range",
		`addressType: IPv6, endpoints: [{addresses: ["::ffff:127.0.0.1"]}]`:              "may not be in the loopback range",
		`addressType: IPv6, endpoints: [{addresses: ["fe80::1"]}]`:                       "may not be in the link-local range",
		`addressType: IPv4, endpoints: [` + many(1000, "{addresses: [192.0.2.1]}") + `]`: "",
		`addressType: IPv4, endpoints: [` + many(1001, "{addresses: [192.0.2.1]}") + `]`: "endpoints: Too many: 1001: must have at most 1000 items",
		`addressType: IPv4, endpoints: [{addresses: [` + many(101, "192.0.2.1") + `]}]`:  "endpoints[0].addresses: Too many: 101: must have at most 100 items",
		`addressType: IPv4, endpoints: [], ports: [` + many(20001, "{port: 1}") + `]`:    "ports: Too many: 20001",
	} {
		slice := &discoveryv1.EndpointSlice{}
		if err := yaml.UnmarshalStrict([]byte("{metadata: {name: a, namespace: n}, "+spec+"}"), slice); err != nil {
			t.Fatal(err)
		}
		SetEndpointSliceDefaults(slice)
		got := fmt.Sprint(validateEndpointSlice(slice).ToAggregate())
		if want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%.80s: got %.200s, want %s", spec, got, want)
		}
	}
}
