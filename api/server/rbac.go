package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// rights keeps what roles and bindings allow in step with the store: each decision takes in what has been written
// before it, so that a right ends with the answer to the request that deletes its binding.
type rights struct {
	store *store.Store

	mu     sync.RWMutex // held for writing to take in changes
	policy *rbac.Policy // nil before the first decision
	at     uint64       // version of the store that policy is of
}

// manyChanges is from how many changes on it is cheaper to read all roles and bindings again than to look at what has
// changed.
const manyChanges = 4096

// read calls fn with the policy. fn must not keep it.
func (r *rights) read(fn func(*rbac.Policy)) error {
	r.mu.RLock()
	if r.policy != nil && r.at == r.store.Version() {
		defer r.mu.RUnlock()
		fn(r.policy)
		return nil
	}
	r.mu.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.follow(); err != nil {
		return fmt.Errorf("read roles and bindings: %w", err)
	}
	fn(r.policy)
	return nil
}

// follow takes in what has been written since the last time.
func (r *rights) follow() error {
	return r.store.View(func(s *store.Snapshot) (err error) {
		if r.policy != nil && s.Version()-r.at <= manyChanges {
			changed := s.Changes(r.at, func(c store.Change) bool {
				err = r.fold(c)
				return err == nil
			})
			if err == nil && changed == nil {
				r.at = s.Version()
				return nil
			}
			if err == nil && !errors.Is(changed, store.ErrCompacted) {
				err = changed
			}
			if err != nil {
				r.policy = nil // it may have taken in a part
				return err
			}
		}
		policy := rbac.NewPolicy()
		for resource := range rbacTypes {
			s.Range(resource+"/", "", func(o store.Object) bool {
				var obj rbacObject
				if obj, err = decodeRBAC(o); err == nil {
					policy.Put(obj)
				}
				return err == nil
			})
			if err != nil {
				return err
			}
		}
		r.policy, r.at = policy, s.Version()
		return nil
	})
}

func (r *rights) fold(c store.Change) error {
	resource, _, _ := strings.Cut(c.Object.Key, "/")
	if rbacTypes[resource] == nil {
		return nil
	}
	obj, err := decodeRBAC(c.Object)
	if err != nil {
		return err
	}
	if c.Deleted {
		r.policy.Delete(obj)
	} else {
		r.policy.Put(obj)
	}
	return nil
}

type rbacObject interface {
	runtime.Object
	metav1.Object
}

// rbacTypes makes empty objects of the four kinds, by the resource with which their keys begin.
var rbacTypes = map[string]func() rbacObject{
	rbac.Roles:               func() rbacObject { return &rbacv1.Role{} },
	rbac.ClusterRoles:        func() rbacObject { return &rbacv1.ClusterRole{} },
	rbac.RoleBindings:        func() rbacObject { return &rbacv1.RoleBinding{} },
	rbac.ClusterRoleBindings: func() rbacObject { return &rbacv1.ClusterRoleBinding{} },
}

