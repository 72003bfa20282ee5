package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/podspec"
)

const (
	// MostServicePorts bounds the ports of a Service. The kernel has rules for each of them, nobody's memory.
	MostServicePorts = 500
	// MostNamespacePorts bounds those of all Services of a namespace together.
	MostNamespacePorts = 2000
)

// SetServiceDefaults fills in what a manifest left out.
func SetServiceDefaults(s *corev1.Service) {
	spec := &s.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	setSessionAffinityDefaults(spec)
	if onHost := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer; onHost &&
		spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer && spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = ptr.To(true)
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		if spec.InternalTrafficPolicy == nil {
			cluster := corev1.ServiceInternalTrafficPolicyCluster
			spec.InternalTrafficPolicy = &cluster
		}
		if spec.IPFamilyPolicy == nil {
			single := corev1.IPFamilyPolicySingleStack
			spec.IPFamilyPolicy = &single
		}
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
}

func setSessionAffinityDefaults(spec *corev1.ServiceSpec) {
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		config := cmp.Or(spec.SessionAffinityConfig, &corev1.SessionAffinityConfig{})
		config.ClientIP = cmp.Or(config.ClientIP, &corev1.ClientIPConfig{})
		config.ClientIP.TimeoutSeconds = cmp.Or(config.ClientIP.TimeoutSeconds,
			ptr.To(corev1.DefaultClientIPServiceAffinitySeconds))
		spec.SessionAffinityConfig = config
	}
}

// prepareService brings a new Service into the form that is stored. Its addresses and ports of the host were allocated
// before, by the server.
func prepareService(s *corev1.Service) {
	s.Status = corev1.ServiceStatus{}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
}

// prepareServiceUpdate brings a changed Service into the form that is stored. Nobody here writes a status.
func prepareServiceUpdate(s, old *corev1.Service) {
	s.Status = old.Status
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
}

// WithoutAddress makes a Service one without a virtual address, where there are none: its name resolves to the addresses
// of its pods, as that of a headless Service does, so it is shown as headless. If a port has another target port, it is
// shown without an address instead, since clients such as kubectl port-forward take the ports of a headless Service for
// those of its pods. was says that the Service had such a port before.
func WithoutAddress(s *corev1.Service, was bool) {
	if MapsPorts(s) && !was {
		s.Spec.ClusterIP = ""
	}
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName, s.Spec.ClusterIP != corev1.ClusterIPNone && MapsPorts(s):
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	default:
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	}
}

// MapsPorts reports whether a port of a Service has another target port in its pods.
func MapsPorts(s *corev1.Service) bool { return slices.ContainsFunc(s.Spec.Ports, mapped) }

func mapped(p corev1.ServicePort) bool { return p.TargetPort != intstr.FromInt32(p.Port) }

// serviceWarnings returns warnings about what is accepted and works differently in a cluster. It takes the Service in
// its stored form.
func serviceWarnings(s *corev1.Service) []string {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []string
	address := hasAddress(s)
	for i, p := range s.Spec.Ports {
		if mapped(p) && !address {
			said := fmt.Sprintf("spec.ports[%d].targetPort: this Service has no virtual address: "+
				"its name leads to the pods themselves, which are reached at their own ports", i)
			if s.Spec.ClusterIP != corev1.ClusterIPNone {
				said += fmt.Sprintf("; only port-forward goes from port %d to %s", p.Port, p.TargetPort.String())
			}
			out = append(out, said)
		}
	}
	switch {
	case s.Spec.Type == corev1.ServiceTypeClusterIP:
	case !address:
		out = append(out, fmt.Sprintf("spec.type: %s has no effect beyond the name, since Services have virtual addresses "+
			"only with a bridge: a hostPort of a pod opens a port of this machine", s.Spec.Type))
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer:
		out = append(out, "spec.type: there is no load balancer in jobd: the external address stays pending, and the "+
			"Service is reached at its clusterIP and nodePorts")
	}
	if !address && len(s.Spec.ExternalIPs) > 0 {
		out = append(out, "spec.externalIPs: has no effect, since this Service has no virtual address")
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"loadBalancerIP", s.Spec.LoadBalancerIP != ""},
		{"loadBalancerClass", s.Spec.LoadBalancerClass != nil},
		{"loadBalancerSourceRanges", len(s.Spec.LoadBalancerSourceRanges) > 0},
		{"healthCheckNodePort", s.Spec.HealthCheckNodePort != 0},
	} {
		if f.set {
			out = append(out, "spec."+f.name+": has no effect: there is no load balancer in jobd")
		}
	}
	return out
}

// hasAddress reports whether a Service has a virtual address.
func hasAddress(s *corev1.Service) bool {
	return s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone
}

// validateService checks a Service, new or changed.
func validateService(s *corev1.Service) field.ErrorList {
	errs := validation.ValidateObjectMeta(&s.ObjectMeta, true, validation.NameIsDNS1035Label, field.NewPath("metadata"))
	path := field.NewPath("spec")
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone {
			errs = append(errs, field.Required(path.Child("ports"), ""))
		}
	case corev1.ServiceTypeExternalName:
		errs = append(errs, invalid(path.Child("externalName"), s.Spec.ExternalName,
			utilvalidation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, "."))))...)
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), s.Spec.Type, []corev1.ServiceType{
			corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer,
			corev1.ServiceTypeNodePort,
		}))
	}
	errs = append(errs, validateServiceAddresses(s, path)...)
	errs = append(errs, validateSessionAffinity(s, path)...)
	errs = append(errs, metav1validation.ValidateLabels(s.Spec.Selector, path.Child("selector"))...)
	errs = append(errs, validateServicePorts(s.Spec.Ports, path.Child("ports"))...)
	return append(errs, validateNodePorts(s, path.Child("ports"))...)
}

