// Package rbac holds the rules of rbac.authorization.k8s.io/v1: Role, ClusterRole, RoleBinding and ClusterRoleBinding,
// as the descriptions of their kinds; what they allow (Policy), which rights somebody may hand on (Escalation), what
// aggregated ClusterRoles consist of (Aggregate), and which roles and bindings there are from the first start on
// (Defaults). All of them touch nothing but their arguments.
package rbac

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

// Resources of the four kinds, as keys of the store begin with them.
const (
	Roles               = "roles." + rbacv1.GroupName
	RoleBindings        = "rolebindings." + rbacv1.GroupName
	ClusterRoles        = "clusterroles." + rbacv1.GroupName
	ClusterRoleBindings = "clusterrolebindings." + rbacv1.GroupName
)

// RoleKind describes rbac.authorization.k8s.io/v1 Roles.
func RoleKind() *kind.Kind {
	return kind.Of[rbacv1.Role, rbacv1.RoleList](kind.Description[*rbacv1.Role]{
		GroupVersion: rbacv1.SchemeGroupVersion,
		Name:         "Role",
		Namespaced:   true,
		Columns:      roleColumns(),
		Cells: func(r *rbacv1.Role, _ time.Time) []any {
			return []any{r.Name, r.CreationTimestamp.UTC().Format(time.RFC3339)}
		},
		Rules: kind.Rules[*rbacv1.Role]{
			Check: validateRole, CheckUpdate: validateRoleUpdate, CreateOnPut: true,
		},
	})
}

// ClusterRoleKind describes rbac.authorization.k8s.io/v1 ClusterRoles.
func ClusterRoleKind() *kind.Kind {
	return kind.Of[rbacv1.ClusterRole, rbacv1.ClusterRoleList](kind.Description[*rbacv1.ClusterRole]{
		GroupVersion: rbacv1.SchemeGroupVersion,
		Name:         "ClusterRole",
		Columns:      roleColumns(),
		Cells: func(r *rbacv1.ClusterRole, _ time.Time) []any {
			return []any{r.Name, r.CreationTimestamp.UTC().Format(time.RFC3339)}
		},
		Rules: kind.Rules[*rbacv1.ClusterRole]{
			Check: validateClusterRole, CheckUpdate: validateClusterRoleUpdate, CreateOnPut: true,
		},
	})
}

// roleColumns returns the columns of both kinds of roles, which show when they were created, as in a cluster.
func roleColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
	}
}

// RoleBindingKind describes rbac.authorization.k8s.io/v1 RoleBindings.
func RoleBindingKind() *kind.Kind {
	return kind.Of[rbacv1.RoleBinding, rbacv1.RoleBindingList](kind.Description[*rbacv1.RoleBinding]{
		GroupVersion: rbacv1.SchemeGroupVersion,
		Name:         "RoleBinding",
		Namespaced:   true,
		Default:      func(b *rbacv1.RoleBinding) { setBindingDefaults(&b.RoleRef, b.Subjects) },
		Columns:      bindingColumns(rbacv1.RoleBinding{}.SwaggerDoc()),
		Cells: func(b *rbacv1.RoleBinding, now time.Time) []any {
			return bindingCells(&b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
		Rules: kind.Rules[*rbacv1.RoleBinding]{
			Check: validateRoleBinding, CheckUpdate: validateRoleBindingUpdate, CreateOnPut: true,
		},
	})
}

// ClusterRoleBindingKind describes rbac.authorization.k8s.io/v1 ClusterRoleBindings.
func ClusterRoleBindingKind() *kind.Kind {
	return kind.Of[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](kind.Description[*rbacv1.ClusterRoleBinding]{
		GroupVersion: rbacv1.SchemeGroupVersion,
		Name:         "ClusterRoleBinding",
		Default:      func(b *rbacv1.ClusterRoleBinding) { setBindingDefaults(&b.RoleRef, b.Subjects) },
		Columns:      bindingColumns(rbacv1.ClusterRoleBinding{}.SwaggerDoc()),
		Cells: func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
			return bindingCells(&b.ObjectMeta, b.RoleRef, b.Subjects, now)
		},
		Rules: kind.Rules[*rbacv1.ClusterRoleBinding]{
			Check: validateClusterRoleBinding, CheckUpdate: validateClusterRoleBindingUpdate, CreateOnPut: true,
		},
	})
}

// setBindingDefaults fills in the API groups that a manifest left out.
func setBindingDefaults(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if role.APIGroup == "" {
		role.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		s := &subjects[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func bindingColumns(doc map[string]string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		kind.NameColumn(),
		{Name: "Role", Type: "string", Description: doc["roleRef"]},
		kind.AgeColumn(),
		{Name: "Users", Type: "string", Priority: 1, Description: "Users that the role is granted to."},
		{Name: "Groups", Type: "string", Priority: 1, Description: "Groups that the role is granted to."},
		{Name: "ServiceAccounts", Type: "string", Priority: 1, Description: "ServiceAccounts that the role is granted to."},
	}
}

func bindingCells(m *metav1.ObjectMeta, role rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
	named := map[string][]string{}
	for _, s := range subjects {
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			name = s.Namespace + "/" + s.Name
		}
		named[s.Kind] = append(named[s.Kind], name)
	}
	list := func(kind string) string { return strings.Join(named[kind], ", ") }
	return []any{
		m.Name, role.Kind + "/" + role.Name, core.Age(m.CreationTimestamp, now),
		list(rbacv1.UserKind), list(rbacv1.GroupKind), list(rbacv1.ServiceAccountKind),
	}
}
