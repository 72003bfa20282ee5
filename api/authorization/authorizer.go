// Package authorization decides what clients may do, by jobd's own roles, by the roles of the API that bindings grant, and by
// whom else is asked, and answers their questions about that. It reads roles and bindings from the store and writes nothing.
package authorization

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// Authorizer decides what clients may do: by their roles of jobd, by the roles of the API that bindings grant, and at last by
// another authorizer.
type Authorizer struct {
	store *store.Store
	next  authorizer.UnconditionalAuthorizer // nil: there is none
	// rights are what roles and bindings allow; roleRules are the rules that stand for jobd's own roles, by their names.
	rights    *rights
	roleRules map[string][]rbacv1.PolicyRule
	// served lists all that is served, in order.
	served []endpoint
}

// New makes one, to which Serve tells what is served before it is asked. next is asked about requests that no role covers;
// nil if there is nobody to be asked.
func New(s *store.Store, next authorizer.UnconditionalAuthorizer) *Authorizer {
	return &Authorizer{store: s, next: next, rights: &rights{store: s}}
}

// Serve adds a resource, or a part of one, to what permissions are asked for. whole is the storage of the resource.
func (s *Authorizer) Serve(resource schema.GroupResource, whole, served rest.Storage) {
	s.served = append(s.served, newEndpoint(resource, whole, served))
}

// Ready learns the rules of jobd's roles from what is served.
func (s *Authorizer) Ready() (err error) {
	s.roleRules, err = rulesOfRoles(s.served)
	return err
}

// RoleRules returns the rules that stand for each of jobd's roles, by its name.
func (s *Authorizer) RoleRules() map[string][]rbacv1.PolicyRule { return s.roleRules }

// Policy calls fn with what roles and bindings of the API allow now. fn must not keep it.
func (s *Authorizer) Policy(fn func(*rbac.Policy)) error { return s.rights.read(fn) }

// Authorize allows what a role of jobd or a binding to a role of the API allows, and asks the authorizer of the
// configuration about the rest.
func (s *Authorizer) Authorize(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := s.authorizeByRole(ctx, attr)
	if err != nil || decision != authorizer.DecisionNoOpinion {
		return decision, reason, err
	}
	decision, reason, err = s.authorizeByBinding(attr)
	if err == nil && decision == authorizer.DecisionNoOpinion && s.next != nil {
		var said string
		decision, said, err = s.next.Authorize(ctx, attr)
		reason = cmp.Or(said, reason)
	}
	if err != nil || decision != authorizer.DecisionNoOpinion {
		return decision, reason, err
	}
	lacks, err := s.LacksRights(attr.GetUser())
	return decision, cmp.Or(lacks, reason), err
}

// rolesOf returns the roles of a client: those of its groups and, of a ServiceAccount, that of its annotation.
func (s *Authorizer) rolesOf(who user.Info) ([]roles.Role, error) {
	if who == nil {
		return nil, nil
	}
	var held []roles.Role
	for _, group := range who.GetGroups() {
		r, uid, ok := roles.OfGroup(group)
		if ok && uid != "" {
			now, err := NamespaceUID(s.store, r.Namespace)
			if err != nil {
				return nil, err
			}
			ok = uid == now
		}
		if ok {
			held = append(held, r)
		}
	}
	namespace, name, err := serviceaccount.SplitUsername(who.GetName())
	if err != nil {
		return held, nil
	}
	account, err := StoredAccount(s.store, namespace, name)
	if err != nil || account == nil {
		return held, err
	}
	if r, err := roles.New(account.Annotations[core.RoleAnnotation], namespace); err == nil {
		held = append(held, r)
	}
	return held, nil
}

