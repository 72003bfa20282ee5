// Package names lets pods find each other: by the names and virtual addresses of Services, and by the names that pods have
// through their hostname and subdomain.
//
// In come Services, pods, EndpointSlices and the names of namespaces of the store. Out go answers for the name server on
// the pods' bridge, where the ports of virtual addresses lead, for the network, and EndpointSlices, which are all that this
// package writes besides events about Services.
package names

import (
	"cmp"
	"iter"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/follow"
	"github.com/jobd/jobd/internal/multimap"
)

// index answers queries from the objects that it was given last. It is safe for concurrent use; newIndex makes an empty
// one.
type index struct {
	mu       sync.RWMutex
	services map[string]map[string]service    // by namespace, by name
	pods     map[string]map[string]pod        // by namespace, by name
	slices   map[string]map[string]slice      // by namespace, by name: those that clients manage
	hosts    map[string]map[string]netip.Addr // by HOSTNAME.SUBDOMAIN.NAMESPACE, by the pod's name
	places   places

	namespaces map[string]struct{} // that exist

	// addressOf returns the address of a pod; not valid if it has none.
	addressOf func(*corev1.Pod) netip.Addr

	// All of these were read; before that the endpoints of Services are not known.
	servicesShown, podsShown, slicesShown bool

	changed map[serviceRef]struct{}
	news    follow.Signal // there is something in changed
	moved   follow.Signal // virtual addresses may lead elsewhere
}

// newIndex returns an empty index.
func newIndex() *index {
	return &index{
		places: places{multimap.Map[netip.Addr, place]{}}, namespaces: map[string]struct{}{}, addressOf: statusAddress, changed: map[serviceRef]struct{}{},
		news: follow.NewSignal(), moved: follow.NewSignal(),
	}
}

// serviceRef names a Service whose EndpointSlices may be out of date.
type serviceRef struct {
	namespace, name string
	uid             types.UID
}

func compareRefs(a, b serviceRef) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// service is what the index keeps of a Service.
type service struct {
	uid      types.UID
	created  time.Time
	selector labels.Selector // nil: it selects nothing
	unready  bool            // publishNotReadyAddresses
	external string          // of type ExternalName
	ports    []corev1.ServicePort
	addr     netip.Addr    // virtual; not valid if it has none
	hosts    []netip.Addr  // externalIPs
	affinity time.Duration // sessionAffinity; 0: none
}

// pod is what the index keeps of a pod that has an address.
type pod struct {
	uid         types.UID
	node        string
	labels      labels.Set
	addr        netip.Addr
	serving     bool
	terminating bool
	hostname    string
	subdomain   string
	ports       []corev1.ContainerPort // those that have a name
}

// slice is what the index keeps of an EndpointSlice.
type slice struct {
	service   string
	endpoints []toldEndpoint
	ports     []discoveryv1.EndpointPort
}

// toldEndpoint is an address of an EndpointSlice.
type toldEndpoint struct {
	addr     netip.Addr
	hostname string
	ready    bool
}

// newSlice returns what of an EndpointSlice can lead somewhere.
func newSlice(of string, s *discoveryv1.EndpointSlice) slice {
	out := slice{service: of, ports: s.Ports}
	for _, e := range s.Endpoints {
		for _, a := range e.Addresses {
			if addr, err := netip.ParseAddr(a); err == nil && canLead(addr) {
				out.endpoints = append(out.endpoints, toldEndpoint{addr, ptr.Deref(e.Hostname, ""), ptr.Deref(e.Conditions.Ready, true)})
			}
		}
	}
	return out
}

// host returns the key of a pod in hosts, empty if it has none.
func (p pod) host(namespace string) string {
	if p.hostname == "" || p.subdomain == "" {
		return ""
	}
	return p.hostname + "." + p.subdomain + "." + namespace
}

// ready reports whether a Service has the pod as an endpoint.
func (p pod) ready() bool { return p.serving && !p.terminating }

// setService folds in a Service.
func (x *index) setService(s *corev1.Service) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, entry := place{atService, s.Namespace, s.Name}, newService(s)
	x.places.remove(at, x.services[s.Namespace][s.Name].addr)
	put(&x.services, s.Namespace, s.Name, entry)
	x.places.add(at, entry.addr)
	x.note(s.Namespace, s.Name)
}

func newService(s *corev1.Service) service {
	out := service{uid: s.UID, created: s.CreationTimestamp.Time, unready: s.Spec.PublishNotReadyAddresses, ports: s.Spec.Ports}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		out.external = s.Spec.ExternalName
		return out
	}
	if len(s.Spec.Selector) > 0 {
		out.selector = labels.SelectorFromSet(s.Spec.Selector)
	}
	if addr, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && addr.Is4() {
		out.addr = addr
	}
	for _, said := range s.Spec.ExternalIPs {
		if addr, err := netip.ParseAddr(said); err == nil && addr.Is4() {
			out.hosts = append(out.hosts, addr)
		}
	}
	if c := s.Spec.SessionAffinityConfig; s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP && c != nil && c.ClientIP != nil {
		out.affinity = time.Duration(ptr.Deref(c.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)) * time.Second
	}
	return out
}

