package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MostNamespaceSize is what the Roles and RoleBindings of a namespace may come to together. All of them are in memory, and a request
// of somebody whom all of them name is compared with all rules.
const MostNamespaceSize = 50_000

// sizeOfText is how many bytes of a text count as one more element.
const sizeOfText = 64

// Size returns what a Role or a RoleBinding counts for: its rules and what is in their lists, or its subjects. Long texts count for more.
func Size(obj metav1.Object) int {
	switch o := obj.(type) {
	case *rbacv1.Role:
		return sizeOfRules(o.Rules)
	case *rbacv1.RoleBinding:
		return sizeOfSubjects(o.Subjects)
	}
	return 0
}

func sizeOfRules(rules []rbacv1.PolicyRule) (n int) {
	for _, r := range rules {
		n++
		for _, list := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
			for _, text := range list {
				n += 1 + len(text)/sizeOfText
			}
		}
	}
	return n
}

func sizeOfSubjects(subjects []rbacv1.Subject) int {
	n := 1 // the binding itself
	for _, s := range subjects {
		n += 1 + (len(s.Name)+len(s.Namespace))/sizeOfText
	}
	return n
}
