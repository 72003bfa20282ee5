package node

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/relation"
)

// What a pod asks of the other pods on the node: affinity and anti-affinity (PodSpec.Affinity), and how many of a kind
// may be in one place (PodSpec.TopologySpreadConstraints). All of it is decided by counting: each distinct set of
// selectors is a rule, and a tally counts the pods that match it and those that keep others away by it. Pods that match
// no rule cost nothing.

// The words of a scheduler.
const (
	badSpread  = "node(s) didn't match pod topology spread constraints"
	noTopology = badSpread + " (missing required label)"
	noFriends  = "node(s) didn't match pod affinity rules"
	foes       = "node(s) didn't match pod anti-affinity rules"
	unwelcome  = "node(s) didn't satisfy existing pods anti-affinity rules"

	// crowd is why a pod waits that asks more of others than can be looked at.
	crowd = "node(s) had too many different rules of pod affinity, anti-affinity and topology spread"
)

// owned is a relation of a shape.
type owned struct {
	*relation.Relation
	id int // of its rule
}

// matcher returns a function that returns which of the rules match a pod, in their order.
func (n *Node) matcher(rules []*relation.Rule) func(*Pod) []int {
	matching := n.rules.Matcher(rules)
	return func(p *Pod) []int {
		ids, steps := matching(p.labels)
		n.steps += steps
		return ids
	}
}

// compared remembers with which rules a pod was compared, and which of them matched.
type compared struct {
	labels   relation.Labels
	from, to int // the ids of the first and the last rule
	indexed  bool
	matches  []int
}

// unseen returns which of the rules match a waiting pod that have come since it was compared with all. The pods of a Job, which
// mostly stand behind each other, are looked at once.
func (n *Node) unseen(w *waiter) []int {
	n.steps++
	if w.shape.Continues { // it has the company that it has
		return nil
	}
	rules := n.rules.After(w.seen)
	if len(rules) == 0 {
		return nil
	}
	last := &n.lastCompared
	if from := rules[0].ID; last.from != from || last.to != n.rules.Last() || last.labels.WithoutIndex() != w.labels.WithoutIndex() ||
		last.indexed && last.labels != w.labels {
		n.lastCompared = compared{
			labels: w.labels, from: from, to: n.rules.Last(), matches: n.matcher(rules)(w.Pod),
			indexed: relation.ByIndex(rules),
		}
	}
	return last.matches
}

// compare compares a waiting pod with the rules that have come since it was last, and reports whether it matches some. Then it
// waits in another line.
func (n *Node) compare(w *waiter) (moved bool) {
	more := n.unseen(w)
	w.seen = n.rules.Last()
	if len(more) == 0 {
		return false
	}
	n.reline(w, append(slices.Clone(w.shape.Matches), more...))
	return true
}

// compareFirst compares the pods of a line that are looked at next, until too many steps were taken, and reports whether the
// line is another one now.
func (n *Node) compareFirst(l *line, until int) (changed bool) {
	if l.gang == nil {
		return n.compare(l.queue[0])
	}
	if l.gang.seen == n.rules.Last() {
		return false
	}
	for _, w := range slices.Clone(l.queue) {
		if n.steps > until {
			return true
		}
		if w.seen != n.rules.Last() {
			n.compare(w)
		}
	}
	l.gang.seen = n.rules.Last()
	return true
}

// current returns the shape that a waiting pod will have when it was compared with all rules.
func (n *Node) current(w *waiter) *shape {
	more := n.unseen(w)
	if len(more) == 0 {
		return w.shape
	}
	s := *w.shape
	s.Matches = append(slices.Clone(s.Matches), more...)
	return &s
}

// hasRoomFor reports whether there are few enough rules for what a pod asks of others.
func (n *Node) hasRoomFor(p *Pod) bool {
	n.steps += len(p.shape.relations)
	return n.rules.HasRoom(p.shape.relations, p.labels.Namespace())
}

