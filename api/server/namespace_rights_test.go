package server

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRightsOfANamespaceAreBounded(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	role := func(name string, names int) *rbacv1.Role {
		r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"},
		}}}
		for i := range names - 4 { // the rule and three lists are four
			r.Rules[0].ResourceNames = append(r.Rules[0].ResourceNames, fmt.Sprint("n", i))
		}
		return r
	}
	binding := func(name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r0"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "x", Namespace: "default"}},
		}
	}
	roles, bindings := c.RbacV1().Roles("default"), c.RbacV1().RoleBindings("default")
	for i := range 9 {
		mustMake(t, roles, role(fmt.Sprint("r", i), 5000))
	}
	last := mustMake(t, roles, role("last", 4997))
	mustMake(t, bindings, binding("a"))
	const says = "may not come to more than 50000 together"
	if _, err := bindings.Create(t.Context(), binding("b"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("one more: %v", err)
	}
	last.Rules = role("last", 5000).Rules
	if _, err := roles.Update(t.Context(), last, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a larger one: %v", err)
	}
	last.Rules = role("last", 4990).Rules
	if _, err := roles.Update(t.Context(), last, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a smaller one: %v", err)
	}
	mustMake(t, bindings, binding("b"))
}