func validateServicePorts(ports []corev1.ServicePort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	type portKey struct {
		protocol corev1.Protocol
		port     int32
	}
	seen := map[portKey]bool{}
	for i := range ports {
		p, path := &ports[i], path.Index(i)
		switch {
		case p.Name == "" && len(ports) > 1:
			errs = append(errs, field.Required(path.Child("name"), ""))
		case p.Name != "" && names[p.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		case p.Name != "":
			errs = append(errs, invalid(path.Child("name"), p.Name, utilvalidation.IsDNS1123Label(p.Name))...)
		}
		names[p.Name] = true
		errs = append(errs, invalid(path.Child("port"), p.Port, utilvalidation.IsValidPortNum(int(p.Port)))...)
		switch p.Protocol {
		case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		default:
			errs = append(errs, field.NotSupported(path.Child("protocol"), p.Protocol,
				[]corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}))
		}
		if p.TargetPort.Type == intstr.Int {
			errs = append(errs, invalid(path.Child("targetPort"), p.TargetPort.IntVal,
				utilvalidation.IsValidPortNum(int(p.TargetPort.IntVal)))...)
		} else {
			errs = append(errs, invalid(path.Child("targetPort"), p.TargetPort.StrVal,
				utilvalidation.IsValidPortName(p.TargetPort.StrVal))...)
		}
		key := portKey{p.Protocol, p.Port}
		if seen[key] {
			errs = append(errs, field.Duplicate(path, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		}
		seen[key] = true
	}
	return errs
}

// validateNewService checks a new Service.
func validateNewService(s *corev1.Service) field.ErrorList {
	return append(validateServiceSize(s, 0), validateService(s)...)
}

// validateServiceSize checks how many ports a Service has, which had some before: it may keep what it has from a time without
// bounds.
func validateServiceSize(s *corev1.Service, had int) field.ErrorList {
	if now := len(s.Spec.Ports); now > MostServicePorts && now > had {
		return field.ErrorList{field.TooMany(field.NewPath("spec", "ports"), now, MostServicePorts)}
	}
	return nil
}

// validateServiceUpdate checks a changed Service.
func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	errs := append(validateServiceSize(s, len(old.Spec.Ports)), validation.ValidateObjectMetaUpdate(
		&s.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"),
	)...)
	if was, now := old.Spec.ClusterIP, s.Spec.ClusterIP; was != "" && now != "" && was != now {
		errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), s.Spec.ClusterIPs,
			"may not change once set"))
	}
	return append(errs, validateService(s)...)
}

// serviceTable is what kubectl prints of Services.
func serviceTable() kind.Columns[*corev1.Service] {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return kind.Columns[*corev1.Service]{
		kind.NameColumn[*corev1.Service](),
		{Name: "Type", Description: doc["type"], Cell: func(s *corev1.Service, _ time.Time) any { return string(s.Spec.Type) }},
		{Name: "Cluster-IP", Description: doc["clusterIP"],
			Cell: func(s *corev1.Service, _ time.Time) any { return cmp.Or(s.Spec.ClusterIP, none) }},
		{Name: "External-IP", Description: doc["externalIPs"], Cell: func(s *corev1.Service, _ time.Time) any { return externalAddress(s) }},
		{Name: "Port(s)", Description: doc["ports"], Cell: func(s *corev1.Service, _ time.Time) any { return servicePorts(s) }},
		kind.AgeColumn[*corev1.Service](),
		{Name: "Selector", Priority: 1, Description: doc["selector"], Cell: func(s *corev1.Service, _ time.Time) any {
			return cmp.Or(metav1.FormatLabelSelector(metav1.SetAsLabelSelector(s.Spec.Selector)), none)
		}},
	}
}

func externalAddress(s *corev1.Service) string {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Spec.ExternalIPs) == 0:
		return "<pending>"
	}
	return cmp.Or(strings.Join(s.Spec.ExternalIPs, ","), none)
}

func servicePorts(s *corev1.Service) string {
	var ports []string
	for _, p := range s.Spec.Ports {
		shown := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort != 0 {
			shown = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
		ports = append(ports, shown)
	}
	return cmp.Or(strings.Join(ports, ","), none)
}

// NamedPorts returns the ports of a pod's containers that have names, those of sidecars after the others.
func NamedPorts(p *corev1.Pod) (named []corev1.ContainerPort) {
	note := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.Name != "" {
				named = append(named, port)
			}
		}
	}
	for i := range p.Spec.Containers {
		note(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; podspec.IsSidecar(c) {
			note(c)
		}
	}
	return named
}

// TargetPort returns the number of the port to which a port of a Service leads (ServicePort.TargetPort) in a pod with
// these named ports, and reports whether the pod has it.
func TargetPort(named []corev1.ContainerPort, port *corev1.ServicePort) (number int32, ok bool) {
	if port.TargetPort.Type != intstr.String {
		return port.TargetPort.IntVal, true
	}
	at := slices.IndexFunc(named, func(c corev1.ContainerPort) bool {
		return c.Name == port.TargetPort.StrVal && cmp.Or(c.Protocol, corev1.ProtocolTCP) == port.Protocol
	})
	if at < 0 {
		return 0, false
	}
	return named[at].ContainerPort, true
}
