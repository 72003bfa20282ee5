package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Policy is what all roles and bindings together allow. It finds the bindings of somebody without a look at those of
// others. The caller serializes changes (Put, Delete) with everything else. NewPolicy makes one.
type Policy struct {
	roles    map[object][]rbacv1.PolicyRule // of Roles and, without a namespace, of ClusterRoles
	bindings map[object]*Binding            // RoleBindings and, without a namespace, ClusterRoleBindings
	// granted has the bindings by whom they name and by their namespaces, in the order of their names.
	granted map[subject]map[string][]*Binding
	sizes   map[string]int // of the Roles and RoleBindings of each namespace
}

type object struct{ namespace, name string }

// subject is a user or a group. A ServiceAccount is the user of its name.
type subject struct {
	name  string
	group bool
}

// Binding is a RoleBinding or, without a namespace, a ClusterRoleBinding.
type Binding struct {
	Namespace, Name string
	Role            rbacv1.RoleRef
	Subjects        []rbacv1.Subject
}

// NewPolicy returns a policy without roles and bindings, which allows nothing.
func NewPolicy() *Policy {
	return &Policy{
		roles: map[object][]rbacv1.PolicyRule{}, bindings: map[object]*Binding{}, granted: map[subject]map[string][]*Binding{},
		sizes: map[string]int{},
	}
}

// Put adds or replaces an object of one of the four kinds. The policy keeps its rules and subjects.
func (p *Policy) Put(obj metav1.Object) {
	key := object{obj.GetNamespace(), obj.GetName()}
	switch o := obj.(type) {
	case *rbacv1.Role:
		p.define(key, o.Rules)
	case *rbacv1.ClusterRole:
		p.define(key, o.Rules)
	case *rbacv1.RoleBinding:
		p.bind(key, &Binding{key.namespace, key.name, o.RoleRef, o.Subjects})
	case *rbacv1.ClusterRoleBinding:
		p.bind(key, &Binding{"", key.name, o.RoleRef, o.Subjects})
	}
}

// Delete removes an object of one of the four kinds, as Put had it.
func (p *Policy) Delete(obj metav1.Object) {
	key := object{obj.GetNamespace(), obj.GetName()}
	switch obj.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole:
		p.define(key, nil)
		delete(p.roles, key)
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		p.unbind(key)
	}
}

func (p *Policy) define(key object, rules []rbacv1.PolicyRule) {
	p.grow(key.namespace, sizeOfRules(rules)-sizeOfRules(p.roles[key]))
	p.roles[key] = rules
}

func (p *Policy) grow(namespace string, by int) {
	if p.sizes[namespace] += by; p.sizes[namespace] == 0 {
		delete(p.sizes, namespace)
	}
}

// Size returns what the Roles and RoleBindings of a namespace come to together.
func (p *Policy) Size(namespace string) int { return p.sizes[namespace] }

func (p *Policy) bind(key object, b *Binding) {
	p.unbind(key)
	p.bindings[key] = b
	p.grow(key.namespace, sizeOfSubjects(b.Subjects))
	for _, s := range b.indexed() {
		of := p.granted[s]
		if of == nil {
			of = map[string][]*Binding{}
			p.granted[s] = of
		}
		i, _ := slices.BinarySearchFunc(of[b.Namespace], b.Name, byName)
		of[b.Namespace] = slices.Insert(of[b.Namespace], i, b)
	}
}

func (p *Policy) unbind(key object) {
	b := p.bindings[key]
	if b == nil {
		return
	}
	delete(p.bindings, key)
	p.grow(key.namespace, -sizeOfSubjects(b.Subjects))
	for _, s := range b.indexed() {
		of := p.granted[s]
		list := of[b.Namespace]
		if i, ok := slices.BinarySearchFunc(list, b.Name, byName); ok {
			list = slices.Delete(list, i, i+1)
		}
		if of[b.Namespace] = list; len(list) == 0 {
			delete(of, b.Namespace)
		}
		if len(of) == 0 {
			delete(p.granted, s)
		}
	}
}

func byName(b *Binding, name string) int { return strings.Compare(b.Name, name) }

// indexed returns whom a binding grants its role to, each once.
func (b *Binding) indexed() (all []subject) {
	seen := make(map[subject]bool, len(b.Subjects))
	for _, s := range b.Subjects {
		if is, ok := b.subject(s); ok && !seen[is] {
			seen[is] = true
			all = append(all, is)
		}
	}
	return all
}

// subject returns whom a subject of a binding means. The namespace of a ServiceAccount in a RoleBinding is that of the
// binding if it names none.
func (b *Binding) subject(s rbacv1.Subject) (subject, bool) {
	is := subject{name: s.Name, group: s.Kind == rbacv1.GroupKind}
	if s.Kind == rbacv1.ServiceAccountKind {
		namespace := cmp.Or(s.Namespace, b.Namespace)
		if namespace == "" {
			return is, false
		}
		is.name = serviceaccount.MakeUsername(namespace, s.Name)
	}
	return is, true
}

// visit calls fn for each binding that concerns somebody's requests in a namespace ("" for what is in none), until fn
// returns false. A binding that names several of somebody's groups comes up once for each. to is the one that it names.
func (p *Policy) visit(who user.Info, namespace string, fn func(b *Binding, to subject) bool) {
	namespaces := []string{"", namespace}
	if namespace == "" {
		namespaces = namespaces[:1]
	}
	for _, in := range namespaces {
		one := subject{name: who.GetName()}
		for _, b := range p.granted[one][in] {
			if !fn(b, one) {
				return
			}
		}
		for _, group := range who.GetGroups() {
			one = subject{name: group, group: true}
			for _, b := range p.granted[one][in] {
				if !fn(b, one) {
					return
				}
			}
		}
	}
}