// dropService folds in that a Service is gone.
func (x *index) dropService(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.note(namespace, name)
	x.places.remove(place{atService, namespace, name}, x.services[namespace][name].addr)
	drop(x.services, namespace, name)
}

func (x *index) dropServices() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for namespace, all := range x.services {
		for name := range all {
			x.note(namespace, name)
		}
	}
	x.servicesShown = false
	clear(x.services)
	x.places.clear(atService)
}

func (x *index) dropPods() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.podsShown = false
	clear(x.pods)
	clear(x.hosts)
	x.places.clear(atPod)
}

// allPodsShown records that all pods were read.
func (x *index) allPodsShown() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.podsShown = true
	x.moved.Send()
	for namespace, all := range x.services {
		for name := range all {
			x.note(namespace, name)
		}
	}
}

// note records that the slices of a Service may be out of date.
func (x *index) note(namespace, name string) {
	x.noteRef(serviceRef{namespace, name, x.services[namespace][name].uid})
}

func (x *index) noteRef(ref serviceRef) {
	x.moved.Send()
	x.changed[ref] = struct{}{}
	x.news.Send()
}

// takeChanged returns the Services that were noted, except those whose endpoints are not known yet.
func (x *index) takeChanged() map[serviceRef]struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	taken := map[serviceRef]struct{}{}
	for ref := range x.changed {
		if s := x.services[ref.namespace][ref.name]; x.podsShown || s.selector == nil || s.uid != ref.uid {
			taken[ref] = struct{}{}
			delete(x.changed, ref)
		}
	}
	return taken
}

// setPod folds in a pod. The address of one that shows one of a cluster is in the network of that: here it would be another's, or nobody's.
func (x *index) setPod(p *corev1.Pod) {
	x.mu.Lock()
	defer x.mu.Unlock()
	addr := x.addressOf(p)
	if clusters.Shown(p) || p.Status.PodIP == "" || !addr.IsValid() || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		x.dropPod(p.Namespace, p.Name)
		return
	}
	entry := newPod(p, addr)
	before, known := x.pods[p.Namespace][p.Name]
	if known && reflect.DeepEqual(before, entry) {
		return
	}
	x.dropPod(p.Namespace, p.Name)
	put(&x.pods, p.Namespace, p.Name, entry)
	x.places.add(place{atPod, p.Namespace, p.Name}, addr)
	if host := entry.host(p.Namespace); host != "" {
		put(&x.hosts, host, p.Name, addr)
	}
	x.noteServicesOf(p.Namespace, entry)
}

// statusAddress returns the address that the status of a pod says, where there is no network that knows better.
func statusAddress(p *corev1.Pod) netip.Addr {
	addr, _ := netip.ParseAddr(p.Status.PodIP)
	return addr
}

func newPod(p *corev1.Pod, addr netip.Addr) pod {
	entry := pod{
		uid: p.UID, node: p.Spec.NodeName, labels: p.Labels, addr: addr, terminating: p.DeletionTimestamp != nil,
		hostname: p.Spec.Hostname, subdomain: p.Spec.Subdomain,
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			entry.serving = c.Status == corev1.ConditionTrue
		}
	}
	entry.ports = core.NamedPorts(p)
	return entry
}

func (x *index) noteServicesOf(namespace string, p pod) {
	for name, s := range x.services[namespace] {
		if s.selector != nil && s.selector.Matches(p.labels) {
			x.note(namespace, name)
		}
	}
}

func put[T any](in *map[string]map[string]T, first, second string, value T) {
	if *in == nil {
		*in = map[string]map[string]T{}
	}
	if (*in)[first] == nil {
		(*in)[first] = map[string]T{}
	}
	(*in)[first][second] = value
}

func drop[T any](in map[string]map[string]T, first, second string) {
	delete(in[first], second)
	if len(in[first]) == 0 {
		delete(in, first)
	}
}

// deletePod folds in that a pod is gone.
func (x *index) deletePod(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropPod(namespace, name)
}

func (x *index) dropPod(namespace, name string) {
	entry, ok := x.pods[namespace][name]
	if !ok {
		return
	}
	drop(x.pods, namespace, name)
	x.places.remove(place{atPod, namespace, name}, entry.addr)
	if host := entry.host(namespace); host != "" {
		drop(x.hosts, host, name)
	}
	x.noteServicesOf(namespace, entry)
}

// setSlice folds in an EndpointSlice. Those that clients manage have the endpoints of Services that select no pods.
func (x *index) setSlice(s *discoveryv1.EndpointSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved.Send()
	x.forgetSlice(s.Namespace, s.Name)
	switch of := s.Labels[discoveryv1.LabelServiceName]; {
	case isOurs(s):
		x.noteOwner(s) // it is put right if somebody has changed it
	case of != "" && s.AddressType == discoveryv1.AddressTypeIPv4:
		entry := newSlice(of, s)
		put(&x.slices, s.Namespace, s.Name, entry)
		x.places.add(place{atSlice, s.Namespace, s.Name}, entry.addresses()...)
	}
}

