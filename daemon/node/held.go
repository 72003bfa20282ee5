package node

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/requests"
)

// Expected are a number of pods that are alike and not there yet.
type Expected struct {
	Pod   *Pod
	Count int
}

// ExpectedOf returns what is to be held for a number of pods of a template, which are to come from something that was created at a time.
// What they ask of other pods is not known before they are there. Nobody has admitted the priority that the template states, so it is none of
// those that only the system has.
func ExpectedOf(template *corev1.PodTemplateSpec, count int, created time.Time) Expected {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p := &Pod{Priority: min(corev1helpers.PodPriority(pod), scheduling.HighestUserPriority), Created: seconds(created)}
	p.shape = newShape(requests.Of(pod), requests.PortsOf(&pod.Spec), fit.TermsOf(&pod.Spec), p.Polite)
	return Expected{p, count}
}

// Unfit returns why the node takes no such pods even if it is empty; empty if it does.
func (n *Node) Unfit(pods []Expected) string {
	for _, e := range pods {
		e.Pod.shape.judged = false // the node does not know this shape, and says of no change of its own to it
		if why := n.unfit(e.Pod.shape); why != "" {
			return why
		}
	}
	return ""
}

// Hold reserves room for pods that are to come, as if they were nominated. Lacks says whether there is room; it is not asked here, for what
// was held before a start.
func (n *Node) Hold(key string, pods []Expected) {
	if _, ok := n.holds[key]; ok {
		return
	}
	if n.holds == nil {
		n.holds = map[string][]Expected{}
	}
	held := slices.Clone(pods)
	for i := range held {
		held[i].Count = min(held[i].Count, n.MaxPods)
		n.reserved.Add(held[i].Pod.Priority, held[i].Pod.shape.One, held[i].Count)
	}
	n.holds[key] = held
}

// Hand lets what is held under a key be held under another one.
func (n *Node) Hand(key, to string) {
	if held, ok := n.holds[key]; ok && key != to {
		delete(n.holds, key)
		n.holds[to] = held
	}
}

// Lacks returns what is missing for pods that are to come together, in a scheduler's words; empty if they fit.
func (n *Node) Lacks(pods []Expected) string {
	if unfit := n.Unfit(pods); unfit != "" {
		return notAvailable + unfit + "."
	}
	taken := load.Sum{}
	for i, e := range pods {
		w := &waiter{Pod: e.Pod, order: orderOf(e.Pod), account: &account{}, line: &line{}}
		if i == 0 {
			taken.Merge(n.taken(w))
		}
		n.steps += 1 + len(e.Pod.shape.Ask)
		if n.capacity(&taken, e.Pod.shape) < e.Count || !n.placeable([]*waiter{w}) {
			names, _ := n.short(&taken, e.Pod.shape)
			if len(names) == 0 {
				names = []string{"there is no room for all of them at once"}
			}
			return notAvailable + "1 " + strings.Join(names, ", 1 ") + "."
		}
		taken.Add(e.Pod.shape.One, e.Count)
	}
	return ""
}

// Release frees what is held.
func (n *Node) Release(key string) {
	held, ok := n.holds[key]
	if !ok {
		return
	}
	for _, e := range held {
		n.reserved.Add(e.Pod.Priority, e.Pod.shape.One, -e.Count)
	}
	delete(n.holds, key)
	n.unblock()
}

// Arrive takes in that a pod has come that something is held for, and reports whether there is: then it is to be nominated. What it asks
// for itself counts, which may be more than was held for it.
func (n *Node) Arrive(key string, p *Pod) bool {
	held := n.holds[key]
	if n.waiting[p.UID] != nil || n.bound[p.UID] != nil {
		return false
	}
	for i := range held {
		if e := &held[i]; e.Count > 0 {
			e.Count--
			n.reserved.Add(e.Pod.Priority, e.Pod.shape.One, -1)
			return true
		}
	}
	return false
}

// Openings counts how often there may have come to be more room. What it was before says whether to look again.
func (n *Node) Openings() uint64 { return n.openings }
