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
		Table:        kind.Columns[*rbacv1.Role]{kind.NameColumn[*rbacv1.Role](), kind.CreatedColumn[*rbacv1.Role]()},
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
		Table:        kind.Columns[*rbacv1.ClusterRole]{kind.NameColumn[*rbacv1.ClusterRole](), kind.CreatedColumn[*rbacv1.ClusterRole]()},
		Rules: kind.Rules[*rbacv1.ClusterRole]{
			Check: validateClusterRole, CheckUpdate: validateClusterRoleUpdate, CreateOnPut: true,
		},
	})
}

// RoleBindingKind describes rbac.authorization.k8s.io/v1 RoleBindings.
func RoleBindingKind() *kind.Kind {
	return kind.Of[rbacv1.RoleBinding, rbacv1.RoleBindingList](kind.Description[*rbacv1.RoleBinding]{
		GroupVersion: rbacv1.SchemeGroupVersion,
		Name:         "RoleBinding",
		Namespaced:   true,
		Default:      func(b *rbacv1.RoleBinding) { setBindingDefaults(&b.RoleRef, b.Subjects) },
		Table: bindingTable(rbacv1.RoleBinding{}.SwaggerDoc(), func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) {
			return b.RoleRef, b.Subjects
		}),
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
		Table: bindingTable(rbacv1.ClusterRoleBinding{}.SwaggerDoc(), func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) {
			return b.RoleRef, b.Subjects
		}),
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

// bindingTable is what kubectl prints of both kinds of bindings.
func bindingTable[T metav1.Object](doc map[string]string, parts func(T) (rbacv1.RoleRef, []rbacv1.Subject)) kind.Columns[T] {
	granted := func(name, subjects string) kind.Column[T] {
		return kind.Column[T]{Name: name, Priority: 1, Description: name + " that the role is granted to.", Cell: func(b T, _ time.Time) any {
			_, all := parts(b)
			return subjectNames(all, subjects)
		}}
	}
	return kind.Columns[T]{
		kind.NameColumn[T](),
		{Name: "Role", Description: doc["roleRef"], Cell: func(b T, _ time.Time) any {
			role, _ := parts(b)
			return role.Kind + "/" + role.Name
		}},
		kind.AgeColumn[T](),
		granted("Users", rbacv1.UserKind),
		granted("Groups", rbacv1.GroupKind),
		granted("ServiceAccounts", rbacv1.ServiceAccountKind),
	}
}

// subjectNames returns the names of the subjects of a kind: "ann, bob".
func subjectNames(subjects []rbacv1.Subject, kind string) string {
	var names []string
	for _, s := range subjects {
		switch {
		case s.Kind != kind:
		case kind == rbacv1.ServiceAccountKind:
			names = append(names, s.Namespace+"/"+s.Name)
		default:
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}
