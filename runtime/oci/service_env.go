package oci

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serviceEnv returns the variables by which clients in a pod find the API and, unless enableServiceLinks rules that out,
// the Services of its namespace that have virtual addresses, named as a kubelet does.
func serviceEnv(in Input) (env []corev1.EnvVar) {
	if in.API.IsValid() {
		env = linkEnv("kubernetes", in.API.Addr().String(), []corev1.ServicePort{
			{Name: "https", Port: int32(in.API.Port()), Protocol: corev1.ProtocolTCP},
		})
	}
	if links := in.Pod.Spec.EnableServiceLinks; links != nil && !*links {
		return env
	}
	for _, s := range in.Services {
		if address, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && len(s.Spec.Ports) > 0 {
			env = append(env, linkEnv(s.Name, address.String(), s.Spec.Ports)...)
		}
	}
	return env
}

// linkEnv returns the variables of one Service.
func linkEnv(service, host string, ports []corev1.ServicePort) (env []corev1.EnvVar) {
	set := func(name, value string) { env = append(env, corev1.EnvVar{Name: name, Value: value}) }
	name := variableName(service)
	first := &ports[0]
	set(name+"_SERVICE_HOST", host)
	set(name+"_SERVICE_PORT", fmt.Sprint(first.Port))
	for _, p := range ports {
		if p.Name != "" {
			set(name+"_SERVICE_PORT_"+variableName(p.Name), fmt.Sprint(p.Port))
		}
	}
	for i, p := range ports {
		protocol, port := strings.ToLower(string(p.Protocol)), fmt.Sprint(p.Port)
		url := protocol + "://" + net.JoinHostPort(host, port)
		if i == 0 {
			set(name+"_PORT", url)
		}
		of := name + "_PORT_" + port + "_" + strings.ToUpper(protocol)
		set(of, url)
		set(of+"_PROTO", protocol)
		set(of+"_PORT", port)
		set(of+"_ADDR", host)
	}
	return env
}

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
