package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestService(t *testing.T) {
	const at = "clusterIP: 10.96.0.5, clusterIPs: [10.96.0.5], "
	for _, c := range []struct {
		name, spec     string
		errors, warned []string // how they begin
	}{
		{"headless, by selector", `{clusterIP: None, selector: {a: b}}`, nil, nil},
		{"with a port", `{` + at + `selector: {a: b}, ports: [{port: 6379}]}`, nil, nil},
		{"a port may lead to another one", `{` + at + `selector: {a: b}, ports: [{port: 80, targetPort: 8080}]}`, nil, nil},
		{"to the same one if none is named", `{clusterIP: None, selector: {a: b}, ports: [{port: 80, targetPort: ""}]}`, nil, nil},
		{"or it is zero", `{clusterIP: None, selector: {a: b}, ports: [{port: 80, targetPort: 0}]}`, nil, nil},
		{
			"but not without an address", `{clusterIP: None, selector: {a: b}, ports: [{port: 80, targetPort: 8080}]}`, nil,
			[]string{"spec.ports[0].targetPort:"},
		},
		{"a port of the host", `{` + at + `type: NodePort, ports: [{port: 80, nodePort: 30080}]}`, nil, nil},
		{"which needs an address", `{type: NodePort, selector: {a: b}, ports: [{port: 80}]}`, nil, []string{"spec.type: NodePort"}},
		{
			"a port of the host only where the type is that", `{` + at + `ports: [{port: 80, nodePort: 30080}]}`,
			[]string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}, nil,
		},
		{
			"a port of the host comes once",
			`{` + at + `type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30080}]}`,
			[]string{"spec.ports[1].nodePort: Duplicate"}, nil,
		},
		{"there is no load balancer", `{` + at + `type: LoadBalancer, ports: [{port: 80}]}`, nil, []string{"spec.type: there is no load balancer"}},
		{
			"so what is only its is named",
			`{` + at + `loadBalancerSourceRanges: [10.0.0.0/8], healthCheckNodePort: 30001, ports: [{port: 80}]}`, nil,
			[]string{"spec.loadBalancerSourceRanges: has no effect", "spec.healthCheckNodePort: has no effect"},
		},
		{
			"an address is one", `{clusterIP: here, clusterIPs: [here], ports: [{port: 80}]}`,
			[]string{"spec.clusterIPs[0]: Invalid value: \"here\": must be empty, 'None', or a valid IP address"}, nil,
		},
		{"of IPv4", `{clusterIP: "fd00::1", clusterIPs: ["fd00::1"], ports: [{port: 80}]}`, []string{"spec.clusterIPs[0]: Invalid"}, nil},
		{
			"of one family", `{` + at + `ipFamilies: [IPv6], ports: [{port: 80}]}`,
			[]string{"spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"}, nil,
		},
		{"of one family at most", `{` + at + `ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}`, []string{"spec.ipFamilyPolicy: Invalid"}, nil},
		{"a second family is only a wish", `{` + at + `ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}`, nil, nil},
		{
			"both fields name the same address", `{clusterIP: 10.96.0.5, clusterIPs: [10.96.0.6], ports: [{port: 80}]}`,
			[]string{"spec.clusterIPs: Invalid"}, nil,
		},
		{"an external address", `{` + at + `externalIPs: [192.0.2.1], ports: [{port: 80}]}`, nil, nil},
		{
			"not the loopback's", `{` + at + `externalIPs: [127.0.0.1, here], ports: [{port: 80}]}`,
			[]string{"spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range", "spec.externalIPs[1]: Invalid"},
			nil,
		},
		{"a client stays", `{` + at + `sessionAffinity: ClientIP, ports: [{port: 80}]}`, nil, nil},
		{
			"for a day at most",
			`{` + at + `sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}, ports: [{port: 80}]}`,
			[]string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400"},
			nil,
		},
		{"by nothing else", `{` + at + `sessionAffinity: Cookie, ports: [{port: 80}]}`, []string{"spec.sessionAffinity: Unsupported"}, nil},
		{"without a selector, for EndpointSlices of one's own", `{` + at + `ports: [{port: 80}]}`, nil, nil},
		{"ExternalName is a name", `{type: ExternalName, externalName: example.org}`, nil, nil},
		{"ExternalName is no address with spaces", `{type: ExternalName, externalName: "a b"}`, []string{"spec.externalName: Invalid"}, nil},
		{"an unknown type", `{` + at + `type: Other, selector: {a: b}}`, []string{"spec.type: Unsupported"}, []string{"spec.type"}},
		{
			"ports of a number have names", `{` + at + `selector: {a: b}, ports: [{port: 1}, {port: 2, name: two}]}`,
			[]string{"spec.ports[0].name: Required"}, nil,
		},
		{
			"names of ports differ", `{` + at + `selector: {a: b}, ports: [{port: 1, name: x}, {port: 2, name: x}]}`,
			[]string{"spec.ports[1].name: Duplicate"}, nil,
		},
		{"a port is below 65536", `{` + at + `selector: {a: b}, ports: [{port: 65536, targetPort: 1}]}`, []string{"spec.ports[0].port: Invalid"}, nil},
		{"a port comes once", `{` + at + `selector: {a: b}, ports: [{port: 1, name: x}, {port: 1, name: y}]}`, []string{"spec.ports[1]: Duplicate"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &corev1.Service{}
			s.Namespace, s.Name = "default", "web"
			if err := yaml.UnmarshalStrict([]byte(c.spec), &s.Spec); err != nil {
				t.Fatal(err)
			}
			SetServiceDefaults(s)
			prepareService(s)
			var errs []string
			for _, e := range validateService(s) {
				errs = append(errs, e.Error())
			}
			if !slices.EqualFunc(errs, c.errors, strings.HasPrefix) {
				t.Errorf("errors %q, want %q", errs, c.errors)
			}
			if warned := serviceWarnings(s); s.Spec.Type != "Other" && !slices.EqualFunc(warned, c.warned, strings.HasPrefix) {
				t.Errorf("warnings %q, want %q", warned, c.warned)
			}
		})
	}
}