// authorizeByRole allows administrators everything, and others what one of their roles covers.
func (s *Authorizer) authorizeByRole(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if roles.Administers(a.GetUser()) {
		return authorizer.DecisionAllow, "", nil
	}
	held, err := s.rolesOf(a.GetUser())
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	for _, r := range held {
		if r.Allows(a) {
			return authorizer.DecisionAllow, "role " + strings.TrimPrefix(r.Group(), roles.GroupPrefix), nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// authorizeByBinding allows what the roles allow that bindings grant to the client.
func (s *Authorizer) authorizeByBinding(a authorizer.Attributes) (decision authorizer.Decision, reason string, err error) {
	decision = authorizer.DecisionNoOpinion
	err = s.rights.read(func(p *rbac.Policy) {
		var ok bool
		if ok, reason = p.Allowed(a); ok {
			decision = authorizer.DecisionAllow
		}
	})
	return decision, reason, err
}

// RulesHeld returns the rules that cover what somebody may do in a namespace ("" for what is in none) by roles of any
// sort. incomplete says which bindings refer to roles that do not exist.
func (s *Authorizer) RulesHeld(who user.Info, namespace string) (rules []rbacv1.PolicyRule, incomplete, err error) {
	if roles.Administers(who) {
		return rbac.Everything, nil, nil
	}
	held, err := s.rolesOf(who)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range held {
		switch {
		case r == roles.Role{Name: core.RoleAdmin}:
			return rbac.Everything, nil, nil
		case r.Namespace == "" || r.Namespace == namespace:
			rules = append(rules, s.roleRules[r.Name]...)
		}
	}
	err = s.rights.read(func(p *rbac.Policy) {
		var bound []rbacv1.PolicyRule
		bound, incomplete = p.Rules(who, namespace)
		rules = append(rules, bound...)
	})
	return rules, incomplete, err
}

// AnonymousWhereBound authenticates requests without credentials as system:anonymous where a binding allows that user,
// or the group system:unauthenticated, what they ask for. Elsewhere credentials are asked for.
func (s *Authorizer) AnonymousWhereBound() authenticator.Request {
	nobody := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		a, err := apifilters.GetAuthorizerAttributes(request.WithUser(r.Context(), nobody))
		if err != nil {
			return nil, false, nil
		}
		decision, _, err := s.authorizeByBinding(a)
		return &authenticator.Response{User: nobody}, err == nil && decision == authorizer.DecisionAllow, err
	})
}

// LacksRights says that nothing grants rights to a ServiceAccount, and how to grant some. It is empty for everybody else,
// and if the account has a role of jobd or a binding of any namespace grants it one.
func (s *Authorizer) LacksRights(who user.Info) (text string, err error) {
	if who == nil {
		return "", nil
	}
	namespace, name, err := serviceaccount.SplitUsername(who.GetName())
	if err != nil {
		return "", nil // not an account
	}
	if held, err := s.rolesOf(who); err != nil || len(held) > 0 {
		return "", err
	}
	account := &user.DefaultInfo{
		Name:   who.GetName(),
		Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
	}
	err = s.rights.read(func(p *rbac.Policy) {
		text = fmt.Sprintf("no RoleBinding or ClusterRoleBinding names the ServiceAccount %q, so its token may do nothing: "+
			"kubectl create rolebinding NAME --clusterrole view --serviceaccount %s:%s --namespace %s",
			name, namespace, name, namespace)
		for _, b := range p.Everywhere(account) {
			if rbac.GrantsToAll(b) {
				continue
			}
			if _, missing := p.RulesOf(b.Role, b.Namespace); missing == nil {
				text = ""
				return
			}
			text = fmt.Sprintf("the %s does not exist, which the %s grants to the ServiceAccount %q, so its token may do "+
				"nothing", roleText(b), b.Text(), name)
		}
	})
	return text, err
}

// roleText names the role that a binding refers to.
func roleText(b *rbac.Binding) string {
	text := fmt.Sprintf("%s %q", b.Role.Kind, b.Role.Name)
	if b.Role.Kind == "Role" {
		text += fmt.Sprintf(" of the namespace %q", b.Namespace)
	}
	return text
}

// NamespaceUID returns the UID of a namespace, empty if there is none of that name.
func NamespaceUID(s *store.Store, name string) (uid string, err error) {
	err = s.View(func(snapshot *store.Snapshot) error {
		o, _ := snapshot.Get(store.Key("namespaces", "", name))
		uid = o.UID
		return nil
	})
	return uid, err
}

// StoredAccount returns a ServiceAccount, nil if there is none.
func StoredAccount(s *store.Store, namespace, name string) (account *corev1.ServiceAccount, err error) {
	err = s.View(func(snapshot *store.Snapshot) error {
		o, ok := snapshot.Get(store.Key("serviceaccounts", namespace, name))
		if !ok {
			return nil
		}
		account = &corev1.ServiceAccount{}
		return scheme.Decode(o.Value, account)
	})
	if err != nil {
		return nil, fmt.Errorf("serviceaccounts/%s/%s: %w", namespace, name, err)
	}
	return account, nil
}