func (x *index) forgetSlice(namespace, name string) {
	x.places.remove(place{atSlice, namespace, name}, x.slices[namespace][name].addresses()...)
	drop(x.slices, namespace, name)
}

// dropSlice folds in that an EndpointSlice is gone.
func (x *index) dropSlice(s *discoveryv1.EndpointSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved.Send()
	x.forgetSlice(s.Namespace, s.Name)
	if isOurs(s) {
		x.noteOwner(s)
	}
}

// noteOwner notes the Service that a slice of ours belongs to, which may be gone.
func (x *index) noteOwner(s *discoveryv1.EndpointSlice) {
	if owner := metav1.GetControllerOfNoCopy(s); owner != nil {
		x.noteRef(serviceRef{s.Namespace, owner.Name, owner.UID})
	}
}

func (x *index) dropSlices() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slicesShown = false
	clear(x.slices)
	x.places.clear(atSlice)
}

// Lookup returns the addresses of a name in the cluster's domain, in lower case and without the domain:
//   - SERVICE.NAMESPACE.svc is the virtual address of the Service or, if it is headless, the pods that it selects, or the
//     endpoints of its EndpointSlices if it selects none.
//   - HOSTNAME.SERVICE.NAMESPACE.svc is one of them: HOSTNAME is that of a pod whose subdomain is the Service, or the
//     address with dashes.
//   - A-B-C-D.NAMESPACE.pod is the address A.B.C.D, whoever has it, as in a cluster by default. Only the namespace has to
//     exist.
//
// Only endpoints that are ready are returned, unless the Service has publishNotReadyAddresses. For a Service of type
// ExternalName Lookup returns the name that it is an alias of instead.
func (x *index) Lookup(name string) (addrs []netip.Addr, alias string, found bool) {
	if pod, ok := strings.CutSuffix(name, ".pod"); ok {
		addrs, found = x.lookupAddress(pod)
		return addrs, "", found
	}
	name, ok := strings.CutSuffix(name, ".svc")
	if !ok {
		return nil, "", false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch parts := strings.Split(name, "."); len(parts) {
	case 2:
		s, ok := x.services[parts[1]][parts[0]]
		if !ok || s.external != "" {
			return nil, s.external, ok
		}
		if s.addr.IsValid() {
			return []netip.Addr{s.addr}, "", true
		}
		for e := range x.leads(parts[1], parts[0]) {
			addrs = append(addrs, e.addr)
		}
		return addrs, "", true
	case 3:
		for podName, addr := range x.hosts[name] {
			if x.services[parts[2]][parts[1]].leadsTo(x.pods[parts[2]][podName]) {
				addrs = append(addrs, addr)
			}
		}
		if len(addrs) > 0 {
			return addrs, "", true // most are asked for by hostname, in Jobs of many pods
		}
		if x.services[parts[2]][parts[1]].selector != nil {
			// Asked again and again until they are ready, which must not cost a look at all pods.
			addr, err := netip.ParseAddr(strings.ReplaceAll(parts[0], "-", "."))
			if err == nil && x.named(parts[2], parts[1], addr) {
				return []netip.Addr{addr}, "", true
			}
			return nil, "", false
		}
		for e := range x.leads(parts[2], parts[1]) {
			if e.name() == parts[0] {
				addrs = append(addrs, e.addr)
			}
		}
		return addrs, "", len(addrs) > 0
	}
	return nil, "", false
}

// lookupAddress returns the address that a name spells out, A-B-C-D.NAMESPACE. A namespace is a name without an address.
func (x *index) lookupAddress(name string) (addrs []netip.Addr, found bool) {
	address, namespace, two := strings.Cut(name, ".")
	if !two {
		namespace = name
	}
	x.mu.RLock()
	_, exists := x.namespaces[namespace]
	x.mu.RUnlock()
	if !exists || !two {
		return nil, exists
	}
	addr, err := netip.ParseAddr(strings.ReplaceAll(address, "-", "."))
	if err != nil || !addr.Is4() {
		return nil, false
	}
	return []netip.Addr{addr}, true
}

func (x *index) setNamespace(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.namespaces[name] = struct{}{}
}

func (x *index) dropNamespace(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.namespaces, name)
}

func (x *index) dropNamespaces() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.namespaces)
}

// told yields the endpoints that clients' EndpointSlices have for a Service which selects no pods.
func (x *index) told(s service, namespace, name string, yield func(endpoint) bool) {
	for _, slice := range x.slices[namespace] {
		for addr, hostname := range slice.leads(s, name) {
			if !yield(endpoint{addr: addr, hostname: hostname, ports: slice.ports}) {
				return
			}
		}
	}
}

// leads returns the addresses of a slice and their hostnames, if it is one of a Service.
func (l slice) leads(s service, name string) iter.Seq2[netip.Addr, string] {
	return func(yield func(netip.Addr, string) bool) {
		if l.service != name {
			return
		}
		for _, e := range l.endpoints {
			if (e.ready || s.unready) && !yield(e.addr, e.hostname) {
				return
			}
		}
	}
}

func (s service) leadsTo(p pod) bool {
	return s.selector != nil && (p.ready() || s.unready) && s.selector.Matches(p.labels)
}
