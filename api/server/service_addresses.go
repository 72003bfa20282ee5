package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// serviceAddresses allocates the virtual addresses of Services and their ports of the host. The Services in the store
// are the only record of what is allocated; what is remembered here only saves looking at all of them. It is safe for
// concurrent use.
type serviceAddresses struct {
	store     *store.Store
	addresses netip.Prefix // not valid: there are none
	ports     utilnet.PortRange
	portTaken func(corev1.Protocol, uint16) error

	mu sync.Mutex
	// held says which Service has an address or a port, by its key in the store: as far as is known, since nobody tells
	// of Services that are gone.
	held map[string]string
	// pending are those of Services that are being written.
	pending map[string]string
	// room is what the ports of a namespace's Services take.
	room namespaceRoom
}

func newServiceAddresses(c *Config) (*serviceAddresses, error) {
	a := &serviceAddresses{
		store: c.Store, addresses: c.ServiceAddresses, ports: c.NodePorts, portTaken: c.PortTaken,
		held: map[string]string{}, pending: map[string]string{},
	}
	a.room = namespaceRoom{
		most: core.MostNamespacePorts, taken: a.portsOf,
		says: "the Services of a namespace may not have more than %d ports together, and would have %d",
	}
	if a.portTaken == nil {
		a.portTaken = func(corev1.Protocol, uint16) error { return nil }
	}
	all, err := storage.Services(a.store, "")
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		for _, what := range allocated(s) {
			a.held[what] = serviceKey(s)
		}
	}
	if a.addresses.IsValid() {
		for _, s := range all {
			if err := a.upgrade(s); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}

// upgrade allocates what a Service lacks that is from a time when there were no virtual addresses. One that was shown as
// headless stays so, since it may be meant to be. One with externalIPs, which had no effect for whoever wrote them, needs
// somebody with that permission to write it again (privilegedServices).
func (a *serviceAddresses) upgrade(s *corev1.Service) error {
	if s.Spec.Type == corev1.ServiceTypeExternalName || isAddress(s.Spec.ClusterIP) || len(s.Spec.ExternalIPs) > 0 ||
		s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	finish, err := a.allocate(s, len(s.Spec.Ports))
	if err != nil {
		return err
	}
	return a.store.Update(context.Background(), func(tx *store.Tx) error {
		stored, ok := tx.Get(serviceKey(s))
		if ok {
			value, err := scheme.Encode(s)
			if err != nil {
				return err
			}
			stored.Value = value
			if _, err := storage.Put(tx, &stored); err != nil {
				return err
			}
		}
		finish(context.Background(), ok)
		return nil
	})
}

// allocated returns the address and the ports of the host that a Service has.
func allocated(s *corev1.Service) (all []string) {
	if isAddress(s.Spec.ClusterIP) {
		all = append(all, s.Spec.ClusterIP)
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 && !slices.Contains(all, strconv.Itoa(int(p.NodePort))) {
			all = append(all, strconv.Itoa(int(p.NodePort)))
		}
	}
	return all
}

func isAddress(clusterIP string) bool { return clusterIP != "" && clusterIP != corev1.ClusterIPNone }

func serviceKey(s *corev1.Service) string { return store.Key("services", s.Namespace, s.Name) }

// create is the BeginCreate of Services.
func (a *serviceAddresses) create(_ context.Context, obj runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
	s := obj.(*corev1.Service)
	core.NormalizeClusterIPs(s, nil)
	if !a.addresses.IsValid() {
		core.WithoutAddress(s, true)
		return func(context.Context, bool) {}, nil
	}
	return a.allocate(s, 0)
}

// update is the BeginUpdate of Services.
func (a *serviceAddresses) update(_ context.Context, obj, before runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
	s, old := obj.(*corev1.Service), before.(*corev1.Service)
	core.NormalizeClusterIPs(s, old)
	if !a.addresses.IsValid() {
		if !isAddress(old.Spec.ClusterIP) {
			core.WithoutAddress(s, core.MapsPorts(old))
		}
		return func(context.Context, bool) {}, nil
	}
	core.KeepNodePorts(s, old)
	if s.Spec.Type != corev1.ServiceTypeClusterIP && old.Spec.ClusterIP == corev1.ClusterIPNone &&
		s.Spec.ClusterIP == corev1.ClusterIPNone && s.Spec.Type == old.Spec.Type {
		// It is from a time when there were no virtual addresses.
		old.Spec.ClusterIP, old.Spec.ClusterIPs, s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil, "", nil
	}
	had := 0
	if isAddress(old.Spec.ClusterIP) {
		had = len(old.Spec.Ports)
	}
	return a.allocate(s, had)
}

// portsOf returns how many ports the Services of a namespace with virtual addresses have.
func (a *serviceAddresses) portsOf(namespace string) (ports int, err error) {
	all, err := storage.Services(a.store, namespace)
	for _, s := range all {
		if isAddress(s.Spec.ClusterIP) {
			ports += len(s.Spec.Ports)
		}
	}
	return ports, err
}

// allocate gives a Service what it lacks, and takes what it asks for. It had some ports before. The result frees what the
// Service does not keep.
func (a *serviceAddresses) allocate(s *corev1.Service, had int) (registry.FinishFunc, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	more := 0
	if s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != corev1.ClusterIPNone {
		more = max(0, len(s.Spec.Ports)-had)
	}
	if more > 0 && len(s.Spec.Ports) > core.MostServicePorts {
		return func(context.Context, bool) {}, nil // validation says so
	}
	settle, full := a.room.take(s.Namespace, more, field.NewPath("spec", "ports"))
	if full != nil {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, field.ErrorList{full})
	}
	key := serviceKey(s)
	if s.Name == "" { // it gets one later (generateName), and others may be written at the same time
		key += fmt.Sprintf("%p", s)
	}
	var taken []string
	var errs field.ErrorList
	take := func(what string) bool {
		if !a.free(what, key) {
			return false
		}
		if a.pending[what] == "" {
			a.pending[what] = key
			taken = append(taken, what)
		}
		return true
	}
	errs = append(errs, a.allocateAddress(s, take)...)
	errs = append(errs, a.allocatePorts(s, take)...)
	finish := func(_ context.Context, written bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		settle()
		for _, what := range taken {
			delete(a.pending, what)
		}
		if written { // also what another write of the same Service, which has failed, had taken before
			for _, what := range allocated(s) {
				a.held[what] = serviceKey(s)
			}
		}
	}
	if len(errs) > 0 {
		settle()
		for _, what := range taken {
			delete(a.pending, what)
		}
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
	}
	return finish, nil
}

