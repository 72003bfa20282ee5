// Package networking holds the rules of networking.k8s.io/v1: NetworkPolicy, as the description that NetworkPolicyKind
// returns. They touch nothing but their arguments.
package networking

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

var (
	protocols   = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	policyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
)

const (
	// mostAllowances bounds how many peers, each with each of the ports of its rule, a policy has, and also how many
	// exceptions. The kernel has a rule for each of them, and what one policy takes is taken from all pods.
	mostAllowances = 5000
	// MostNamespaceSize bounds the Size of all policies of a namespace together.
	MostNamespaceSize = 20_000
)

// SetNetworkPolicyDefaults fills in what a manifest left out: ports are of TCP, and a policy that does not say for which
// directions it is (NetworkPolicySpec.PolicyTypes) is for ingress, and for egress too if it has rules for that.
func SetNetworkPolicyDefaults(p *networkingv1.NetworkPolicy) {
	for _, rule := range p.Spec.Ingress {
		setPortDefaults(rule.Ports)
	}
	for _, rule := range p.Spec.Egress {
		setPortDefaults(rule.Ports)
	}
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

func setPortDefaults(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			ports[i].Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}

// prepareNetworkPolicyUpdate counts the generations of the spec.
func prepareNetworkPolicyUpdate(p, old *networkingv1.NetworkPolicy) {
	if !equality.Semantic.DeepEqual(p.Spec, old.Spec) {
		p.Generation = old.Generation + 1
	}
}

// validateNetworkPolicy checks a NetworkPolicy (NetworkPolicySpec).
func validateNetworkPolicy(p *networkingv1.NetworkPolicy) field.ErrorList {
	errs := validation.ValidateObjectMeta(&p.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateNetworkPolicySpec(&p.Spec, field.NewPath("spec"))...)
}

func validateNetworkPolicyUpdate(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateNetworkPolicySpec(&p.Spec, field.NewPath("spec"))...)
}

func validateNetworkPolicySpec(spec *networkingv1.NetworkPolicySpec, path *field.Path) field.ErrorList {
	errs := validateSelector(&spec.PodSelector, path.Child("podSelector"))
	for i, rule := range spec.Ingress {
		errs = append(errs, validatePorts(rule.Ports, path.Child("ingress").Index(i).Child("ports"))...)
	}
	for i, rule := range spec.Egress {
		errs = append(errs, validatePorts(rule.Ports, path.Child("egress").Index(i).Child("ports"))...)
	}
	allowances, exceptions := count(spec)
	if allowances > mostAllowances {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"may not have more than %d peers, counted once for each port of their rules, and has %d", mostAllowances, allowances)))
	}
	if exceptions > mostAllowances {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"may not have more than %d exceptions (ipBlock.except), and has %d", mostAllowances, exceptions)))
	}
	eachPeer(spec, path, func(peer *networkingv1.NetworkPolicyPeer, path *field.Path) {
		errs = append(errs, validatePeer(peer, path)...)
	})
	if len(spec.PolicyTypes) > len(policyTypes) {
		return append(errs, field.Invalid(path.Child("policyTypes"), spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range spec.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			errs = append(errs, field.NotSupported(path.Child("policyTypes").Index(i), t, policyTypes))
		}
	}
	return errs
}

// count returns how many peers a policy has, each with each of the ports of its rule, and how many exceptions.
func count(spec *networkingv1.NetworkPolicySpec) (allowances, exceptions int) {
	for _, rule := range spec.Ingress {
		allowances += max(1, len(rule.From)) * max(1, len(rule.Ports))
	}
	for _, rule := range spec.Egress {
		allowances += max(1, len(rule.To)) * max(1, len(rule.Ports))
	}
	eachPeer(spec, nil, func(peer *networkingv1.NetworkPolicyPeer, _ *field.Path) {
		if peer.IPBlock != nil {
			exceptions += len(peer.IPBlock.Except)
		}
	})
	return allowances, exceptions
}

// Size returns how much of the kernel's room for rules a policy takes.
func Size(spec *networkingv1.NetworkPolicySpec) int {
	allowances, exceptions := count(spec)
	return 1 + allowances + exceptions
}

