package oci

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestServiceEnv(t *testing.T) {
	for _, c := range []struct {
		name, api string
		env       []corev1.EnvVar
		want      string
	}{
		{"where the API is", "10.64.0.1:443", nil, "KUBERNETES_PORT=tcp://10.64.0.1:443 KUBERNETES_PORT_443_TCP=tcp://10.64.0.1:443 KUBERNETES_PORT_443_TCP_ADDR=10.64.0.1 " +
			"KUBERNETES_PORT_443_TCP_PORT=443 KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_SERVICE_HOST=10.64.0.1 KUBERNETES_SERVICE_PORT=443 KUBERNETES_SERVICE_PORT_HTTPS=443"},
		{"nothing where it cannot be reached", "", nil, ""},
		{"the container's own win, and may name them", "127.0.0.1:1", []corev1.EnvVar{{Name: "KUBERNETES_PORT", Value: "$(KUBERNETES_SERVICE_HOST)"}},
			"KUBERNETES_PORT=127.0.0.1 KUBERNETES_PORT_1_TCP=tcp://127.0.0.1:1 KUBERNETES_PORT_1_TCP_ADDR=127.0.0.1 " +
				"KUBERNETES_PORT_1_TCP_PORT=1 KUBERNETES_PORT_1_TCP_PROTO=tcp KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=1 KUBERNETES_SERVICE_PORT_HTTPS=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				in.Container.Env = c.env
				if c.api != "" {
					in.API = netip.MustParseAddrPort(c.api)
				}
			})
			env := slices.DeleteFunc(slices.Clone(spec.Process.Env), func(e string) bool { return !strings.HasPrefix(e, "KUBERNETES_") })
			slices.Sort(env)
			if got := strings.Join(env, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
