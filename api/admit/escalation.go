package admit

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/authorization"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/roles"
)

// Escalation lets nobody grant rights that they do not have themselves, by a role, by a binding, or by the annotation of
// a ServiceAccount, unless they may escalate the role or bind it.
type Escalation struct{ Access *authorization.Authorizer }

var _ admission.ValidationInterface = Escalation{}

func (Escalation) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

func (e Escalation) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	var refusal func() error
	switch o := a.GetObject().(type) {
	case *rbacv1.Role:
		refusal = func() error { return e.role(ctx, a, o.Rules, false) }
	case *rbacv1.ClusterRole:
		old, _ := a.GetOldObject().(*rbacv1.ClusterRole)
		refusal = func() error { return e.role(ctx, a, o.Rules, aggregates(o) || aggregates(old)) }
	case *rbacv1.RoleBinding:
		refusal = func() error { return e.binding(ctx, a, o.RoleRef) }
	case *rbacv1.ClusterRoleBinding:
		refusal = func() error { return e.binding(ctx, a, o.RoleRef) }
	case *corev1.ServiceAccount:
		old, _ := a.GetOldObject().(*corev1.ServiceAccount)
		refusal = func() error { return e.account(ctx, a, o, old) }
	default:
		return nil
	}
	if roles.Administers(a.GetUserInfo()) || onlyCollected(a.GetObject(), a.GetOldObject()) {
		return nil
	}
	err := refusal()
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsInternalError(err) {
		return err
	}
	name := a.GetName()
	if m, err := meta.Accessor(a.GetObject()); err == nil {
		name = m.GetName()
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), name, err)
}

// aggregates reports whether the rules of a role are those of others that it selects.
func aggregates(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

// onlyCollected reports whether an update changes nothing but what the removal of an object changes.
func onlyCollected(obj, old runtime.Object) bool {
	if old == nil {
		return false
	}
	now := obj.DeepCopyObject()
	m, err := meta.Accessor(now)
	if err != nil {
		return false
	}
	was, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	m.SetOwnerReferences(was.GetOwnerReferences())
	m.SetFinalizers(was.GetFinalizers())
	m.SetManagedFields(was.GetManagedFields())
	return equality.Semantic.DeepEqual(now, old)
}

// may reports whether the client may do something with a role: escalate or bind it.
func (e Escalation) may(
	ctx context.Context, a admission.Attributes, verb, resource, name string,
) (bool, error) {
	decision, _, err := e.Access.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: verb, APIGroup: rbacv1.GroupName, APIVersion: roles.Anything, Resource: resource,
		Namespace: a.GetNamespace(), Name: name, ResourceRequest: true,
	})
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return decision == authorizer.DecisionAllow, nil
}

// covered returns an error unless the client has the rights that rules grant.
func (e Escalation) covered(a admission.Attributes, rules []rbacv1.PolicyRule) error {
	held, incomplete, err := e.Access.RulesHeld(a.GetUserInfo(), a.GetNamespace())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return rbac.Escalation(a.GetUserInfo(), held, rules, incomplete)
}

// role decides about the rules of a role. An aggregationRule can gather any rules, also some that do not exist yet.
func (e Escalation) role(ctx context.Context, a admission.Attributes, rules []rbacv1.PolicyRule, aggregates bool) error {
	name := ""
	if info, ok := request.RequestInfoFrom(ctx); ok {
		name = info.Name // as the request has it: none in one that creates
	}
	if may, err := e.may(ctx, a, "escalate", a.GetResource().Resource, name); err != nil || may {
		return err
	}
	if err := e.covered(a, rules); err != nil {
		return err
	}
	if !aggregates {
		return nil
	}
	if err := e.covered(a, rbac.Everything); err != nil {
		if apierrors.IsInternalError(err) {
			return err
		}
		return errors.New("must have cluster-admin privileges to use the aggregationRule")
	}
	return nil
}

// binding decides about a binding to a role, which has to exist unless the client may bind it.
func (e Escalation) binding(ctx context.Context, a admission.Attributes, role rbacv1.RoleRef) error {
	resource := "roles"
	if role.Kind == "ClusterRole" {
		resource = "clusterroles"
	}
	if may, err := e.may(ctx, a, "bind", resource, role.Name); err != nil || may {
		return err
	}
	var rules []rbacv1.PolicyRule
	var missing error
	if err := e.Access.Policy(func(p *rbac.Policy) {
		rules, missing = p.RulesOf(role, a.GetNamespace())
	}); err != nil {
		return apierrors.NewInternalError(err)
	}
	if missing != nil {
		return missing
	}
	return e.covered(a, rules)
}

// account decides about the annotation that grants a ServiceAccount a role of jobd, which counts as a binding to the
// ClusterRole of that role.
func (e Escalation) account(ctx context.Context, a admission.Attributes, account, old *corev1.ServiceAccount) error {
	name := account.Annotations[core.RoleAnnotation]
	if name == "" || old != nil && old.Annotations[core.RoleAnnotation] == name {
		return nil
	}
	if may, err := e.may(ctx, a, "bind", "clusterroles", "jobd:"+name); err != nil || may {
		return err
	}
	err := e.covered(a, e.Access.RoleRules()[name])
	if err == nil || apierrors.IsInternalError(err) {
		return err
	}
	return fmt.Errorf("metadata.annotations[%s]: %w", core.RoleAnnotation, err)
}