// register makes known what a pod asks of others, and reports whether there are few enough rules for that. Those that are new are
// compared at once with the pods for which room is taken or kept, of which there are few. Those that wait are compared when they
// are looked at (compare): a rule that matches a pod may keep it from starting, but never lets it start.
func (n *Node) register(p *Pod) bool {
	if !n.hasRoomFor(p) {
		return false
	}
	made := n.rules.Register(p.shape.relations, p.labels.Namespace())
	if len(made) == 0 {
		return true
	}
	matching := n.matcher(made)
	for _, b := range n.bound {
		n.steps++
		if more := matching(b.Pod); len(more) > 0 {
			n.rematch(b, append(slices.Clone(b.shape.Matches), more...))
		}
	}
	for _, other := range n.expected {
		n.steps++
		if more := matching(other); len(more) > 0 {
			n.reserved.Add(other.Priority, other.shape.One, -1)
			n.reshape(other, append(slices.Clone(other.shape.Matches), more...))
			n.reserved.Add(other.Priority, other.shape.One, 1)
		}
	}
	for _, w := range n.nominees {
		n.compare(w)
	}
	return true
}

// unregister forgets what a pod asked of others.
func (n *Node) unregister(p *Pod) {
	if !p.shape.crowded && n.rules.Unregister(p.shape.relations) {
		n.fewer = true
	}
}

// classify adds to the shape of a pod what it asks of others, and which rules it matches.
func (n *Node) classify(p *Pod) {
	if n.rules.Len() == 0 && len(p.shape.relations) == 0 {
		return
	}
	n.form(p, n.matcher(n.rules.After(0))(p))
}

// form gives a pod the shape of those that ask the same of others, and match those rules.
func (n *Node) form(p *Pod, matches []int) {
	s := p.shape.plain()
	s.crowded = p.shape.crowded
	s.Matches = slices.DeleteFunc(slices.Clone(matches), func(id int) bool { return n.rules.Get(id) == nil })
	n.steps += 1 + len(s.relations) + len(s.Matches)
	if !s.crowded {
		for _, r := range s.relations {
			id := n.rules.IDOf(r)
			if s.own = append(s.own, owned{r, id}); r.Kind == relation.AntiAffinity {
				s.Holds = append(s.Holds, id)
			}
		}
	}
	if len(s.own)+len(s.Matches) == 0 && !s.crowded {
		p.shape = s
		return
	}
	var key strings.Builder
	key.WriteString(s.base)
	if s.crowded {
		key.WriteString("|crowded")
	}
	for _, r := range s.relations {
		key.WriteString("|" + r.Key)
	}
	content, _ := json.Marshal(s.Matches)
	key.WriteString("|" + string(content))
	s.key = relation.Brief(key.String())
	p.shape = s
}

// rematch gives a bound pod the shape of those that match these rules.
func (n *Node) rematch(b *bound, matches []int) {
	ending, frozen, displaced := b.ending, b.frozen, b.displaced()
	n.end(b, false)
	n.displace(b, 0)
	n.freeze(b, false)
	n.used.Add(b.Priority, b.shape.One, -1)
	n.reshape(b.Pod, matches)
	n.used.Add(b.Priority, b.shape.One, 1)
	n.freeze(b, frozen)
	n.displace(b, displaced)
	n.end(b, ending)
}

// reline gives a waiting pod the shape of those that match these rules, and lets it wait in their line.
func (n *Node) reline(w *waiter, matches []int) {
	nominated := w.nominated
	n.remove(w)
	if nominated {
		n.keep(w, false)
	}
	n.reshape(w.Pod, matches)
	if nominated {
		n.keep(w, true)
	}
	w.seen = n.rules.Last()
	n.enqueue(w)
	n.changed = append(n.changed, w.UID)
}

func (n *Node) reshape(p *Pod, matches []int) {
	n.unshare(p)
	n.form(p, matches)
	n.share(p)
}

