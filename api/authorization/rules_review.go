package authorization

import (
	"cmp"
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/roles"
)

// ruledPaths lists the paths that a role of jobd covers. Only those who may do everything may request others by it.
var ruledPaths = []string{"/metrics"}

// WhatMayI answers what a client may do in a namespace (kubectl auth can-i --list): the rules of the roles that bindings
// grant, and what its roles of jobd allow. Those are asked for each endpoint, as for a request, so that no second set of
// rules has to agree with the first.
func (s *Authorizer) WhatMayI() *Review {
	return newReview("selfsubjectrulesreview", func(
		ctx context.Context, who user.Info, r *authorizationv1.SelfSubjectRulesReview,
	) error {
		if r.Spec.Namespace == "" {
			return apierrors.NewBadRequest("no namespace on request")
		}
		asks := asking{ctx: ctx, server: s, who: who, namespace: r.Spec.Namespace}
		r.Status.ResourceRules, r.Status.NonResourceRules = asks.resources(), asks.paths()
		if !roles.Administers(who) {
			asks.bound(&r.Status)
		}
		if asks.err != nil {
			r.Status.Incomplete, r.Status.EvaluationError = true, asks.err.Error()
		}
		return nil
	})
}

// asking finds out what a client may do in a namespace, and keeps the first error.
type asking struct {
	ctx       context.Context
	server    *Authorizer
	who       user.Info
	namespace string
	err       error
}

func (q *asking) may(a authorizer.AttributesRecord) bool {
	a.User = q.who
	decision, _, err := q.server.authorizeByRole(q.ctx, a)
	if q.err == nil {
		q.err = err
	}
	return decision == authorizer.DecisionAllow
}

// bound adds the rules of the roles that bindings grant.
func (q *asking) bound(to *authorizationv1.SubjectRulesReviewStatus) {
	var rules []rbacv1.PolicyRule
	var incomplete error
	err := q.server.rights.read(func(p *rbac.Policy) { rules, incomplete = p.Rules(q.who, q.namespace) })
	for _, r := range rules {
		if len(r.Resources) > 0 {
			to.ResourceRules = append(to.ResourceRules, authorizationv1.ResourceRule{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			})
		}
		if len(r.NonResourceURLs) > 0 {
			to.NonResourceRules = append(to.NonResourceRules,
				authorizationv1.NonResourceRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	q.err = cmp.Or(q.err, err, incomplete)
}

func (q *asking) resources() []authorizationv1.ResourceRule {
	all := []string{roles.Anything}
	if q.may(authorizer.AttributesRecord{
		ResourceRequest: true, Verb: roles.Anything, APIGroup: roles.Anything, Resource: roles.Anything, Namespace: q.namespace,
	}) {
		return []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}}
	}
	rules := []authorizationv1.ResourceRule{}
	for _, e := range q.server.served {
		resource, subresource, _ := strings.Cut(e.Resource, "/")
		a := authorizer.AttributesRecord{
			ResourceRequest: true, APIGroup: e.Group, Resource: resource, Subresource: subresource,
		}
		if e.namespaced {
			a.Namespace = q.namespace
		}
		verbs := q.verbs(e, a)
		rules = addRule(rules, e.GroupResource, verbs)
		if resource == "namespaces" {
			// A request for a namespace is one in it.
			a.Namespace, a.Name = q.namespace, q.namespace
			mine := slices.DeleteFunc(q.verbs(e, a), func(verb string) bool { return slices.Contains(verbs, verb) })
			rules = addRule(rules, e.GroupResource, mine, q.namespace)
		}
	}
	return rules
}

func (q *asking) verbs(of endpoint, a authorizer.AttributesRecord) (verbs []string) {
	for _, a.Verb = range of.verbs {
		if q.may(a) {
			verbs = append(verbs, a.Verb)
		}
	}
	return verbs
}

// addRule adds a resource to the rule of its group that has the same verbs and names, or a new one.
func addRule(
	rules []authorizationv1.ResourceRule, resource schema.GroupResource, verbs []string, names ...string,
) []authorizationv1.ResourceRule {
	if len(verbs) == 0 {
		return rules
	}
	for i, r := range rules {
		if r.APIGroups[0] == resource.Group && slices.Equal(r.Verbs, verbs) && slices.Equal(r.ResourceNames, names) {
			rules[i].Resources = append(r.Resources, resource.Resource)
			return rules
		}
	}
	return append(rules, authorizationv1.ResourceRule{
		Verbs: verbs, APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, ResourceNames: names,
	})
}

func (q *asking) paths() []authorizationv1.NonResourceRule {
	if q.may(authorizer.AttributesRecord{Verb: roles.Anything, Path: roles.Anything}) {
		return []authorizationv1.NonResourceRule{{Verbs: []string{roles.Anything}, NonResourceURLs: []string{roles.Anything}}}
	}
	rules := []authorizationv1.NonResourceRule{}
	var readable []string
	for _, path := range ruledPaths {
		if q.may(authorizer.AttributesRecord{Verb: "get", Path: path}) {
			readable = append(readable, path)
		}
	}
	if len(readable) > 0 {
		rules = append(rules, authorizationv1.NonResourceRule{Verbs: []string{"get"}, NonResourceURLs: readable})
	}
	return rules
}
