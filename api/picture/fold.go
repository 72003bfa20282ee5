package picture

import (
	"cmp"
	"slices"

	"github.com/jobd/jobd/api/batch"
)

// GroupsToShow returns, in their order, the numbers of the groups of a JobSet that are shown where there is no room for all:
// first choice are the chosen one (negative: none is), those that have failed and those with Jobs that go on, then their
// neighbours. api/dashboard/assets/set.js has the same rule.
func GroupsToShow(groups []Group, chosen, room int) []int {
	all := make([]int, len(groups))
	for i := range all {
		all[i] = i
	}
	if len(groups) <= room {
		return all
	}
	ranks, active := make([]int, len(groups)), []int{}
	for i := range groups {
		if rank := groups[i].rank(i == chosen); rank < 3 {
			ranks[i], active = rank, append(active, i)
		}
	}
	for i := range groups {
		if ranks[i] == 0 && !slices.Contains(active, i) {
			ranks[i] = 3 + distance(active, i)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	all = all[:max(0, room)]
	slices.Sort(all)
	return all
}

func (g *Group) rank(chosen bool) int {
	switch {
	case chosen:
		return 0
	case g.State == batch.StateFailed:
		return 1
	case len(g.Counts) > 0 && g.State != batch.StateComplete:
		return 2
	}
	return 3
}

// distance is how far it is from a place to the next of some, 0 if there are none.
func distance(from []int, to int) int {
	if len(from) == 0 {
		return 0
	}
	least := -1
	for _, at := range from {
		if d := max(at-to, to-at); least < 0 || d < least {
			least = d
		}
	}
	return least
}
