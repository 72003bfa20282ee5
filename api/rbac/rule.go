package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// allows reports whether a rule covers a request, as PolicyRule of rbac.authorization.k8s.io/v1 documents: each of its
// lists has to, resourceNames only if there are any. The name of a request that creates or lists is empty, so that a
// rule with names covers none of those.
func allows(rule *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !either(rule.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool { return coversPath(url, a.GetPath()) })
	}
	return either(rule.APIGroups, a.GetAPIGroup()) && coversResource(rule.Resources, a.GetResource(), a.GetSubresource()) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// either reports whether a list has a value or the star, which stands for all.
func either(list []string, value string) bool {
	for _, v := range list {
		if v == value || v == rbacv1.VerbAll {
			return true
		}
	}
	return false
}

// coversResource reports whether a list of resources has one ("pods"), or a subresource ("pods/log", "*/log").
func coversResource(list []string, resource, subresource string) bool {
	wanted, ofAll := resource, ""
	if subresource != "" {
		wanted, ofAll = resource+"/"+subresource, "*/"+subresource
	}
	for _, r := range list {
		if r == wanted || r == rbacv1.ResourceAll || ofAll != "" && r == ofAll {
			return true
		}
	}
	return false
}

// coversPath reports whether a path is the one of a rule, or begins with what precedes the star at its end.
func coversPath(rule, path string) bool {
	if rule == path {
		return true
	}
	return strings.HasSuffix(rule, "*") && strings.HasPrefix(path, strings.TrimRight(rule, "*"))
}