// free reports whether an address or a port is nobody's but the Service's of a key.
func (a *serviceAddresses) free(what, key string) bool {
	if other, ok := a.pending[what]; ok {
		return other == key
	}
	other, ok := a.held[what]
	if !ok || other == key {
		return true
	}
	still := true // if it cannot be read
	_ = a.store.View(func(sn *store.Snapshot) error {
		o, ok := sn.Get(other)
		service := &corev1.Service{}
		if !ok || scheme.Decode(o.Value, service) == nil && !slices.Contains(allocated(service), what) {
			still = false
		}
		return nil
	})
	if !still {
		delete(a.held, what)
	}
	return !still
}

func (a *serviceAddresses) allocateAddress(s *corev1.Service, take func(string) bool) field.ErrorList {
	path := field.NewPath("spec", "clusterIPs")
	invalid := func(why string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, s.Spec.ClusterIPs, why)}
	}
	switch wanted, err := netip.ParseAddr(s.Spec.ClusterIP); {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return nil
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		if s.Spec.Type != corev1.ServiceTypeClusterIP {
			return field.ErrorList{field.Invalid(path.Index(0), s.Spec.ClusterIP,
				fmt.Sprintf("may not be set to 'None' for %s services", s.Spec.Type))}
		}
		return nil
	case s.Spec.ClusterIP != "":
		if err != nil {
			return nil // validation says so
		}
		// One from a time when the range was another is kept.
		if a.held[s.Spec.ClusterIP] != serviceKey(s) && !a.usable(wanted) {
			return invalid(fmt.Sprintf("failed to allocate IP %s: provided IP is not in the valid range. "+
				"The range of valid IPs is %s", wanted, a.addresses))
		}
		if !take(s.Spec.ClusterIP) {
			return invalid(fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", wanted))
		}
		return nil
	}
	size := uint32(1) << (32 - a.addresses.Bits())
	start := rand.Uint32N(size)
	for i := range size {
		if at := nth(a.addresses, (start+i)%size); a.usable(at) && take(at.String()) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = at.String(), []string{at.String()}
			return nil
		}
	}
	return invalid("failed to allocate an IP: all addresses of " + a.addresses.String() + " are in use")
}

