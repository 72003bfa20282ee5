package policies

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/follow"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/store"
)

const (
	policyPrefix    = "networkpolicies." + networkingv1.GroupName + "/"
	namespacePrefix = "namespaces/"
	podResource     = "pods"
	podPrefix       = podResource + "/"

	// settle is the time between two changes of the rules that no pod waits for: changes that come together make one.
	settle = 100 * time.Millisecond
	// linger is how long the rules of pods that are gone stay; nobody has their addresses. The kernel takes some ten
	// milliseconds to remove anything, however little, and no pod that starts should wait for that.
	linger = 2 * time.Second
)

// Network is what the rules are for: a network.Network.
type Network interface {
	// SetPolicies makes the kernel apply policies; nil: there are none.
	SetPolicies(*network.Policies) error
	// Addresses returns the addresses of the pods on the bridge, by their UIDs.
	Addresses() map[string]netip.Addr
	// Gateway returns the address of the name server for pods.
	Gateway() netip.Addr
}

// Enforcer keeps the rules of a network up to date with the policies of a store. It may be used from any goroutine.
type Enforcer struct {
	store   *store.Store
	network Network
	logger  *slog.Logger
	kicked  follow.Signal // the rules may be out of date
	left    follow.Signal // pods are gone
	linger  time.Duration

	mu sync.Mutex
	// made are the versions of the objects that compiled was made of.
	made     map[string]uint64
	compiled *compiled // nil: there are no policies
	// pods are those on the bridge, by UID; nil: they were not read, since there are no policies.
	pods map[types.UID]*entry
	// told says that the network has been told that there are no policies.
	told bool
	// followed is closed once pods were read for the first time, at the version since.
	followed chan struct{}
	since    uint64
}

// entry is a pod on the bridge.
type entry struct {
	Pod
	at      netip.Addr
	version uint64 // of the object that it was made of
	made    network.PolicyPod
	gone    bool
}

// Open lets the policies that there are apply to the pods that are on the bridge. If that fails it is tried again while
// Run runs, and meanwhile no pod starts.
func Open(s *store.Store, n Network, logger *slog.Logger) *Enforcer {
	e := newEnforcer(s, n, logger)
	e.catchUp()
	return e
}

func newEnforcer(s *store.Store, n Network, logger *slog.Logger) *Enforcer {
	return &Enforcer{
		store: s, network: n, logger: logger, linger: linger,
		kicked: follow.NewSignal(), left: follow.NewSignal(), followed: make(chan struct{}),
	}
}

// Admit lets the policies apply to a pod that has an address on the bridge and no container yet. A pod that policies
// isolate is isolated when Admit returns without an error.
func (e *Enforcer) Admit(p *corev1.Pod, at netip.Addr) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.update(func() {
		now, version := e.stored(p)
		e.put(now, version, at)
	})
}

// stored returns a pod as it is in the store, and its version: whoever starts it may have read it before its labels were
// changed, and changes of pods that were not admitted are not followed. A pod that is not there any more is returned as
// it was.
func (e *Enforcer) stored(p *corev1.Pod) (_ *corev1.Pod, version uint64) {
	now := &corev1.Pod{}
	if err := e.store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key(podResource, p.Namespace, p.Name))
		if !ok {
			return nil
		}
		version = o.Version
		return scheme.Decode(o.Value, now)
	}); err != nil || now.UID != p.UID {
		return p, 0
	}
	return now, version
}

// Forget is to be called before the address of a pod is given to another. It is no error if the pod has none.
func (e *Enforcer) Forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod := e.pods[uid]; pod != nil {
		pod.gone = true
		e.left.Send()
	}
}

// Run follows the store until ctx ends.
func (e *Enforcer) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, prefix := range []string{policyPrefix, namespacePrefix} {
		group.Go(func() { e.followRules(ctx, prefix) })
	}
	group.Go(func() { e.followPods(ctx) })
	group.Go(func() { e.sweep(ctx) })
	e.kicked.RunAtLeisure(ctx, settle, e.catchUp)
}

// sweep kicks some time after pods are gone, until ctx ends.
func (e *Enforcer) sweep(ctx context.Context) {
	for e.left.Wait(ctx) && follow.Sleep(ctx, e.linger) {
		e.kicked.Send()
	}
}

// catchUp brings the rules up to date, and reports whether they are.
func (e *Enforcer) catchUp() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.pods, func(_ types.UID, pod *entry) bool { return pod.gone })
	if err := e.update(nil); err != nil {
		e.logger.Warn("cannot apply NetworkPolicies: no pod starts until that succeeds", "error", err)
		return false
	}
	return true
}

// update reads the policies, calls change if there are some, and tells the network.
func (e *Enforcer) update(change func()) error {
	if err := e.store.View(e.read); err != nil {
		return err
	}
	if e.compiled == nil {
		if e.told {
			return nil
		}
		err := e.network.SetPolicies(nil)
		e.told = err == nil
		return err
	}
	if change != nil {
		change()
	}
	e.told = false
	p := &network.Policies{Pods: make(map[netip.Addr]network.PolicyPod, len(e.pods)), Lists: maps.Clone(e.compiled.Lists())}
	for _, pod := range e.pods {
		p.Pods[pod.at] = pod.made
	}
	return e.network.SetPolicies(p)
}

