package oci

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceEnv(t *testing.T) {
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "my-web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.5", Ports: []corev1.ServicePort{
		{Name: "http-alt", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
	}}}
	headless := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "headless"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: web.Spec.Ports},
	}
	for _, c := range []struct {
		name, api string
		env       []corev1.EnvVar
		want      string
		edit      func(*Input)
	}{
		{"the Services of the namespace", "", nil, "MY_WEB_PORT=tcp://10.96.0.5:80 MY_WEB_PORT_53_UDP=udp://10.96.0.5:53 MY_WEB_PORT_53_UDP_ADDR=10.96.0.5 " +
			"MY_WEB_PORT_53_UDP_PORT=53 MY_WEB_PORT_53_UDP_PROTO=udp MY_WEB_PORT_80_TCP=tcp://10.96.0.5:80 MY_WEB_PORT_80_TCP_ADDR=10.96.0.5 " +
			"MY_WEB_PORT_80_TCP_PORT=80 MY_WEB_PORT_80_TCP_PROTO=tcp MY_WEB_SERVICE_HOST=10.96.0.5 MY_WEB_SERVICE_PORT=80 " +
			"MY_WEB_SERVICE_PORT_DNS=53 MY_WEB_SERVICE_PORT_HTTP_ALT=80",
			func(in *Input) { in.Services = []*corev1.Service{headless, web} }},
		{"not without links", "", nil, "", func(in *Input) {
			in.Services, in.Pod.Spec.EnableServiceLinks = []*corev1.Service{web}, new(bool)
		}},
		{"where the API is", "10.64.0.1:443", nil, "KUBERNETES_PORT=tcp://10.64.0.1:443 " +
			"KUBERNETES_PORT_443_TCP=tcp://10.64.0.1:443 KUBERNETES_PORT_443_TCP_ADDR=10.64.0.1 " +
			"KUBERNETES_PORT_443_TCP_PORT=443 KUBERNETES_PORT_443_TCP_PROTO=tcp KUBERNETES_SERVICE_HOST=10.64.0.1 " +
			"KUBERNETES_SERVICE_PORT=443 KUBERNETES_SERVICE_PORT_HTTPS=443", nil},
		{"nothing where it cannot be reached", "", nil, "", nil},
		{"the container's own win, and may name them", "127.0.0.1:1", []corev1.EnvVar{{Name: "KUBERNETES_PORT", Value: "$(KUBERNETES_SERVICE_HOST)"}},
			"KUBERNETES_PORT=127.0.0.1 KUBERNETES_PORT_1_TCP=tcp://127.0.0.1:1 KUBERNETES_PORT_1_TCP_ADDR=127.0.0.1 " +
				"KUBERNETES_PORT_1_TCP_PORT=1 KUBERNETES_PORT_1_TCP_PROTO=tcp KUBERNETES_SERVICE_HOST=127.0.0.1 " +
				"KUBERNETES_SERVICE_PORT=1 KUBERNETES_SERVICE_PORT_HTTPS=1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				in.Container.Env = c.env
				if c.edit != nil {
					c.edit(in)
				}
				if c.api != "" {
					in.API = netip.MustParseAddrPort(c.api)
				}
			})
			env := slices.DeleteFunc(slices.Clone(spec.Process.Env), func(e string) bool {
				return !strings.HasPrefix(e, "KUBERNETES_") && !strings.HasPrefix(e, "MY_WEB_") && !strings.HasPrefix(e, "HEADLESS_")
			})
			slices.Sort(env)
			if got := strings.Join(env, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