func decodeRBAC(o store.Object) (rbacObject, error) {
	resource, _, _ := strings.Cut(o.Key, "/")
	obj := rbacTypes[resource]()
	if err := scheme.Decode(o.Value, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return obj, nil
}

// authorizeByBinding allows what the roles allow that bindings grant to the client.
func (s *Server) authorizeByBinding(a authorizer.Attributes) (decision authorizer.Decision, reason string, err error) {
	decision = authorizer.DecisionNoOpinion
	err = s.rights.read(func(p *rbac.Policy) {
		var ok bool
		if ok, reason = p.Allowed(a); ok {
			decision = authorizer.DecisionAllow
		}
	})
	return decision, reason, err
}

// rulesHeld returns the rules that cover what somebody may do in a namespace ("" for what is in none) by roles of any
// sort. incomplete says which bindings refer to roles that do not exist.
func (s *Server) rulesHeld(who user.Info, namespace string) (rules []rbacv1.PolicyRule, incomplete, err error) {
	if administers(who) {
		return rbac.Everything, nil, nil
	}
	roles, err := s.rolesOf(who)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range roles {
		switch {
		case r == role{name: core.RoleAdmin}:
			return rbac.Everything, nil, nil
		case r.namespace == "" || r.namespace == namespace:
			rules = append(rules, s.roleRules[r.name]...)
		}
	}
	err = s.rights.read(func(p *rbac.Policy) {
		var bound []rbacv1.PolicyRule
		bound, incomplete = p.Rules(who, namespace)
		rules = append(rules, bound...)
	})
	return rules, incomplete, err
}

// rulesOfRoles returns the rules that stand for each of jobd's roles in one namespace, found by asking the roles about
// what is served. Those of the role admin include the ClusterRole admin, which also covers what is not served: it may
// grant that to the accounts of manifests as they are written for clusters.
func rulesOfRoles(served []endpoint) (map[string][]rbacv1.PolicyRule, error) {
	const namespace = "any"
	rules := map[string][]rbacv1.PolicyRule{}
	for _, name := range []string{core.RoleRead, core.RoleSubmit, core.RoleAdmin} {
		of := role{name, namespace}
		var found []rbacv1.PolicyRule
		for _, e := range served {
			resource, subresource, _ := strings.Cut(e.Resource, "/")
			a := authorizer.AttributesRecord{
				ResourceRequest: true, APIGroup: e.Group, Resource: resource, Subresource: subresource,
			}
			if e.namespaced || resource == "namespaces" {
				a.Namespace = namespace
			}
			var verbs []string
			for _, a.Verb = range append(slices.Clone(e.verbs), "impersonate") {
				if of.allows(a) && (a.Verb != "impersonate" || e.Resource == "serviceaccounts") {
					verbs = append(verbs, a.Verb)
				}
			}
			if len(verbs) == 0 {
				continue
			}
			i := slices.IndexFunc(found, func(r rbacv1.PolicyRule) bool {
				return r.APIGroups[0] == e.Group && slices.Equal(r.Verbs, verbs)
			})
			if i < 0 {
				found = append(found, rbacv1.PolicyRule{APIGroups: []string{e.Group}, Verbs: verbs})
				i = len(found) - 1
			}
			found[i].Resources = append(found[i].Resources, e.Resource)
		}
		rules[name] = found
	}
	admin, err := rbac.DefaultRules("admin")
	rules[core.RoleAdmin] = append(rules[core.RoleAdmin], admin...)
	return rules, err
}

// createRoles makes the roles and bindings that every cluster has, and adds what is missing in them.
func (s *Server) createRoles() error {
	roles, bindings, err := rbac.Defaults(s.roleRules, adminGroup)
	if err != nil {
		return fmt.Errorf("the default roles: %w", err)
	}
	var missing []rbacObject
	if err := s.config.Store.View(func(sn *store.Snapshot) (err error) {
		missing, err = lackingRoles(sn, roles, bindings)
		return err
	}); err != nil || len(missing) == 0 {
		return err
	}
	err = s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		missing, err := lackingRoles(tx.Snapshot, roles, bindings)
		if err != nil {
			return err
		}
		for _, obj := range missing {
			if obj.GetUID() == "" {
				obj.SetUID(uuid.NewUUID())
				obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
			}
			obj.SetResourceVersion("")
			value, err := scheme.Encode(obj)
			if err != nil {
				return err
			}
			resource := rbac.ClusterRoles
			if _, ok := obj.(*rbacv1.ClusterRoleBinding); ok {
				resource = rbac.ClusterRoleBindings
			}
			tx.Put(store.Object{Key: store.Key(resource, "", obj.GetName()), UID: string(obj.GetUID()), Value: value})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the default roles: %w", err)
	}
	return nil
}

// lackingRoles returns the default roles and bindings that are not stored, and those that are stored with what they
// lack.
func lackingRoles(
	s *store.Snapshot, roles []*rbacv1.ClusterRole, bindings []*rbacv1.ClusterRoleBinding,
) (lacking []rbacObject, err error) {
	for _, wanted := range roles {
		o, ok := s.Get(store.Key(rbac.ClusterRoles, "", wanted.Name))
		if !ok {
			lacking = append(lacking, wanted.DeepCopy())
			continue
		}
		stored := &rbacv1.ClusterRole{}
		if err := scheme.Decode(o.Value, stored); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Key, err)
		}
		if rbac.Reconcile(stored, wanted) {
			lacking = append(lacking, stored)
		}
	}
	for _, wanted := range bindings {
		o, ok := s.Get(store.Key(rbac.ClusterRoleBindings, "", wanted.Name))
		if !ok {
			lacking = append(lacking, wanted.DeepCopy())
			continue
		}
		stored := &rbacv1.ClusterRoleBinding{}
		if err := scheme.Decode(o.Value, stored); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Key, err)
		}
		if rbac.ReconcileBinding(stored, wanted) {
			lacking = append(lacking, stored)
		}
	}
	return lacking, nil
}

// anonymousWhereBound authenticates requests without credentials as system:anonymous where a binding allows that user,
// or the group system:unauthenticated, what they ask for. Elsewhere credentials are asked for.
func (s *Server) anonymousWhereBound() authenticator.Request {
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

// lacksRights says that nothing grants rights to a ServiceAccount, and how to grant some. It is empty for everybody else,
// and if the account has a role of jobd or a binding of any namespace grants it one.
func (s *Server) lacksRights(who user.Info) (text string, err error) {
	if who == nil {
		return "", nil
	}
	namespace, name, err := serviceaccount.SplitUsername(who.GetName())
	if err != nil {
		return "", nil // not an account
	}
	if roles, err := s.rolesOf(who); err != nil || len(roles) > 0 {
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