// TestChangedService says what a client may leave out when it writes a Service again, and what it may not change.
func TestChangedService(t *testing.T) {
	const was = `{type: NodePort, clusterIP: 10.96.0.5, clusterIPs: [10.96.0.5], ports: [{port: 80, nodePort: 30080}]}`
	for _, c := range []struct{ name, now, ip, refused string }{
		{"written as in its manifest", `{type: NodePort, ports: [{port: 80}]}`, "10.96.0.5:30080", ""},
		{"written as it is", was, "10.96.0.5:30080", ""},
		{"another port of the host", `{type: NodePort, ports: [{port: 80, nodePort: 30081}]}`, "10.96.0.5:30081", ""},
		{"no longer of the host", `{type: ClusterIP, ports: [{port: 80, nodePort: 30080}]}`, "10.96.0.5:0", ""},
		{
			"another address", `{type: NodePort, clusterIP: 10.96.0.6, ports: [{port: 80}]}`, "10.96.0.6:30080",
			"spec.clusterIPs[0]: Invalid value: [\"10.96.0.6\"]: may not change once set",
		},
		{
			"another address beside the old one",
			`{type: NodePort, clusterIP: 10.96.0.6, clusterIPs: [10.96.0.5], ports: [{port: 80}]}`, "10.96.0.6:30080",
			"spec.clusterIPs[0]: Invalid value: [\"10.96.0.6\"]: may not change once set",
		},
		{"headless", `{clusterIP: None, ports: [{port: 80}]}`, "None:0", "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"},
		{"an alias", `{type: ExternalName, externalName: example.org, ports: [{port: 80}]}`, ":0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, s := &corev1.Service{}, &corev1.Service{}
			for in, spec := range map[*corev1.Service]string{old: was, s: c.now} {
				in.Namespace, in.Name, in.ResourceVersion = "default", "web", "1"
				if err := yaml.UnmarshalStrict([]byte(spec), &in.Spec); err != nil {
					t.Fatal(err)
				}
				SetServiceDefaults(in)
			}
			NormalizeClusterIPs(s, old)
			KeepNodePorts(s, old)
			prepareServiceUpdate(s, old)
			if got := fmt.Sprintf("%s:%d", s.Spec.ClusterIP, s.Spec.Ports[0].NodePort); got != c.ip {
				t.Errorf("got %s, want %s", got, c.ip)
			}
			if errs := validateServiceUpdate(s, old); (len(errs) > 0) != (c.refused != "") || len(errs) > 0 && errs[0].Error() != c.refused {
				t.Errorf("refused %v, want %q", errs, c.refused)
			}
		})
	}
}

