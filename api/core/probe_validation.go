package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// handler holds what probes and hooks have in common.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func lifecycleHandler(h *corev1.LifecycleHandler) handler {
	return handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}
}

func validateHandler(h handler, grace int64, path *field.Path) field.ErrorList {
	one := exactlyOne{path: path, what: "handler"}
	one.member("exec", h.exec != nil, func(path *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(path.Child("command"), "")}
		}
		return nil
	})
	one.member("httpGet", h.http != nil,
		func(path *field.Path) field.ErrorList { return validateHTTPGet(h.http, path) })
	one.member("tcpSocket", h.tcp != nil,
		func(path *field.Path) field.ErrorList { return validatePort(h.tcp.Port, path.Child("port")) })
	one.member("grpc", h.grpc != nil, func(path *field.Path) field.ErrorList {
		return validatePort(intstr.FromInt32(h.grpc.Port), path.Child("port"))
	})
	one.member("sleep", h.sleep != nil, func(path *field.Path) field.ErrorList {
		if h.sleep.Seconds < 0 || h.sleep.Seconds > grace {
			return field.ErrorList{field.Invalid(path, h.sleep.Seconds,
				fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", grace))}
		}
		return nil
	})
	return one.result()
}

func validateHTTPGet(h *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	errs := required(path.Child("path"), h.Path)
	errs = append(errs, validatePort(h.Port, path.Child("port"))...)
	errs = append(errs, oneOf(path.Child("scheme"), h.Scheme,
		[]corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS})...)
	for i, header := range h.HTTPHeaders {
		errs = append(errs, invalid(path.Child("httpHeaders").Index(i).Child("name"), header.Name,
			utilvalidation.IsHTTPHeaderName(header.Name))...)
	}
	return append(errs, validateHTTPProtocol(h, path)...)
}

// validateHTTPProtocol checks the protocol: HTTP/2 is spoken without TLS, and to the pod itself.
func validateHTTPProtocol(h *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	if h.Protocol == nil {
		return nil
	}
	errs := oneOf(path.Child("protocol"), *h.Protocol,
		[]corev1.HTTPProtocol{corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2})
	if *h.Protocol != corev1.HTTPProtocolHTTP2 {
		return errs
	}
	switch {
	case h.Scheme != corev1.URISchemeHTTP:
		errs = append(errs, field.Invalid(path.Child("protocol"), *h.Protocol, "is only supported with HTTP (H2C)"))
	case h.Host != "":
		errs = append(errs, field.Invalid(path.Child("host"), h.Host, "must be empty when `protocol` is \"HTTP2\""))
	}
	return errs
}

func validatePort(port intstr.IntOrString, path *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return invalid(path, port.StrVal, utilvalidation.IsValidPortName(port.StrVal))
	}
	return invalid(path, port.IntValue(), utilvalidation.IsValidPortNum(port.IntValue()))
}

// probe checks a probe, including the rules for its kind alone.
func (p *podContext) probe(
	probe *corev1.Probe, path *field.Path, alone func(*corev1.Probe, *field.Path) field.ErrorList,
) field.ErrorList {
	if probe == nil {
		return nil
	}
	errs := validateHandler(handler{exec: probe.Exec, http: probe.HTTPGet, tcp: probe.TCPSocket, grpc: probe.GRPC},
		p.grace(), path)
	for _, count := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", probe.InitialDelaySeconds},
		{"timeoutSeconds", probe.TimeoutSeconds},
		{"periodSeconds", probe.PeriodSeconds},
		{"successThreshold", probe.SuccessThreshold},
		{"failureThreshold", probe.FailureThreshold},
	} {
		errs = append(errs, notNegative(path.Child(count.name), count.value)...)
	}
	if g := probe.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *g, "must be greater than 0"))
	}
	return append(errs, alone(probe, path)...)
}

func successOnce(probe *corev1.Probe, path *field.Path) field.ErrorList {
	if probe.SuccessThreshold != 1 {
		return field.ErrorList{field.Invalid(path.Child("successThreshold"), probe.SuccessThreshold, "must be 1")}
	}
	return nil
}

func noGraceOfItsOwn(probe *corev1.Probe, path *field.Path) field.ErrorList {
	if g := probe.TerminationGracePeriodSeconds; g != nil {
		return field.ErrorList{field.Invalid(path.Child("terminationGracePeriodSeconds"), *g,
			"must not be set for readinessProbes")}
	}
	return nil
}
