package core

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestService(t *testing.T) {
	for _, c := range []struct {
		name, spec     string
		errors, warned []string // how they begin
	}{
		{"headless, by selector", `{clusterIP: None, selector: {a: b}}`, nil, nil},
		{"with a port", `{selector: {a: b}, ports: [{port: 6379}]}`, nil, nil},
		{"a port that leads to another one warns", `{selector: {a: b}, ports: [{port: 80, targetPort: 8080}]}`, nil, []string{"spec.ports[0].targetPort:"}},
		{"a port of every node warns", `{type: NodePort, selector: {a: b}, ports: [{port: 80}]}`, nil, []string{"spec.type:"}},
		{"without a selector, for EndpointSlices of one's own", `{ports: [{port: 80}]}`, nil, nil},
		{"ExternalName is a name", `{type: ExternalName, externalName: example.org}`, nil, nil},
		{"ExternalName is no address with spaces", `{type: ExternalName, externalName: "a b"}`, []string{"spec.externalName: Invalid"}, nil},
		{"an unknown type", `{type: Other, selector: {a: b}}`, []string{"spec.type: Unsupported"}, nil},
		{"ports of a number have names", `{selector: {a: b}, ports: [{port: 1}, {port: 2, name: two}]}`, []string{"spec.ports[0].name: Required"}, nil},
		{"names of ports differ", `{selector: {a: b}, ports: [{port: 1, name: x}, {port: 2, name: x}]}`, []string{"spec.ports[1].name: Duplicate"}, nil},
		{"a port is below 65536", `{selector: {a: b}, ports: [{port: 65536, targetPort: 1}]}`, []string{"spec.ports[0].port: Invalid"}, []string{"spec.ports[0].targetPort:"}},
		{"a port comes once", `{selector: {a: b}, ports: [{port: 1, name: x}, {port: 1, name: y}]}`, []string{"spec.ports[1]: Duplicate"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &corev1.Service{}
			s.Namespace, s.Name = "default", "web"
			if err := yaml.UnmarshalStrict([]byte(c.spec), &s.Spec); err != nil {
				t.Fatal(err)
			}
			SetServiceDefaults(s)
			PrepareService(s)
			var errs []string
			for _, e := range validateService(s) {
				errs = append(errs, e.Error())
			}
			if !slices.EqualFunc(errs, c.errors, strings.HasPrefix) {
				t.Errorf("errors %q, want %q", errs, c.errors)
			}
			if warned := serviceWarnings(s); !slices.EqualFunc(warned, c.warned, strings.HasPrefix) {
				t.Errorf("warnings %q, want %q", warned, c.warned)
			}
			if ip := s.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone || s.Spec.Type == corev1.ServiceTypeExternalName && ip != "" {
				t.Errorf("clusterIP %q: there are no virtual addresses", ip)
			}
		})
	}
}

// TestServicesThatMapPortsAreNotHeadless keeps kubectl port-forward working: it goes to the targetPort only if clusterIP
// is not None.
func TestServicesThatMapPortsAreNotHeadless(t *testing.T) {
	prepared := func(spec string, old *corev1.Service) *corev1.Service {
		s := &corev1.Service{}
		if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
			t.Fatal(err)
		}
		SetServiceDefaults(s)
		if old != nil {
			prepareServiceUpdate(s, old)
		} else {
			PrepareService(s)
		}
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
