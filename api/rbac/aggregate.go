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
// each rule once. all are all ClusterRoles. It returns the roles that have changed, as copies.
func Aggregate(all []*rbacv1.ClusterRole) (changed []*rbacv1.ClusterRole, err error) {
	roles := slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int {
		return strings.Compare(a.Name, b.Name)
	})
	different := map[string]bool{}
	// What one role gathers another one may gather from it. Roles that select each other add to each other's rules until
	// there are no more to add.
	for again, rounds := true, 0; again && rounds <= len(roles); rounds++ {
		again = false
		for i, role := range roles {
			if role.AggregationRule == nil {
				continue
			}
			rules, err := gather(role, roles)
			if err != nil {
				return nil, err
			}
			if !equality.Semantic.DeepEqual(rules, role.Rules) {
				roles[i] = role.DeepCopy()
				roles[i].Rules = rules
				again, different[role.Name] = true, true
			}
		}
	}
	for _, role := range roles {
		if different[role.Name] {
			changed = append(changed, role)
		}
	}
	return changed, nil
}

// gather returns the rules of the roles that one selects. Roles are in the order of their names.
func gather(role *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, err error) {
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return nil, fmt.Errorf("ClusterRole %q: %w", role.Name, err)
		}
		for _, other := range roles {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if !contains(rules, rule) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}

func contains(rules []rbacv1.PolicyRule, rule rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) })
}
