package relation

import (
	"fmt"
	"strings"

	"github.com/jobd/jobd/daemon/fit"
)

// TooManyRules is the obstacle of a pod for whose rules there is no room beside those that there are.
func TooManyRules(rules int) fit.Obstacle {
	return fit.Obstacle{
		Kind: fit.TooManyRules, Brief: "too many rules of affinity and spread",
		Message: fmt.Sprintf("pods on the machine and in the queue ask for %d different rules of affinity, anti-affinity and topology spread, "+
			"and there may be %d", rules, MaxRules),
	}
}

// BadlySpread is the obstacle of a pod with which the skew of its constraint would be that.
func (r *Relation) BadlySpread(skew int) fit.Obstacle {
	return fit.Obstacle{
		Kind:  fit.BadlySpread,
		Brief: fmt.Sprintf("its topologySpreadConstraint (maxSkew %d over %s) allows no more pods here", r.MaxSkew, r.Topology[0]),
		Message: fmt.Sprintf("its topologySpreadConstraint over %s (DoNotSchedule, maxSkew %d, minDomains %d) allows "+
			"no more pods that match %s: with it the skew would be %d, and there is only one node",
			r.Topology[0], r.MaxSkew, r.MinDomains, r.Selects(), skew),
	}
}

// LacksCompany is the obstacle of a pod that asks for others which are not here.
func (r *Relation) LacksCompany() fit.Obstacle {
	return fit.Obstacle{
		Kind: fit.LacksCompany, Brief: "no pod that its podAffinity requires is here: " + r.Selects(),
		Message: fmt.Sprintf("its required podAffinity asks for a pod that matches %s, and none is on this machine", r.Selects()),
	}
}

// UnwantedCompany is the obstacle of a pod that does not go with another one here.
func (r *Relation) UnwantedCompany() fit.Obstacle {
	return fit.Obstacle{
		Kind: fit.UnwantedCompany, Brief: "its podAntiAffinity keeps it from a pod here: " + r.Selects(),
		Message: fmt.Sprintf("its required podAntiAffinity allows no pod that matches %s on the same machine", r.Selects()),
	}
}

// UnwantedByOthers is the obstacle of a pod with which another one here, that asks this of others, does not go.
func (r *Relation) UnwantedByOthers() fit.Obstacle {
	return fit.Obstacle{
		Kind: fit.UnwantedByOthers, Brief: "the podAntiAffinity of a pod here keeps it away",
		Message: fmt.Sprintf("a pod on this machine has a required podAntiAffinity against pods that match %s, as this one does", r.Selects()),
	}
}

// LacksTopology is the obstacle of a pod that asks this of others, on a node without the labels that it is about.
func (r *Relation) LacksTopology() fit.Obstacle {
	who := "a topologySpreadConstraint"
	if r.Kind != Spread {
		who = "its required podAffinity"
	}
	keys := strings.Join(r.Topology, ", ")
	o := fit.Obstacle{
		Kind: fit.LacksTopology, Brief: "the node lacks the label " + keys,
		Message: fmt.Sprintf("%s is about places by the label %s, which the node does not have", who, keys),
	}
	for _, key := range r.Topology {
		o.Labels = append(o.Labels, fit.Settable(key, "VALUE")...)
	}
	return o
}
