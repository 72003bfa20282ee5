package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/core"
)

// groupPrefix is the prefix of the groups that carry a client's role: jobd:role:ROLE, or jobd:role:ROLE:NAMESPACE.
const groupPrefix = "jobd:role:"

// anything stands for all verbs, groups, resources or paths, in rules and in questions.
const anything = "*"

// role is what somebody may do, everywhere or in one namespace.
type role struct{ name, namespace string }

// newRole checks a role that a person has asked for.
func newRole(name, namespace string) (role, error) {
	if err := core.CheckRole(name); err != nil {
		return role{}, err
	}
	if namespace != "" && len(utilvalidation.IsDNS1123Label(namespace)) > 0 {
		return role{}, fmt.Errorf("%q cannot be the name of a namespace", namespace)
	}
	return role{name, namespace}, nil
}

// group returns the group that stands for the role in a client certificate.
func (r role) group() string {
	if r.namespace == "" {
		return groupPrefix + r.name
	}
	return groupPrefix + r.name + ":" + r.namespace
}

// submitted lists the resources that the role submit may write.
var submitted = map[string][]string{
	"":                    {"pods", "configmaps", "secrets", "services", "events", "persistentvolumeclaims"},
	"batch":               {"jobs", "cronjobs"},
	"events.k8s.io":       {"events"},
	"coordination.k8s.io": {"leases"},
	"scheduling.k8s.io":   {"workloads", "podgroups"},
}

// changing lists the verbs that change objects: not bind and escalate, by which roles are granted that somebody does not
// have.
var changing = []string{"create", "update", "patch", "delete", "deletecollection"}

// reaching lists the subresources that reach into the containers of a pod or the files of a claim, whatever the verb.
var reaching = []string{"exec", "attach", "portforward", "proxy", "files"}

// allows reports whether the role covers a request.
func (r role) allows(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return r.name == core.RoleAdmin && r.namespace == "" || a.IsReadOnly() && a.GetPath() == "/metrics" &&
			r.namespace == ""
	}
	if r.namespace != "" && a.GetNamespace() != r.namespace {
		return r.allowsBeside(a)
	}
	read := slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) &&
		!slices.Contains(reaching, a.GetSubresource())
	switch {
	case r.name == core.RoleAdmin:
		// Only those who may create namespaces may write the namespace itself, and what limits it. A question about all
		// resources includes them. What the role does not allow it cannot grant to others either.
		// Nor does a cluster's role of that name write the status of pods, which says what the node has found.
		return r.namespace == "" || read || !slices.Contains([]string{"namespaces", "limitranges", "resourcequotas", anything}, a.GetResource()) &&
			!(a.GetAPIGroup() == "" && a.GetResource() == "pods" && a.GetSubresource() == "status") &&
			(a.GetAPIGroup() != rbacv1.GroupName || slices.Contains(changing, a.GetVerb()))
	case r.name == core.RoleSubmit && slices.Contains(submitted[a.GetAPIGroup()], a.GetResource()):
		return a.GetSubresource() != "status" || read
	}
	return read && a.GetResource() != "secrets" && a.GetResource() != anything
}

// allowsBeside reports whether a role in one namespace may see something that is in none.
func (r role) allowsBeside(a authorizer.Attributes) bool {
	return a.GetNamespace() == "" && slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) &&
		slices.Contains([]string{"nodes", "priorityclasses", "runtimeclasses", "storageclasses", "customresourcedefinitions"},
			a.GetResource())
}

// rolesOf returns the roles of a client: those of its groups and, of a ServiceAccount, that of its annotation.
func (s *Server) rolesOf(who user.Info) ([]role, error) {
	if who == nil {
		return nil, nil
	}
	var roles []role
	for _, group := range who.GetGroups() {
		if said, ok := strings.CutPrefix(group, groupPrefix); ok {
			name, namespace, _ := strings.Cut(said, ":")
			if r, err := newRole(name, namespace); err == nil {
				roles = append(roles, r)
			}
		}
	}
	namespace, name, err := serviceaccount.SplitUsername(who.GetName())
	if err != nil {
		return roles, nil
	}
	account, err := storedAccount(s.config.Store, namespace, name)
	if err != nil || account == nil {
		return roles, err
	}
	if r, err := newRole(account.Annotations[core.RoleAnnotation], namespace); err == nil {
		roles = append(roles, r)
	}
	return roles, nil
}

// authorizeByRole allows administrators everything, and others what one of their roles covers.
func (s *Server) authorizeByRole(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if administers(a.GetUser()) {
		return authorizer.DecisionAllow, "", nil
	}
	roles, err := s.rolesOf(a.GetUser())
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	for _, r := range roles {
		if r.allows(a) {
			return authorizer.DecisionAllow, "role " + strings.TrimPrefix(r.group(), groupPrefix), nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}
