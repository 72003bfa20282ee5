package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

// Pod is what admission needs of a pod. It must not be changed once it was passed to a Node.
type Pod struct {
	UID      types.UID
	Priority int32
	Created  time.Time
	// Ahead puts it before the other pods of its priority, the latest such time first; zero: in the order of creation.
	Ahead time.Time
	// Polite says that it never preempts others (PodSpec.PreemptionPolicy).
	Polite bool
	// QOS is its quality of service class, by which a node evicts pods for critical ones.
	QOS corev1.PodQOSClass
	// Group is the namespace and name of its PodGroup, empty for none (PodSpec.SchedulingGroup).
	Group string

	shape *shape
	// namespace and labels are what others may select it by, and relations what it asks of others.
	namespace string
	labels    podLabels
	relations []*relation
}

// shape is what pods that are alike have in common: all that decides, but for their priority, whether they fit.
type shape struct {
	key   string
	base  string // the key without own and matches
	ask   Resources
	ports []port
	terms terms
	pods  int // of this shape on the node or waiting

	// own are what such pods ask of others, and matches the rules that count them, in order.
	own     []owned
	matches []int

	// unfit is why the node takes no such pod, valid if judged.
	unfit  string
	judged bool
}

// terms are a pod's constraints on the node.
type terms struct {
	NodeSelector map[string]string   `json:"nodeSelector,omitempty"`
	Affinity     *corev1.Affinity    `json:"affinity,omitempty"`
	Tolerations  []corev1.Toleration `json:"tolerations,omitempty"`
}

// port is one of the host's.
type port struct {
	protocol corev1.Protocol
	number   int32
	ip       string // empty: all
}

// PodOf returns what admission needs of a pod.
func PodOf(pod *corev1.Pod) *Pod {
	p := &Pod{
		UID: pod.UID, Priority: corev1helpers.PodPriority(pod), Created: pod.CreationTimestamp.Time,
		QOS: pod.Status.QOSClass, Polite: ptr.Deref(pod.Spec.PreemptionPolicy, "") == corev1.PreemptNever,
	}
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		p.Group = GroupKey(pod.Namespace, *g.PodGroupName)
	}
	p.shape = newShape(requests(pod), hostPorts(&pod.Spec), termsOf(&pod.Spec), p.Polite)
	p.namespace, p.labels, p.relations = pod.Namespace, encodeLabels(pod.Labels), relationsOf(pod)
	return p
}

// Alike reports whether two pods have the same requests, ports, constraints and labels.
func (p *Pod) Alike(other *Pod) bool {
	return p.shape.base == other.shape.base && p.labels == other.labels &&
		slices.EqualFunc(p.relations, other.relations, func(a, b *relation) bool { return a.key == b.key })
}

// newShape distinguishes polite pods from others: behind a polite pod that does not fit, another one may preempt.
func newShape(ask Resources, ports []port, t terms, polite bool) *shape {
	var key strings.Builder
	key.WriteString(ask.String())
	if polite {
		key.WriteString("|polite")
	}
	for _, p := range ports {
		fmt.Fprintf(&key, "|%s:%s:%d", p.protocol, p.ip, p.number)
	}
	if t.NodeSelector != nil || t.Affinity != nil || t.Tolerations != nil {
		_ = json.NewEncoder(&key).Encode(t) // of types that were decoded from JSON
	}
	return &shape{key: key.String(), base: key.String(), ask: ask, ports: ports, terms: t}
}

func termsOf(spec *corev1.PodSpec) terms {
	t := terms{NodeSelector: spec.NodeSelector}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		t.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	if slices.ContainsFunc(spec.Tolerations, ofSchedule) {
		t.Tolerations = spec.Tolerations
	}
	return t
}

// ofSchedule reports whether a toleration matters here. Every pod has those of the taints not-ready and unreachable,
// which this node never has.
func ofSchedule(t corev1.Toleration) bool {
	return t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable
}

func hostPorts(spec *corev1.PodSpec) (ports []port) {
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			ip := p.HostIP
			if ip == "0.0.0.0" || ip == "::" {
				ip = ""
			}
			ports = append(ports, port{p.Protocol, p.HostPort, ip})
		}
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; podspec.IsSidecar(c) {
			add(c)
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	return ports
}

// take makes a pod share the shape of those that are alike.
func (n *Node) take(p *Pod) {
	if p.shape == nil {
		p.shape = newShape(nil, nil, terms{}, p.Polite)
	}
	n.register(p)
	n.classify(p)
	n.share(p)
}

func (n *Node) share(p *Pod) {
	if s, ok := n.shapes[p.shape.key]; ok {
		p.shape = s
	} else {
		n.shapes[p.shape.key] = p.shape
	}
	p.shape.pods++
}

// drop forgets what a pod that is gone asked of others.
func (n *Node) drop(p *Pod) {
	n.unshare(p)
	n.unregister(p)
}

// unshare forgets a shape with the last pod of it.
func (n *Node) unshare(p *Pod) {
	if p.shape.pods--; p.shape.pods == 0 {
		delete(n.shapes, p.shape.key)
	}
}
