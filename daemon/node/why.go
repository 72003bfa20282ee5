package node

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	notAvailable = "0/1 nodes are available: "
	// What a scheduler says about preemption.
	notHelpful  = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	noVictims   = " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	neverOthers = " preemption: not eligible due to preemptionPolicy=Never."
	terminating = " preemption: not eligible due to a terminating pod on the nominated node."
)

// Why returns why a pod waits, in a scheduler's words. It is empty if the pod does not wait, or for no known reason.
func (n *Node) Why(uid types.UID) string {
	w, ok := n.waiting[uid]
	if !ok {
		return ""
	}
	if g := w.line.gang; g != nil {
		return n.whyGang(w, g)
	}
	return n.whyAlone(w)
}

func (n *Node) whyGang(w *waiter, g *group) string {
	switch {
	case !g.known:
		_, name, _ := strings.Cut(g.key, "/")
		return fmt.Sprintf("waiting for pods's pod group %q to appear in scheduling queue", name)
	case len(g.line.queue)+g.bound < g.need():
		return "waiting for minCount pods from a gang to appear in scheduling queue"
	}
	if g.bound >= g.need() { // the gang runs, and this is one more pod of it
		return n.whyAlone(w)
	}
	scheduled := g.bound + n.countFitting(g.line)
	if scheduled >= g.need() {
		return ""
	}
	why := fmt.Sprintf("pod group is unschedulable, minCount (%d) cannot be satisfied: %d scheduled, %d remaining",
		g.need(), scheduled, g.need()-scheduled-1)
	if alone := n.whyAlone(w); alone != "" { // it would not fit without the others either
		alone, _, _ = strings.Cut(alone, " preemption: ")
		why += ". " + alone
	}
	return why
}

func (n *Node) whyAlone(w *waiter) (why string) {
	shape := n.current(w)
	if unfit := n.unfit(shape); unfit != "" {
		return notAvailable + unfit + "." + notHelpful
	}
	var names []string
	hopeless := false
	n.without([]*waiter{w}, func() {
		taken := n.taken(w)
		if taken.Ports.Busy(shape.Ports) {
			names = []string{"node(s) didn't have free ports for the requested pod ports"}
		} else {
			names, hopeless = n.short(taken, shape)
		}
		if len(names) == 0 && !n.placeable([]*waiter{w}) {
			names = n.cards.Scattered(shape.Ask)
		}
		if len(names) > 0 {
			return
		}
		var why string
		if why, hopeless = n.apart(taken, shape); why != "" {
			names = []string{why}
		}
	})
	if len(names) == 0 {
		return ""
	}
	why = notAvailable + "1 " + strings.Join(names, ", 1 ") + "."
	switch {
	case hopeless:
		return why + notHelpful
	case w.Polite:
		return why + neverOthers
	case w.nominated:
		return why + terminating
	}
	return why + noVictims
}

// Hopeless returns a scheduler's words for a pod that waits for something which no preemption of others brings about.
func Hopeless(why string) string {
	if why == "" {
		return ""
	}
	return notAvailable + why + "." + notHelpful
}

// MakesWay returns what others are preempted for by a pod, in a scheduler's words.
func (n *Node) MakesWay(uid types.UID) string {
	why, _, _ := strings.Cut(n.Why(uid), " preemption: ")
	return why
}
