package reach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
)

// serviceProxy serves .../services/NAME/proxy/PATH as Proxy does for pods, at one of the ready pods of a Service. NAME
// is [SCHEME:]NAME[:PORT]: a port of the Service, by its number or its name; it can be left out if there is only one. Unlike
// Proxy it reaches nothing that only listens on the loopback interface: who may reach a Service may not reach into its
// pods. Nor does it lead to endpoints that clients have written themselves, which may be anywhere: the daemon connects from
// where they could not.
type serviceProxy struct {
	Proxy
	services *registry.Store
	pods     func(ctx context.Context, namespace string) ([]*corev1.Pod, error)
}

var _ rest.Connecter = serviceProxy{}

// NewServiceProxy takes what finds the pods of a namespace; permit refuses those that the client of a request may not reach into.
func NewServiceProxy(
	containers Containers, permit func(context.Context, *corev1.Pod) error, services *registry.Store,
	pods func(ctx context.Context, namespace string) ([]*corev1.Pod, error),
) rest.Storage {
	return serviceProxy{Proxy{&Pods{containers: containers, permit: permit}}, services, pods}
}

func (serviceProxy) New() apiruntime.Object { return &corev1.ServiceProxyOptions{} }

func (serviceProxy) NewConnectOptions() (apiruntime.Object, bool, string) {
	return &corev1.ServiceProxyOptions{}, true, "path"
}

func (x serviceProxy) Connect(ctx context.Context, id string, _ apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	scheme, name, portName, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is not [SCHEME:]NAME[:PORT] of a Service", id))
	}
	if x.containers == nil {
		return nil, apierrors.NewServiceUnavailable("this server has no containers")
	}
	obj, err := x.services.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	s := obj.(*corev1.Service)
	port, err := proxiedServicePort(s, portName)
	if err != nil {
		return nil, err
	}
	pods, err := x.pods(ctx, s.Namespace)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	pod, at, err := readyEndpoint(s, port, pods, func(p *corev1.Pod) error { return x.permit(ctx, p) })
	switch {
	case pod == nil && err != nil:
		return nil, apierrors.NewForbidden(corev1.Resource("services"), s.Name, fmt.Errorf("it leads to a pod out of reach: %w", err))
	case pod == nil:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", s.Name))
	}
	return x.to(scheme, at.String(), responder, func(ctx context.Context) (net.Conn, error) {
		return x.containers.DialAddress(ctx, pod, at)
	}), nil
}

// proxiedServicePort returns the port of a Service that a request is for.
func proxiedServicePort(s *corev1.Service, name string) (*corev1.ServicePort, error) {
	if len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("service %q selects no pods, and only those are reached by proxy", s.Name))
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		named := p.Name == name || strconv.Itoa(int(p.Port)) == name || name == "" && len(s.Spec.Ports) == 1
		if named && p.Protocol == corev1.ProtocolTCP {
			return p, nil
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %q found for service %q", name, s.Name))
}

// readyEndpoint returns one of the ready pods of a Service at random that the client may reach, and where it listens; nil
// if there is none, with the reason if it may reach none of them. A Service may be the client's own and lead to any pod of
// its namespace.
func readyEndpoint(
	s *corev1.Service, port *corev1.ServicePort, pods []*corev1.Pod, permit func(*corev1.Pod) error,
) (pod *corev1.Pod, at netip.AddrPort, refusal error) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, i := range rand.Perm(len(pods)) {
		p := pods[i]
		ready := s.Spec.PublishNotReadyAddresses || p.DeletionTimestamp == nil &&
			slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		if !ready || podspec.Ended(p) || !podspec.Bound(p) || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		ip, err := netip.ParseAddr(p.Status.PodIP)
		number, ok := core.TargetPort(core.NamedPorts(p), port)
		if err != nil || !ip.IsGlobalUnicast() || !ok {
			continue
		}
		if err := permit(p); err != nil {
			refusal = err
			continue
		}
		return p, netip.AddrPortFrom(ip, uint16(number)), nil
	}
	return nil, netip.AddrPort{}, refusal
}
