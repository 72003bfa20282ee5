package core

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// maxAffinitySeconds is the longest time for which a client stays with an endpoint (ClientIPConfig.TimeoutSeconds).
const maxAffinitySeconds = 86400

// NormalizeClusterIPs makes ServiceSpec.ClusterIP and ClusterIPs agree: a client may write either of them. old is the
// Service before, nil for a new one; an address that the client leaves out is kept.
func NormalizeClusterIPs(s, old *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		return
	}
	if old != nil && s.Spec.ClusterIP != old.Spec.ClusterIP && slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		s.Spec.ClusterIPs = nil // the client has written only the other one
	}
	switch {
	case s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) > 0:
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	case s.Spec.ClusterIP == "" && old != nil:
		s.Spec.ClusterIP = old.Spec.ClusterIP
	}
	if s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0 {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
}

// KeepNodePorts gives ports of a changed Service those of the host that they had where the client leaves them out, and
// takes them away when the Service no longer has such ports.
func KeepNodePorts(s, old *corev1.Service) {
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		at := slices.IndexFunc(old.Spec.Ports, func(o corev1.ServicePort) bool {
			return o.Port == p.Port && o.Protocol == p.Protocol
		})
		if at < 0 {
			continue
		}
		had := old.Spec.Ports[at].NodePort
		switch taken := slices.ContainsFunc(s.Spec.Ports, func(o corev1.ServicePort) bool {
			return o.NodePort == had && o.Protocol == p.Protocol
		}); {
		case TakesNodePorts(s) && p.NodePort == 0 && !taken:
			p.NodePort = had
		case !TakesNodePorts(s) && TakesNodePorts(old) && p.NodePort == had:
			p.NodePort = 0
		}
	}
}

// TakesNodePorts reports whether each port of the Service gets one of the host.
func TakesNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort ||
		s.Spec.Type == corev1.ServiceTypeLoadBalancer && ptr.Deref(s.Spec.AllocateLoadBalancerNodePorts, true)
}

// validateServiceAddresses checks the addresses of a Service in its stored form.
func validateServiceAddresses(s *corev1.Service, path *field.Path) (errs field.ErrorList) {
	ips := path.Child("clusterIPs")
	switch {
	case len(s.Spec.ClusterIPs) > 1:
		errs = append(errs, field.Invalid(ips, s.Spec.ClusterIPs, "may hold only one address: pods have IPv4 only"))
	case len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] != s.Spec.ClusterIP:
		errs = append(errs, field.Invalid(ips, s.Spec.ClusterIPs, "first value must match `clusterIP`"))
	case s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone:
		if a, err := netip.ParseAddr(s.Spec.ClusterIP); err != nil {
			errs = append(errs, field.Invalid(ips.Index(0), s.Spec.ClusterIP,
				"must be empty, 'None', or a valid IP address"))
		} else if !a.Is4() {
			errs = append(errs, field.Invalid(ips.Index(0), s.Spec.ClusterIP, "must be an IPv4 address: pods have IPv4 only"))
		}
	}
	for i, family := range s.Spec.IPFamilies {
		if family != corev1.IPv4Protocol {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	policy := ptr.Deref(s.Spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if policy == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), policy,
			"this cluster is not configured for dual-stack services"))
	}
	for i, said := range s.Spec.ExternalIPs {
		errs = append(errs, validateExternalIP(said, path.Child("externalIPs").Index(i))...)
	}
	return errs
}

func validateExternalIP(said string, path *field.Path) field.ErrorList {
	a, err := netip.ParseAddr(said)
	var why string
	switch {
	case err != nil:
		why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	case !a.Is4():
		why = "must be an IPv4 address: pods have IPv4 only"
	case a.IsUnspecified():
		why = "may not be unspecified (0.0.0.0)"
	case a.IsLoopback():
		why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
	case a.IsLinkLocalUnicast():
		why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
	case a.IsMulticast():
		why = "may not be in the multicast range (224.0.0.0/4)"
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(path, said, why)}
}

func validateSessionAffinity(s *corev1.Service, path *field.Path) field.ErrorList {
	switch s.Spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		return nil
	case corev1.ServiceAffinityClientIP:
	default:
		return field.ErrorList{field.NotSupported(path.Child("sessionAffinity"), s.Spec.SessionAffinity,
			[]corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone})}
	}
	c := s.Spec.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
		return nil // it has a default
	}
	if seconds := *c.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > maxAffinitySeconds {
		return field.ErrorList{field.Invalid(path.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), seconds,
			fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))}
	}
	return nil
}

func validateNodePorts(s *corev1.Service, path *field.Path) (errs field.ErrorList) {
	type key struct {
		protocol corev1.Protocol
		port     int32
	}
	seen := map[key]bool{}
	for i, p := range s.Spec.Ports {
		path := path.Index(i).Child("nodePort")
		if p.NodePort == 0 {
			continue
		}
		if s.Spec.Type != corev1.ServiceTypeNodePort && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("may not be used when `type` is '%s'", s.Spec.Type)))
		}
		k := key{p.Protocol, p.NodePort}
		if seen[k] {
			errs = append(errs, field.Duplicate(path, p.NodePort))
		}
		seen[k] = true
	}
	return errs
}