// usable reports whether an address is in the range, and neither its first nor its last.
func (a *serviceAddresses) usable(at netip.Addr) bool {
	return a.addresses.Contains(at) && at != a.addresses.Masked().Addr() && a.addresses.Contains(at.Next())
}

func nth(p netip.Prefix, n uint32) netip.Addr {
	b := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+n)
	return netip.AddrFrom4(b)
}

func (a *serviceAddresses) allocatePorts(s *corev1.Service, take func(string) bool) (errs field.ErrorList) {
	path := field.NewPath("spec", "ports")
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort == 0 {
			continue
		}
		wanted, path := int(p.NodePort), path.Index(i).Child("nodePort")
		if a.held[strconv.Itoa(wanted)] != serviceKey(s) {
			if !a.ports.Contains(wanted) {
				errs = append(errs, field.Invalid(path, wanted, fmt.Sprintf(
					"provided port is not in the valid range. The range of valid ports is %s", a.ports.String())))
				continue
			}
			if err := a.portTaken(p.Protocol, uint16(wanted)); err != nil {
				errs = append(errs, field.Invalid(path, wanted, "provided port is already allocated: "+err.Error()))
				continue
			}
		}
		if !take(strconv.Itoa(wanted)) {
			errs = append(errs, field.Invalid(path, wanted, "provided port is already allocated"))
		}
	}
	if !core.TakesNodePorts(s) || len(errs) > 0 {
		return errs
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		start := rand.IntN(a.ports.Size)
		for n := range a.ports.Size {
			port := a.ports.Base + (start+n)%a.ports.Size
			if !hasNodePort(s, port) && a.portTaken(p.Protocol, uint16(port)) == nil && take(strconv.Itoa(port)) {
				p.NodePort = int32(port)
				break
			}
		}
		if p.NodePort == 0 {
			errs = append(errs, field.InternalError(path.Index(i).Child("nodePort"),
				errors.New("failed to allocate a nodePort: range is full")))
		}
	}
	return errs
}

func hasNodePort(s *corev1.Service, port int) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.NodePort) == port })
}

// privilegedServices lets only those make Services reach beyond the pods who could do so without them. A nodePort opens a
// port of the machine, as a hostPort does, and so needs a namespace that takes pods with those; externalIPs take the
// traffic to addresses of others (CVE-2020-8554), for which there is no such way. Who may update nodes may do both.
type privilegedServices struct{ server *Server }

var _ admission.ValidationInterface = privilegedServices{}

func (privilegedServices) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (h privilegedServices) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	s, ok := a.GetObject().(*corev1.Service)
	if !ok || a.GetSubresource() != "" || !isAddress(s.Spec.ClusterIP) {
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Service)
	if !ok || !isAddress(old.Spec.ClusterIP) {
		old = &corev1.Service{} // what it asked for without an address had no effect, and was not checked
	}
	reason, err := h.privileged(s, old)
	if err != nil || reason == "" {
		return err
	}
	decision, _, err := h.server.access.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", APIVersion: "v1", Resource: "nodes", ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if decision != authorizer.DecisionAllow {
		return admission.NewForbidden(a, errors.New(reason+
			"; only who may update nodes, as the role admin in all namespaces may, can still do so"))
	}
	return nil
}

// privileged returns why a change of a Service is not everybody's; empty if it is.
func (h privilegedServices) privileged(s, old *corev1.Service) (string, error) {
	for i, ip := range s.Spec.ExternalIPs {
		if !slices.Contains(old.Spec.ExternalIPs, ip) {
			return fmt.Sprintf("spec.externalIPs[%d]: this Service would get the traffic of everybody on this machine to %s", i, ip), nil
		}
	}
	for i, p := range s.Spec.Ports {
		if p.NodePort == 0 || hasNodePort(old, int(p.NodePort)) {
			continue
		}
		ns, err := h.server.podSecurity().Namespace(s.Namespace)
		if err != nil {
			return "", err
		}
		if h.server.config.PodSecurity.Limits(ns) {
			return fmt.Sprintf("spec.ports[%d].nodePort: it opens a port of the machine, and the namespace %q takes no pod that does "+
				"(pod-security.kubernetes.io/enforce)", i, s.Namespace), nil
		}
		return "", nil
	}
	return "", nil
}