// read compiles the policies of the store, if they or the namespaces have changed, and reads the pods when there are
// policies for the first time.
func (e *Enforcer) read(s *store.Snapshot) error {
	versions := map[string]uint64{}
	note := func(o store.Object) bool {
		versions[o.Key] = o.Version
		return true
	}
	s.Range(policyPrefix, "", note)
	if len(versions) == 0 {
		e.made, e.compiled, e.pods = nil, nil, nil
		return nil
	}
	s.Range(namespacePrefix, "", note)
	if !maps.Equal(versions, e.made) {
		compiled, err := e.compile(s)
		if err != nil {
			return err
		}
		e.made, e.compiled = versions, compiled
		for _, pod := range e.pods {
			pod.made = compiled.pod(pod.Pod)
		}
	}
	if e.pods == nil {
		return e.load(s)
	}
	return nil
}

func (e *Enforcer) compile(s *store.Snapshot) (*compiled, error) {
	var policies []*networkingv1.NetworkPolicy
	namespaces := map[string]labels.Set{}
	var failed error
	s.Range(policyPrefix, "", func(o store.Object) bool {
		p := &networkingv1.NetworkPolicy{}
		failed = scheme.Decode(o.Value, p)
		policies = append(policies, p)
		return failed == nil
	})
	if failed != nil {
		return nil, failed
	}
	s.Range(namespacePrefix, "", func(o store.Object) bool {
		ns := &corev1.Namespace{}
		failed = scheme.Decode(o.Value, ns)
		namespaces[ns.Name] = ns.Labels
		return failed == nil
	})
	return compile(policies, namespaces, e.network.Gateway()), failed
}

// load reads the pods that are on the bridge.
func (e *Enforcer) load(s *store.Snapshot) (err error) {
	pods, addresses := map[types.UID]*entry{}, e.network.Addresses()
	if len(addresses) > 0 {
		s.Range(podPrefix, "", func(o store.Object) bool {
			p := &corev1.Pod{}
			if err = scheme.Decode(o.Value, p); err != nil {
				return false
			}
			if at, ok := addresses[string(p.UID)]; ok {
				pods[p.UID] = e.newEntry(p, o.Version, at)
			}
			return true
		})
	}
	if err != nil {
		return err
	}
	e.pods = pods
	select {
	case <-e.followed:
	default:
		e.since = s.Version()
		close(e.followed)
	}
	return nil
}

func (e *Enforcer) newEntry(p *corev1.Pod, version uint64, at netip.Addr) *entry {
	out := &entry{Pod: Pod{Namespace: p.Namespace, Labels: p.Labels}, at: at, version: version}
	for _, port := range core.NamedPorts(p) {
		out.Ports = append(out.Ports, network.NamedPort{
			Name: port.Name, Protocol: port.Protocol, Number: uint16(port.ContainerPort),
		})
	}
	out.made = e.compiled.pod(out.Pod)
	return out
}

// put takes in a pod that starts. Whoever had its address before is gone.
func (e *Enforcer) put(p *corev1.Pod, version uint64, at netip.Addr) {
	maps.DeleteFunc(e.pods, func(_ types.UID, pod *entry) bool { return pod.at == at })
	e.pods[p.UID] = e.newEntry(p, version, at)
}

// followRules kicks at each change below a prefix, until ctx ends or the store is closed.
func (e *Enforcer) followRules(ctx context.Context, prefix string) {
	again := func() (at uint64) {
		at = e.store.Version()
		e.kicked.Send() // whatever came before that is read now
		return at
	}
	follow.Changes(ctx, e.store, prefix, again(), func([]store.Change) { e.kicked.Send() }, again)
}

// followPods takes in changes of pods, from when they were read first until ctx ends or the store is closed.
func (e *Enforcer) followPods(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-e.followed:
	}
	follow.Changes(ctx, e.store, podPrefix, e.since, e.take, func() (at uint64) {
		at = e.store.Version()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pods = nil // they are read again
		e.kicked.Send()
		return at
	})
}

// take takes in changes of pods, except for those that are older than what is known: a pod that has just been admitted
// was read ahead of them. That a pod is gone is said by Forget.
func (e *Enforcer) take(changes []store.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		if c.Deleted || e.pods == nil {
			continue
		}
		p := &corev1.Pod{}
		if err := scheme.Decode(c.Object.Value, p); err != nil {
			e.logger.Warn("cannot decode a pod that NetworkPolicies may select", "object", c.Object.Key, "error", err)
			continue
		}
		was := e.pods[p.UID]
		if was == nil || c.Version <= was.version {
			continue
		}
		if now := e.newEntry(p, c.Version, was.at); !maps.Equal(now.Labels, was.Labels) || !slices.Equal(now.Ports, was.Ports) {
			now.gone = was.gone
			e.pods[p.UID] = now
			e.kicked.Send()
		}
	}
}