// Allowed reports whether a request is allowed, and by what; if not, which bindings lack their role.
func (p *Policy) Allowed(a authorizer.Attributes) (ok bool, reason string) {
	if a.GetUser() == nil {
		return false, ""
	}
	var missing []error
	var seen once
	p.visit(a.GetUser(), a.GetNamespace(), func(b *Binding, to subject) bool {
		if !seen.first(b) {
			return true
		}
		rules, err := p.RulesOf(b.Role, b.Namespace)
		if err != nil {
			if len(missing) < mostMissing {
				missing = append(missing, b.lacksRole())
			}
			return true
		}
		for i := range rules {
			if allows(&rules[i], a) {
				ok, reason = true, "RBAC: allowed by "+b.describe(to)
				return false
			}
		}
		return true
	})
	if !ok && len(missing) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(missing))
	}
	return ok, reason
}

// lacksRole returns the error that the role of a binding does not exist, in the words of a cluster's authorizer.
func (b *Binding) lacksRole() error {
	return apierrors.NewNotFound(rbacv1.Resource(strings.ToLower(b.Role.Kind)), b.Role.Name)
}

// describe names a binding, its role and the one that it grants the role to, as a cluster does.
func (b *Binding) describe(to subject) string {
	whom := ""
	for _, s := range b.Subjects {
		if is, ok := b.subject(s); ok && is == to {
			whom = fmt.Sprintf("%s %q", s.Kind, s.Name)
			if s.Kind == rbacv1.ServiceAccountKind {
				whom = fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+cmp.Or(s.Namespace, b.Namespace))
			}
			break
		}
	}
	return fmt.Sprintf("%s of %s %q to %s", b.Text(), b.Role.Kind, b.Role.Name, whom)
}

// Text names a binding as a cluster does.
func (b *Binding) Text() string {
	if b.Namespace == "" {
		return fmt.Sprintf("ClusterRoleBinding %q", b.Name)
	}
	return fmt.Sprintf("RoleBinding %q", b.Name+"/"+b.Namespace)
}

// Bindings returns the bindings that concern somebody's requests in a namespace ("" for what is in none), each once.
func (p *Policy) Bindings(who user.Info, namespace string) (all []*Binding) {
	seen := map[*Binding]bool{}
	p.visit(who, namespace, func(b *Binding, _ subject) bool {
		if !seen[b] {
			seen[b] = true
			all = append(all, b)
		}
		return true
	})
	return all
}

// mostMissing is how many roles that do not exist are named.
const mostMissing = 10

// once tells the roles of bindings that have come up from those that have not: very many bindings can be to one role, which may have
// very many rules.
type once struct {
	last object
	seen map[object]bool // nil until the second role
}

// first reports whether a binding is the first to its role.
func (o *once) first(b *Binding) bool {
	key := b.role()
	switch {
	case key == o.last:
		return false
	case o.last == object{}:
	case o.seen == nil:
		o.seen = map[object]bool{o.last: true, key: true}
	case o.seen[key]:
		return false
	default:
		o.seen[key] = true
	}
	o.last = key
	return true
}

// role returns where the role of a binding is, if it exists. A ClusterRoleBinding to a Role has none.
func (b *Binding) role() object {
	if b.Role.Kind == "ClusterRole" {
		return object{"", b.Role.Name}
	}
	return object{cmp.Or(b.Namespace, "/"), b.Role.Name} // no namespace has that name
}

// Everywhere returns the bindings that grant somebody a role, in whichever namespace.
func (p *Policy) Everywhere(who user.Info) (all []*Binding) {
	add := func(s subject) {
		for _, bindings := range p.granted[s] {
			all = append(all, bindings...)
		}
	}
	add(subject{name: who.GetName()})
	for _, group := range who.GetGroups() {
		add(subject{name: group, group: true})
	}
	slices.SortFunc(all, func(a, b *Binding) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(all)
}

// Rules returns the rules of all roles that somebody has in a namespace ("" for what is in none), those of each role once. Bindings
// whose role does not exist grant nothing; err names some of these roles.
func (p *Policy) Rules(who user.Info, namespace string) (rules []rbacv1.PolicyRule, err error) {
	var missing []error
	var seen once
	for _, b := range p.Bindings(who, namespace) {
		if !seen.first(b) {
			continue
		}
		of, err := p.RulesOf(b.Role, b.Namespace)
		if err != nil {
			if len(missing) < mostMissing {
				missing = append(missing, b.lacksRole())
			}
			continue
		}
		rules = append(rules, of...)
	}
	return rules, utilerrors.NewAggregate(missing)
}

// RulesOf returns the rules of the role that a binding in a namespace ("" for a ClusterRoleBinding) refers to. Without
// such a role it fails with the API's error NotFound.
func (p *Policy) RulesOf(role rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	key, resource := object{namespace, role.Name}, "roles"
	if role.Kind == "ClusterRole" {
		key.namespace, resource = "", "clusterroles"
	}
	rules, ok := p.roles[key]
	if !ok || resource == "roles" && namespace == "" {
		return nil, apierrors.NewNotFound(rbacv1.Resource(resource), role.Name)
	}
	return rules, nil
}
