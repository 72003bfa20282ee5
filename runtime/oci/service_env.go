package oci

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// serviceEnv returns the variables by which clients in a pod find the API. Other Services have none, whatever
// enableServiceLinks says: they are headless, and those have none in a cluster either.
func serviceEnv(api netip.AddrPort) []corev1.EnvVar {
	if !api.IsValid() {
		return nil
	}
	host, port := api.Addr().String(), fmt.Sprint(api.Port())
	url, tcp := "tcp://"+api.String(), "KUBERNETES_PORT_"+port+"_TCP"
	return []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: host},
		{Name: "KUBERNETES_SERVICE_PORT", Value: port},
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: port},
		{Name: "KUBERNETES_PORT", Value: url},
		{Name: tcp, Value: url},
		{Name: tcp + "_PROTO", Value: "tcp"},
		{Name: tcp + "_PORT", Value: port},
		{Name: tcp + "_ADDR", Value: host},
	}
}
