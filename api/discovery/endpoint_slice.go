// Package discovery holds the rules of discovery.k8s.io/v1: EndpointSlice, as the description that EndpointSliceKind
// returns. They touch nothing but their arguments.
package discovery

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/kind"
)

// SetEndpointSliceDefaults fills in what a manifest left out.
func SetEndpointSliceDefaults(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Ports {
		port := &slice.Ports[i]
		if port.Name == nil {
			port.Name = ptr.To("")
		}
		if port.Protocol == nil {
			port.Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}

// The bounds of a cluster.
const mostEndpoints, mostAddresses, mostPorts = 1000, 100, 20000

// prepareEndpointSliceUpdate counts the generations of what a slice says.
func prepareEndpointSliceUpdate(slice, old *discoveryv1.EndpointSlice) {
	before := *old
	before.TypeMeta, before.ObjectMeta = slice.TypeMeta, slice.ObjectMeta
	if !equality.Semantic.DeepEqual(*slice, before) {
		slice.Generation = old.Generation + 1
	}
}

// validateEndpointSlice checks a slice, new or changed.
func validateEndpointSlice(slice *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validation.ValidateObjectMeta(&slice.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	kinds := []discoveryv1.AddressType{
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
	}
	switch path := field.NewPath("addressType"); slice.AddressType {
	case "":
		return append(errs, field.Required(path, ""))
	case discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	default:
		return append(errs, field.NotSupported(path, slice.AddressType, kinds))
	}
	if n := len(slice.Endpoints); n > mostEndpoints {
		return append(errs, field.TooMany(field.NewPath("endpoints"), n, mostEndpoints))
	}
	if n := len(slice.Ports); n > mostPorts {
		return append(errs, field.TooMany(field.NewPath("ports"), n, mostPorts))
	}
	for i, endpoint := range slice.Endpoints {
		path := field.NewPath("endpoints").Index(i).Child("addresses")
		switch n := len(endpoint.Addresses); {
		case n == 0:
			errs = append(errs, field.Required(path, "must contain at least 1 address"))
		case n > mostAddresses:
			errs = append(errs, field.TooMany(path, n, mostAddresses))
			continue
		}
		for k, address := range endpoint.Addresses {
			ip, err := netip.ParseAddr(address)
			switch slice.AddressType {
			case discoveryv1.AddressTypeIPv4:
				if err != nil || !ip.Is4() {
					errs = append(errs, field.Invalid(path.Index(k), address, "must be a valid IPv4 address"))
				}
				errs = append(errs, validateReachable(ip, path.Index(k))...)
			case discoveryv1.AddressTypeIPv6:
				if err != nil || !ip.Is6() {
					errs = append(errs, field.Invalid(path.Index(k), address, "must be a valid IPv6 address"))
				}
				errs = append(errs, validateReachable(ip, path.Index(k))...)
			}
		}
	}
	return errs
}

// validateReachable refuses addresses that mean something else on each machine, as a cluster does.
func validateReachable(ip netip.Addr, path *field.Path) field.ErrorList {
	ip = ip.Unmap()
	for _, not := range []struct {
		is  bool
		why string
	}{
		{ip.IsUnspecified(), "may not be unspecified (0.0.0.0 or ::)"},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if not.is {
			return field.ErrorList{field.Invalid(path, ip.String(), not.why)}
		}
	}
	return nil
}

// validateEndpointSliceUpdate checks a changed slice.
func validateEndpointSliceUpdate(slice, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validateEndpointSlice(slice)
	return append(errs, validation.ValidateImmutableField(slice.AddressType, old.AddressType,
		field.NewPath("addressType"))...)
}

// EndpointSliceKind describes discovery.k8s.io/v1 EndpointSlices.
func EndpointSliceKind() *kind.Kind {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return kind.Of[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](kind.Description[*discoveryv1.EndpointSlice]{
		GroupVersion: discoveryv1.SchemeGroupVersion,
		Name:         "EndpointSlice",
		Namespaced:   true,
		Default:      SetEndpointSliceDefaults,
		Table: kind.Columns[*discoveryv1.EndpointSlice]{
			kind.NameColumn[*discoveryv1.EndpointSlice](),
			{Name: "AddressType", Description: doc["addressType"],
				Cell: func(slice *discoveryv1.EndpointSlice, _ time.Time) any { return string(slice.AddressType) }},
			{Name: "Ports", Description: doc["ports"], Cell: func(slice *discoveryv1.EndpointSlice, _ time.Time) any { return ports(slice) }},
			{Name: "Endpoints", Description: doc["endpoints"],
				Cell: func(slice *discoveryv1.EndpointSlice, _ time.Time) any { return addresses(slice) }},
			kind.AgeColumn[*discoveryv1.EndpointSlice](),
		},
		Rules: kind.Rules[*discoveryv1.EndpointSlice]{
			Create:      func(slice *discoveryv1.EndpointSlice) { slice.Generation = 1 },
			Update:      prepareEndpointSliceUpdate,
			Check:       validateEndpointSlice,
			CheckUpdate: validateEndpointSliceUpdate,
		},
	})
}

func ports(slice *discoveryv1.EndpointSlice) string {
	var all []string
	for _, p := range slice.Ports {
		port := "*"
		if p.Port != nil {
			port = fmt.Sprint(*p.Port)
		}
		all = append(all, port)
	}
	return shorten(all)
}

func addresses(slice *discoveryv1.EndpointSlice) string {
	var all []string
	for _, e := range slice.Endpoints {
		all = append(all, e.Addresses...)
	}
	return shorten(all)
}

// shorten lists the first three.
func shorten(all []string) string {
	switch n := len(all); {
	case n == 0:
		return "<unset>"
	case n > 3:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:3], ","), n-3)
	}
	return strings.Join(all, ",")
}
