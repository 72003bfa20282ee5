package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate sets the rules of the ClusterRoles that have an aggregationRule: those of all ClusterRoles that it selects,
// each rule once. all are all ClusterRoles. It returns the roles that have changed, as copies. What they had before does
// not count, so that a rule which is gone stays in none of them, not even if they select each other.
func Aggregate(all []*rbacv1.ClusterRole) (changed []*rbacv1.ClusterRole, err error) {
	roles := make([]*gathering, len(all))
	for i, role := range all {
		roles[i] = &gathering{role: role}
		if role.AggregationRule == nil {
			roles[i].rules = identify(role.Rules)
		}
	}
	slices.SortFunc(roles, func(a, b *gathering) int { return strings.Compare(a.role.Name, b.role.Name) })
	var aggregated []*gathering
	for _, g := range roles {
		if g.role.AggregationRule == nil {
			continue
		}
		aggregated = append(aggregated, g)
		if g.from, err = selected(g.role, roles); err != nil {
			return nil, err
		}
	}
	// What one role gathers another one may gather from it. The rules have arrived everywhere after as many rounds as there
	// are such roles; only their order may go on to change, in those that select each other.
	for again, rounds := true, 0; again && rounds <= len(aggregated); rounds++ {
		again = false
		for _, g := range aggregated {
			again = g.gather() || again
		}
	}
	for _, g := range aggregated {
		var rules []rbacv1.PolicyRule
		for _, r := range g.rules {
			rules = append(rules, *r.PolicyRule)
		}
		if !equality.Semantic.DeepEqual(rules, g.role.Rules) {
			role := g.role.DeepCopy()
			role.Rules = rules
			changed = append(changed, role)
		}
	}
	return changed, nil
}

// gathering is a role with the rules that it gets.
type gathering struct {
	role  *rbacv1.ClusterRole
	from  []*gathering // that it selects, for each selector in the order of their names
	rules []identified
}

// identified is a rule with a text that equal rules share.
type identified struct {
	*rbacv1.PolicyRule
	id string
}

func identify(rules []rbacv1.PolicyRule) []identified {
	all := make([]identified, len(rules))
	for i := range rules {
		r := &rules[i]
		all[i] = identified{r, fmt.Sprintf("%q", [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs})}
	}
	return all
}

// gather sets the rules to those of the selected roles, and reports whether they have changed.
func (g *gathering) gather() bool {
	var rules []identified
	seen := map[string]bool{}
	for _, from := range g.from {
		for _, r := range from.rules {
			if !seen[r.id] {
				seen[r.id] = true
				rules = append(rules, r)
			}
		}
	}
	same := slices.EqualFunc(rules, g.rules, func(a, b identified) bool { return a.id == b.id })
	g.rules = rules
	return !same
}

// selected returns the roles that one selects. all are in the order of their names.
func selected(role *rbacv1.ClusterRole, all []*gathering) (from []*gathering, err error) {
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return nil, fmt.Errorf("ClusterRole %q: %w", role.Name, err)
		}
		for _, other := range all {
			if other.role != role && selector.Matches(labels.Set(other.role.Labels)) {
				from = append(from, other)
			}
		}
	}
	return from, nil
}
