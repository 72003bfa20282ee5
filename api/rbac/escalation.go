package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Everything is what somebody has to hold who may do everything.
var Everything = []rbacv1.PolicyRule{
	{Verbs: []string{rbacv1.VerbAll}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}},
	{Verbs: []string{rbacv1.VerbAll}, NonResourceURLs: []string{rbacv1.NonResourceAll}},
}

const (
	// mostGrants bounds how many single permissions (a verb on a resource) are compared: the lists of a rule multiply, and
	// an object that fits into a request could stand for billions of them.
	mostGrants = 100_000
	// mostComparisons bounds how many of them are compared with how many rules, since somebody may hold roles of tens of
	// thousands of rules.
	mostComparisons = 10_000_000
	// mostDescribed bounds how many lines an error has.
	mostDescribed = 1000
)

// Escalation returns an error if somebody who holds some rules wants to grant others that these do not cover. unknown is
// what kept the rules that somebody holds from being complete, nil if they are.
func Escalation(who user.Info, holds, grants []rbacv1.PolicyRule, unknown error) error {
	if n := permissions(grants); n > mostGrants {
		return fmt.Errorf("the rules stand for more than %d permissions (groups, resources, verbs and names multiply), "+
			"which are too many to compare with those of user %q: grant them in several roles, or use *", mostGrants,
			who.GetName())
	}
	if n := permissions(grants) * comparisons(holds); n > mostComparisons {
		return fmt.Errorf("user %q holds %d rules, which are too many to compare with the permissions that the rules stand "+
			"for: grant them in several roles", who.GetName(), len(holds))
	}
	missing := uncovered(holds, grants)
	if len(missing) == 0 {
		return nil
	}
	lines := describe(missing)
	if n := len(lines) - mostDescribed; n > 0 {
		lines = append(lines[:mostDescribed], fmt.Sprintf("and %d more", n))
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		who.GetName(), who.GetGroups(), strings.Join(lines, "\n"))
	if unknown != nil {
		text += fmt.Sprintf("; resolution errors: [%v]", unknown)
	}
	return fmt.Errorf("%s", text)
}

// comparisons returns how much a single permission is compared with: each rule and, since they may end in a star, each path.
func comparisons(rules []rbacv1.PolicyRule) (n int) {
	for _, r := range rules {
		n += 1 + len(r.NonResourceURLs)
	}
	return n
}

// uncovered returns the single permissions of rules that others do not cover, as validation.Covers does, which makes a map of each list
// of each rule for each permission.
func uncovered(holds, grants []rbacv1.PolicyRule) (missing []rbacv1.PolicyRule) {
	held := make([]holding, 0, len(holds))
	for _, r := range holds {
		held = append(held, holding{
			verbs: setOf(r.Verbs), groups: setOf(r.APIGroups), resources: setOf(r.Resources), names: setOf(r.ResourceNames), urls: r.NonResourceURLs,
		})
	}
	for _, rule := range grants {
		for _, one := range validation.BreakdownRule(rule) {
			if !slices.ContainsFunc(held, func(h holding) bool { return h.covers(&one) }) {
				missing = append(missing, one)
			}
		}
	}
	return missing
}

// holding is a rule that somebody holds.
type holding struct {
	verbs, groups, resources, names sets.Set[string]
	urls                            []string
}

func setOf(list []string) sets.Set[string] { return sets.New(list...) }

// covers reports whether the rule has a single permission: one verb on one resource, of one name perhaps, or on one path.
func (h *holding) covers(one *rbacv1.PolicyRule) bool {
	if !h.verbs.Has(rbacv1.VerbAll) && !h.verbs.Has(one.Verbs[0]) {
		return false
	}
	if len(one.NonResourceURLs) > 0 {
		return h.names.Len() == 0 && slices.ContainsFunc(h.urls, func(url string) bool { return coversPath(url, one.NonResourceURLs[0]) })
	}
	resource := one.Resources[0]
	_, part, isPart := strings.Cut(resource, "/")
	return (h.groups.Has(rbacv1.APIGroupAll) || h.groups.Has(one.APIGroups[0])) &&
		(h.resources.Has(rbacv1.ResourceAll) || h.resources.Has(resource) || isPart && h.resources.Has("*/"+part)) &&
		(h.names.Len() == 0 || len(one.ResourceNames) > 0 && h.names.Has(one.ResourceNames[0]))
}

// permissions returns how many single permissions rules stand for. Beyond mostGrants it stops counting.
func permissions(rules []rbacv1.PolicyRule) (n int) {
	for _, r := range rules {
		of := 1
		for _, list := range [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs, r.Verbs} {
			if of *= max(len(list), 1); of > mostGrants {
				return of
			}
		}
		if n += of; n > mostGrants {
			return n
		}
	}
	return n
}

// describe returns rules as a cluster words them, in order. Rules for the same resource are put together; the rules have
// one verb each.
func describe(rules []rbacv1.PolicyRule) (lines []string) {
	var together []*rbacv1.PolicyRule
	found := map[string]*rbacv1.PolicyRule{} // by all but the verbs
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			together = append(together, &rule)
			continue
		}
		key := fmt.Sprintf("%q %q %q", rule.APIGroups, rule.Resources, rule.ResourceNames)
		if of := found[key]; of != nil {
			of.Verbs = append(of.Verbs, rule.Verbs...)
			continue
		}
		rule.Verbs = slices.Clone(rule.Verbs)
		found[key] = &rule
		together = append(together, &rule)
	}
	for _, rule := range together {
		var parts []string
		for _, part := range []struct {
			name string
			list []string
		}{
			{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"NonResourceURLs", rule.NonResourceURLs},
			{"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs},
		} {
			if len(part.list) > 0 {
				parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.list))
			}
		}
		lines = append(lines, "{"+strings.Join(parts, ", ")+"}")
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