// eachPeer calls fn with every peer of a policy and its path.
func eachPeer(spec *networkingv1.NetworkPolicySpec, path *field.Path, fn func(*networkingv1.NetworkPolicyPeer, *field.Path)) {
	for i := range spec.Ingress {
		for k := range spec.Ingress[i].From {
			fn(&spec.Ingress[i].From[k], path.Child("ingress").Index(i).Child("from").Index(k))
		}
	}
	for i := range spec.Egress {
		for k := range spec.Egress[i].To {
			fn(&spec.Egress[i].To[k], path.Child("egress").Index(i).Child("to").Index(k))
		}
	}
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

func validatePorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) (errs field.ErrorList) {
	for i, p := range ports {
		path := path.Index(i)
		switch ptr.Deref(p.Protocol, corev1.ProtocolTCP) {
		case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		default:
			errs = append(errs, field.NotSupported(path.Child("protocol"), *p.Protocol, protocols))
		}
		errs = append(errs, validatePort(&p, path)...)
	}
	return errs
}

func validatePort(p *networkingv1.NetworkPolicyPort, path *field.Path) (errs field.ErrorList) {
	invalid := func(name string, value any, messages ...string) {
		for _, m := range messages {
			errs = append(errs, field.Invalid(path.Child(name), value, m))
		}
	}
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			invalid("endPort", *p.EndPort, "may not be specified when `port` is not specified")
		}
	case p.Port.Type == intstr.String:
		if p.EndPort != nil {
			invalid("endPort", *p.EndPort, "may not be specified when `port` is non-numeric")
		}
		invalid("port", p.Port.StrVal, utilvalidation.IsValidPortName(p.Port.StrVal)...)
	default:
		invalid("port", p.Port.IntVal, utilvalidation.IsValidPortNum(int(p.Port.IntVal))...)
		if p.EndPort == nil {
			break
		}
		if *p.EndPort < p.Port.IntVal {
			invalid("endPort", *p.EndPort, "must be greater than or equal to `port`")
		}
		invalid("endPort", *p.EndPort, utilvalidation.IsValidPortNum(int(*p.EndPort))...)
	}
	return errs
}

func validatePeer(peer *networkingv1.NetworkPolicyPeer, path *field.Path) (errs field.ErrorList) {
	if peer.PodSelector != nil {
		errs = append(errs, validateSelector(peer.PodSelector, path.Child("podSelector"))...)
	}
	if peer.NamespaceSelector != nil {
		errs = append(errs, validateSelector(peer.NamespaceSelector, path.Child("namespaceSelector"))...)
	}
	selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
	switch {
	case peer.IPBlock == nil && !selects:
		errs = append(errs, field.Required(path, "must specify a peer"))
	case peer.IPBlock != nil && selects:
		errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
	}
	if peer.IPBlock != nil {
		errs = append(errs, validateIPBlock(peer.IPBlock, path.Child("ipBlock"))...)
	}
	return errs
}

func validateIPBlock(b *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := utilvalidation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, nil)
	block, err := netip.ParsePrefix(b.CIDR)
	for i, text := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(at, text, true, nil)...)
		except, invalid := netip.ParsePrefix(text)
		if err != nil || invalid != nil {
			continue
		}
		if !block.Contains(except.Addr()) || except.Bits() <= block.Bits() {
			errs = append(errs, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

// networkPolicyWarnings says which blocks of addresses match nothing: pods have IPv4 only.
func networkPolicyWarnings(p *networkingv1.NetworkPolicy) (warnings []string) {
	eachPeer(&p.Spec, field.NewPath("spec"), func(peer *networkingv1.NetworkPolicyPeer, path *field.Path) {
		if peer.IPBlock == nil {
			return
		}
		if block, err := netip.ParsePrefix(peer.IPBlock.CIDR); err == nil && !block.Addr().Is4() {
			warnings = append(warnings, fmt.Sprintf("%s: pods have IPv4 only, so %s matches nothing",
				path.Child("ipBlock", "cidr"), peer.IPBlock.CIDR))
		}
	})
	return warnings
}
