package oci

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAppArmorProfile(t *testing.T) {
	asks := func(kind corev1.AppArmorProfileType) *corev1.AppArmorProfile {
		p := &corev1.AppArmorProfile{Type: kind}
		if kind == corev1.AppArmorProfileTypeLocalhost {
			p.LocalhostProfile = ptr("mine")
		}
		return p
	}
	const localhost, byDefault, unconfined = corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined
	for rule, c := range map[string]struct {
		pod, container *corev1.AppArmorProfile
		privileged     bool
		want, without  string // with a default profile on the host, and without
	}{
		"nothing is said":               {want: "default"},
		"the pod's counts":              {pod: asks(localhost), want: "mine", without: "mine"},
		"but the container's first":     {pod: asks(localhost), container: asks(unconfined)},
		"the default is asked for":      {container: asks(byDefault), want: "default", without: "error"},
		"privileged":                    {privileged: true},
		"privileged, asking for it":     {pod: asks(byDefault), privileged: true},
		"privileged, with one's own":    {container: asks(localhost), privileged: true, want: "mine", without: "mine"},
		"Localhost has to name one":     {pod: &corev1.AppArmorProfile{Type: localhost}, want: "error", without: "error"},
		"a type that is not known here": {pod: asks("Some"), want: "error", without: "error"},
	} {
		for _, there := range []bool{true, false} {
			want := c.without
			in := input(func(in *Input) {
				in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: c.pod}
				in.Container.SecurityContext = &corev1.SecurityContext{AppArmorProfile: c.container, Privileged: &c.privileged}
				if there {
					want, in.AppArmorDefault = c.want, func() (string, error) { return "default", nil }
				}
			})
			got := "error"
			if spec, err := Spec(in); err == nil {
				got = spec.Process.ApparmorProfile
			}
			if got != want {
				t.Errorf("%s, a default profile is there %t: %q, want %q", rule, there, got, want)
			}
		}
	}
}
