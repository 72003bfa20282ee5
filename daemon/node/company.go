package node

import (
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/load"
	"github.com/jobd/jobd/daemon/relation"
)

// company returns what keeps a pod apart from those that are taken, in the order in which apart finds it, and the rules that
// find the pods in the way.
func (n *Node) company(taken *load.Sum, s *shape) (all []fit.Obstacle, matching, holding []int) {
	for _, own := range s.own {
		switch own.Kind {
		case relation.Spread:
			if !n.within(own.Topology) {
				all = append(all, own.LacksTopology())
			} else if skew := n.skew(taken, s, own); skew > own.MaxSkew {
				all, matching = append(all, own.BadlySpread(skew)), append(matching, own.id)
			}
		case relation.Affinity:
			if first := taken.Matches[own.id] == 0 && s.counts(own.id); !n.within(own.Topology) {
				all = append(all, own.LacksTopology())
			} else if taken.Matches[own.id] == 0 && !first {
				all = append(all, own.LacksCompany())
			}
		case relation.AntiAffinity:
			if n.within(own.Topology) && taken.Matches[own.id] > 0 {
				all, matching = append(all, own.UnwantedCompany()), append(matching, own.id)
			}
		}
	}
	for _, id := range s.Matches {
		if rule := n.rules.Get(id); taken.Holds[id] > 0 && n.within(rule.Topology) {
			all, holding = append(all, rule.UnwantedByOthers()), append(holding, id)
		}
	}
	return all, matching, holding
}
