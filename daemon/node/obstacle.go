package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/relation"
)

// tooManyRules is the obstacle of a pod that is crowded out.
func (n *Node) tooManyRules() fit.Obstacle {
	return fit.Obstacle{
		Kind: fit.TooManyRules, Brief: "too many rules of affinity and spread",
		Message: fmt.Sprintf("pods on the machine and in the queue ask for %d different rules of affinity, anti-affinity and topology spread, "+
			"and there may be %d", n.rules.Len(), relation.MaxRules),
	}
}

// company returns what keeps a pod apart from those that are taken, in the order in which apart finds it, and the rules by
// which the pods are found that do.
func (n *Node) company(taken *tally, s *shape) (all []fit.Obstacle, matching, holding []int) {
	for _, own := range s.own {
		switch own.Kind {
		case relation.Spread:
			if !n.within(own.Topology) {
				all = append(all, lacksTopology("a topologySpreadConstraint", own.Topology))
			} else if skew := n.skew(taken, s, own); skew > own.MaxSkew {
				all = append(all, fit.Obstacle{
					Kind:  fit.BadlySpread,
					Brief: fmt.Sprintf("its topologySpreadConstraint (maxSkew %d over %s) allows no more pods here", own.MaxSkew, own.Topology[0]),
					Message: fmt.Sprintf("its topologySpreadConstraint over %s (DoNotSchedule, maxSkew %d, minDomains %d) allows "+
						"no more pods that match %s: with it the skew would be %d, and there is only one node",
						own.Topology[0], own.MaxSkew, own.MinDomains, own.Selects(), skew),
				})
				matching = append(matching, own.id)
			}
		case relation.Affinity:
			if first := taken.matches[own.id] == 0 && slices.Contains(s.matches, own.id); !n.within(own.Topology) {
				all = append(all, lacksTopology("its required podAffinity", own.Topology))
			} else if taken.matches[own.id] == 0 && !first {
				all = append(all, fit.Obstacle{
					Kind: fit.LacksCompany, Brief: "no pod that its podAffinity requires is here: " + own.Selects(),
					Message: fmt.Sprintf("its required podAffinity asks for a pod that matches %s, and none is on this machine", own.Selects()),
				})
			}
		case relation.AntiAffinity:
			if n.within(own.Topology) && taken.matches[own.id] > 0 {
				all = append(all, fit.Obstacle{
					Kind: fit.UnwantedCompany, Brief: "its podAntiAffinity keeps it from a pod here: " + own.Selects(),
					Message: fmt.Sprintf("its required podAntiAffinity allows no pod that matches %s on the same machine", own.Selects()),
				})
				matching = append(matching, own.id)
			}
		}
	}
	for _, id := range s.matches {
		if taken.holds[id] > 0 && n.within(n.rules.Get(id).Topology) {
			all = append(all, fit.Obstacle{
				Kind: fit.UnwantedByOthers, Brief: "the podAntiAffinity of a pod here keeps it away",
				Message: fmt.Sprintf(
					"a pod on this machine has a required podAntiAffinity against pods that match %s, as this one does",
					n.rules.Get(id).Selects(),
				),
			})
			holding = append(holding, id)
		}
	}
	return all, matching, holding
}

func lacksTopology(who string, keys []string) fit.Obstacle {
	o := fit.Obstacle{
		Kind: fit.LacksTopology, Brief: "the node lacks the label " + strings.Join(keys, ", "),
		Message: fmt.Sprintf("%s is about places by the label %s, which the node does not have", who, strings.Join(keys, ", ")),
	}
	for _, key := range keys {
		o.Labels = append(o.Labels, fit.Settable(key, "VALUE")...)
	}
	return o
}