// retryCrowded registers what pods ask for which there were too many rules before.
func (n *Node) retryCrowded() {
	n.fewer = false
	if n.crowded == 0 {
		return
	}
	var crowded []*waiter
	for _, w := range n.waiting {
		if w.shape.crowded {
			crowded = append(crowded, w)
		}
	}
	slices.SortFunc(crowded, func(a, b *waiter) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	for _, w := range crowded {
		if n.rules.Len() >= relation.MaxRules {
			return
		}
		if !n.hasRoomFor(w.Pod) {
			continue
		}
		nominated := w.nominated
		n.remove(w)
		if nominated {
			n.keep(w, false)
		}
		n.drop(w.Pod)
		delete(n.waiting, w.UID) // its own rules may match it
		n.take(w.Pod)
		w.seen = n.rules.Last()
		n.waiting[w.UID] = w
		if nominated {
			n.keep(w, true)
		}
		n.enqueue(w)
		n.changed = append(n.changed, w.UID)
	}
}

// Relabel folds in the labels that a pod has now, if it is known.
func (n *Node) Relabel(pod *corev1.Pod) {
	p := n.pod(pod.UID)
	now := relation.LabelsOf(pod.Namespace, pod.Labels)
	if p == nil || p.labels == now {
		return
	}
	p.labels = now
	if n.rules.Len() == 0 {
		return
	}
	matches := n.matcher(n.rules.After(0))(p)
	if b, ok := n.bound[p.UID]; ok {
		n.rematch(b, matches)
	} else {
		n.reline(n.waiting[p.UID], matches)
	}
	n.unblock()
}

// pod returns a pod that is bound or waits, nil if it does neither.
func (n *Node) pod(uid types.UID) *Pod {
	if b, ok := n.bound[uid]; ok {
		return b.Pod
	}
	if w, ok := n.waiting[uid]; ok {
		return w.Pod
	}
	return nil
}

// SetNamespace folds in the labels of a namespace, which terms may select; nil if it is gone.
func (n *Node) SetNamespace(name string, set map[string]string) {
	if !n.rules.SetNamespace(name, set) {
		return
	}
	matching := n.matcher(n.rules.After(0))
	for _, b := range n.bound {
		if n.steps++; b.labels.Namespace() == name {
			n.rematch(b, matching(b.Pod))
		}
	}
	for _, w := range n.waiting {
		if n.steps++; w.labels.Namespace() == name {
			n.reline(w, matching(w.Pod))
		}
	}
	n.unblock()
}

// apart returns why a pod of that shape does not go with those that are taken, in a scheduler's words, and whether to
// end some of them would be no help; empty if it does.
func (n *Node) apart(taken *load.Sum, s *shape) (why string, hopeless bool) {
	if len(s.own)+len(s.Matches) == 0 {
		return "", false
	}
	n.steps += len(s.own) + len(s.Matches)
	for _, own := range s.own {
		if own.Kind != relation.Spread {
			continue
		}
		if !n.within(own.Topology) {
			return noTopology, true
		}
		if n.skew(taken, s, own) > own.MaxSkew {
			return badSpread, false
		}
	}
	for _, own := range s.own {
		if own.Kind != relation.Affinity {
			continue
		}
		first := taken.Matches[own.id] == 0 && s.counts(own.id) // of pods that want to be together
		if !n.within(own.Topology) || taken.Matches[own.id] == 0 && !first {
			return noFriends, true
		}
	}
	for _, own := range s.own {
		if own.Kind == relation.AntiAffinity && n.within(own.Topology) && taken.Matches[own.id] > 0 {
			return foes, false
		}
	}
	for _, id := range s.Matches {
		if taken.Holds[id] > 0 && n.within(n.rules.Get(id).Topology) {
			return unwelcome, false
		}
	}
	return "", false
}

// skew returns by how much more pods there are here, with one more of the shape, than where there are fewest: in the only
// place that there is, or in one that a constraint misses (TopologySpreadConstraint.MinDomains).
func (n *Node) skew(taken *load.Sum, s *shape, own owned) int {
	here, least, places := taken.Stay(own.id), 0, 1
	if n.unfit(s); own.HonorsAffinity && !s.selected || own.HonorsTaint && s.untolerated {
		here, places = 0, 0 // it is no place for such pods
	}
	if least = math.MaxInt32; places > 0 {
		least = here
	}
	if places < own.MinDomains {
		least = 0
	}
	self := 0
	if s.counts(own.id) || own.CountsAll() {
		self = 1
	}
	return here + self - least
}

// counts reports whether a rule counts pods of that shape.
func (s *shape) counts(rule int) bool {
	_, ok := slices.BinarySearch(s.Matches, rule)
	return ok
}

// within reports whether the node has all those labels.
func (n *Node) within(topology []string) bool {
	return !slices.ContainsFunc(topology, func(key string) bool {
		_, ok := n.facts.Labels[key]
		return !ok
	})
}