// TestServicesThatMapPortsAreNotHeadless keeps kubectl port-forward working where there are no virtual addresses: it goes to the targetPort only if clusterIP
// is not None.
func TestServicesThatMapPortsAreNotHeadless(t *testing.T) {
	prepared := func(spec string, old *corev1.Service) *corev1.Service {
		s := &corev1.Service{}
		if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
			t.Fatal(err)
		}
		SetServiceDefaults(s)
		WithoutAddress(s, old == nil || MapsPorts(old))
		return s
	}
	const (
		plain, mapped  = `{ports: [{port: 80}]}`, `{ports: [{port: 80, targetPort: 8080}]}`
		headless       = `{clusterIP: None, ports: [{port: 80}]}`
		mappedToName   = `{ports: [{port: 80, targetPort: http}]}`
		headlessMapped = `{clusterIP: None, ports: [{port: 80, targetPort: 8080}]}`
	)
	for _, c := range []struct{ name, was, now, want string }{
		{"the same port", "", plain, "None"},
		{"another port", "", mapped, ""},
		{"a port by its name", "", mappedToName, ""},
		{"headless as it was asked", "", headlessMapped, "None"},
		{"one that begins to map, written with the address it had", headless, headlessMapped, ""},
		{"one that maps and is asked to be headless", mapped, headlessMapped, "None"},
		{"one that maps, written again", mapped, mapped, ""},
		{"one that ceases to map", mapped, plain, "None"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var old *corev1.Service
			if c.was != "" {
				old = prepared(c.was, nil)
			}
			s := prepared(c.now, old)
			if s.Spec.ClusterIP != c.want || (len(s.Spec.ClusterIPs) == 0) != (c.want == "") {
				t.Errorf("clusterIP %q %q, want %q", s.Spec.ClusterIP, s.Spec.ClusterIPs, c.want)
			}
		})
	}
}

// The kernel has rules for each port, so a small manifest could take all memory of the machine. What a Service has from a time
// without bounds it keeps.
func TestServicesAreBounded(t *testing.T) {
	with := func(ports int) *corev1.Service {
		s := &corev1.Service{}
		s.Namespace, s.Name, s.Spec.ClusterIP, s.Spec.ClusterIPs = "default", "web", "10.96.0.5", []string{"10.96.0.5"}
		for i := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
		}
		SetServiceDefaults(s)
		s.ResourceVersion = "1"
		return s
	}
	const says = "spec.ports: Too many: 501: must have at most 500 items"
	for _, c := range []struct {
		was, now int // -1: it is new
		want     string
	}{
		{-1, 500, ""}, {-1, 501, says}, {500, 501, says}, {501, 501, ""}, {600, 501, ""}, {600, 500, ""},
	} {
		errs := validateNewService(with(c.now))
		if c.was >= 0 {
			errs = validateServiceUpdate(with(c.now), with(c.was))
		}
		if got := fmt.Sprint(errs.ToAggregate()); c.want == "" && len(errs) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("%d ports after %d: %s", c.now, c.was, got)
		}
	}
}
