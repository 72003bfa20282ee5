package node

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/daemon/cards"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/kubelet"
	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/relation"
	"github.com/jobd/jobd/daemon/requests"
)

// Pod is what admission needs of a pod. It must not be changed once it was passed to a Node. It is small, since very many
// are kept: what pods have in common lies behind pointers.
type Pod struct {
	UID types.UID
	of  unique.Handle[belonging] // zero: to nothing
	// Ahead puts it before the other pods of its priority, the latest first (Ahead); 0: in the order of creation.
	Ahead int64
	// labels are what others may select it by.
	labels   relation.Labels
	shape    *shape
	Priority int32
	Created  uint32 // Unix time in seconds
	// Polite says that it never preempts others (PodSpec.PreemptionPolicy).
	Polite bool
	// Pausable says that it is not ended for pods of a higher priority but paused, where its CPU is enough for them.
	Pausable bool
	// Endless says that it does not end by itself, nor by a deadline.
	Endless bool
	class   kubelet.Class
	// limit is how long it may run, own what its own deadline says of that, and grace how many seconds it then has to end.
	limit, own requests.Limit
	grace      uint32
}

// belonging is to what a pod belongs with many others.
type belonging struct{ group, account string }

// Group returns the namespace and name of its PodGroup, empty for none (PodSpec.SchedulingGroup).
func (p *Pod) Group() string { return p.belonging().group }

// Account returns whose use of the machine it is counted as (Node.ShareFairly); empty without.
func (p *Pod) Account() string { return p.belonging().account }

// SetGroup makes it one of a PodGroup, or of none.
func (p *Pod) SetGroup(key string) { p.belong(belonging{key, p.Account()}) }

// SetAccount sets whose use of the machine it is counted as.
func (p *Pod) SetAccount(name string) { p.belong(belonging{p.Group(), name}) }

func (p *Pod) belonging() belonging {
	if p.of == (unique.Handle[belonging]{}) {
		return belonging{}
	}
	return p.of.Value()
}

func (p *Pod) belong(to belonging) {
	p.of = unique.Handle[belonging]{}
	if to != (belonging{}) {
		p.of = unique.Make(to)
	}
}

// Ahead returns how far ahead of others a time puts pods (Pod.Ahead); the zero time does not. Times that do not fit are
// those that do which are nearest.
func Ahead(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(time.Unix(0, 1)):
		return 1
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// shape is what pods that are alike have in common: all that decides, but for their priority, whether they fit.
type shape struct {
	key   string
	base  string // the key without own and matches
	terms fit.Terms
	pods  int // of this shape on the node or waiting

	// One is what each of them takes. Those that continue were displaced (Displaced).
	load.One
	// relations are what such pods ask of others, and own the same with the rules.
	relations []*relation.Relation
	own       []owned

	// crowded says that there were too many rules for what such pods ask of others, which wait for that.
	crowded bool

	// unfit is why the node takes no such pod, selected says whether its labels are those that such a pod selects, and
	// untolerated whether a taint keeps it away; all of it valid if judged.
	unfit                 string
	selected, untolerated bool
	judged                bool
}

// PodOf returns what admission needs of a pod.
func PodOf(pod *corev1.Pod) *Pod {
	p := &Pod{
		UID: pod.UID, Priority: corev1helpers.PodPriority(pod), Created: seconds(pod.CreationTimestamp.Time),
		labels: relation.LabelsOf(pod.Namespace, pod.Labels), class: kubelet.ClassOf(pod.Status.QOSClass),
		Polite: ptr.Deref(pod.Spec.PreemptionPolicy, "") == corev1.PreemptNever,
	}
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		p.SetGroup(GroupKey(pod.Namespace, *g.PodGroupName))
	}
	p.shape = newShape(requests.Of(pod), requests.PortsOf(&pod.Spec), fit.TermsOf(&pod.Spec), p.Polite)
	p.shape.relations = relation.Of(pod)
	p.bounded(&pod.Spec)
	return p
}

// seconds returns a time in Unix seconds, 0 for the zero time.
func seconds(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), math.MaxUint32)) }

// Within sets that a pod is told to end after that many seconds at the latest, nil for never: by the deadline of its Job, beside its own.
func (p *Pod) Within(seconds *int64) {
	p.limit = p.own
	if seconds == nil {
		return
	}
	grace := int64(p.grace)
	if l := requests.LimitOf(min(max(0, *seconds), math.MaxInt64-grace) + grace); l != 0 && (p.own == 0 || l < p.own) {
		p.limit = l
	}
}

// bounded notes how long a pod may run.
func (p *Pod) bounded(spec *corev1.PodSpec) {
	p.grace = uint32(min(max(0, ptr.Deref(spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)), math.MaxUint32))
	p.Within(spec.ActiveDeadlineSeconds)
	p.own = p.limit
	p.Endless = p.limit == 0 && spec.RestartPolicy == corev1.RestartPolicyAlways
}

// Alike reports whether two pods have the same requests, ports, constraints, labels and deadlines.
func (p *Pod) Alike(other *Pod) bool {
	return p.shape.base == other.shape.base && p.labels == other.labels && p.limit == other.limit &&
		slices.EqualFunc(p.shape.relations, other.shape.relations, func(a, b *relation.Relation) bool { return a.Key == b.Key })
}

// newShape distinguishes polite pods from others: behind a polite pod that does not fit, another one may preempt.
func newShape(ask requests.Resources, ports []requests.Port, t fit.Terms, polite bool) *shape {
	var key strings.Builder
	key.WriteString(ask.String())
	if polite {
		key.WriteString("|polite")
	}
	for _, p := range ports {
		fmt.Fprintf(&key, "|%s:%s:%d", p.Protocol, p.IP, p.Number)
	}
	if t.NodeSelector != nil || t.Affinity != nil || t.Tolerations != nil {
		_ = json.NewEncoder(&key).Encode(t) // of types that were decoded from JSON
	}
	brief := relation.Brief(key.String())
	return &shape{key: brief, base: brief, terms: t, One: load.One{Ask: ask, Ports: ports}}
}

// plain returns the shape without what depends on the rules of other pods.
func (s *shape) plain() *shape {
	return &shape{key: s.base, base: s.base, terms: s.terms, relations: s.relations, One: load.One{Ask: s.Ask, Ports: s.Ports}}
}

// take makes a pod share the shape of those that are alike.
func (n *Node) take(p *Pod) {
	if p.shape == nil {
		p.shape = newShape(nil, nil, fit.Terms{}, p.Polite)
	}
	if p.shape.crowded {
		p.shape = p.shape.plain()
	}
	if !n.register(p) {
		p.shape = p.shape.plain()
		p.shape.crowded = true
	}
	n.classify(p)
	n.share(p)
}

func (n *Node) share(p *Pod) {
	if s, ok := n.shapes[p.shape.key]; ok {
		p.shape = s
	} else {
		n.shapes[p.shape.key] = p.shape
		if cards.Wanted(p.shape.Ask) {
			n.wanting++
		}
	}
	if p.shape.crowded {
		n.crowded++
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
	if p.shape.crowded {
		n.crowded--
	}
	if p.shape.pods--; p.shape.pods == 0 {
		delete(n.shapes, p.shape.key)
		if cards.Wanted(p.shape.Ask) {
			n.wanting--
		}
	}
}
