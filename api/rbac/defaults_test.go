package rbac

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

func TestDefaults(t *testing.T) {
	roles, bindings, err := Defaults(map[string][]rbacv1.PolicyRule{"read": rulesOf("get core pods")}, "admins")
	if err != nil {
		t.Fatal(err)
	}
	p, byName := NewPolicy(), map[string]*rbacv1.ClusterRole{}
	for _, r := range roles {
		if errs := validateClusterRole(r); len(errs) > 0 || byName[r.Name] != nil {
			t.Errorf("%s: %v", r.Name, errs)
		}
		byName[r.Name] = r
		p.Put(r)
	}
	for _, b := range bindings {
		if errs := validateClusterRoleBinding(b); len(errs) > 0 {
			t.Errorf("%s: %v", b.Name, errs)
		}
		p.Put(b)
	}
	for _, pair := range [][2]string{{"view", "edit"}, {"edit", "admin"}, {"admin", "cluster-admin"}} {
		less, more := byName[pair[0]], byName[pair[1]]
		if ok, missing := validation.Covers(more.Rules, less.Rules); !ok || len(less.Rules) == 0 {
			t.Errorf("%s lacks of %s: %v", more.Name, less.Name, missing)
		}
		if ok, _ := validation.Covers(less.Rules, more.Rules); ok {
			t.Errorf("%s has what %s has", less.Name, more.Name)
		}
	}
	if ok, _ := validation.Covers(byName["view"].Rules, rulesOf("get core secrets")); ok {
		t.Error("view shows secrets")
	}
	for _, tc := range []struct {
		who     user.Info
		yes, no []string
	}{
		{
			&user.DefaultInfo{Name: "a", Groups: []string{"admins"}},
			[]string{"get core secrets s", "get /debug", "escalate " + rbacv1.GroupName + " roles"}, nil,
		},
		{
			&user.DefaultInfo{Name: "a", Groups: []string{user.AllAuthenticated}},
			[]string{"get /apis/batch/v1", "get /livez", "create authorization.k8s.io selfsubjectrulesreviews"},
			[]string{
				"get core pods p", "get /metrics", "create authorization.k8s.io subjectaccessreviews",
				"create authentication.k8s.io tokenreviews", "get /openid/v1/jwks",
			},
		},
		{
			&user.DefaultInfo{Name: "a", Groups: []string{user.AllUnauthenticated}}, []string{"get /livez", "get /version"},
			[]string{"get /api", "get /metrics", "create authentication.k8s.io selfsubjectreviews"},
		},
		{
			&user.DefaultInfo{Name: "system:serviceaccount:a:b", Groups: []string{"system:serviceaccounts"}},
			[]string{"get /openid/v1/jwks", "get /.well-known/openid-configuration"}, []string{"get /livez", "get core pods p"},
		},
	} {
		for _, q := range append(slices.Clone(tc.yes), tc.no...) {
			a := requestOf(q)
			a.User = tc.who
			if ok, _ := p.Allowed(a); ok != slices.Contains(tc.yes, q) {
				t.Errorf("%+v may %s: %v", tc.who, q, ok)
			}
		}
	}
	for _, r := range roles {
		if Reconcile(r.DeepCopy(), r) {
			t.Errorf("%s lacks something of itself", r.Name)
		}
	}
}

func TestReconcile(t *testing.T) {
	wanted := &rbacv1.ClusterRole{ObjectMeta: bootstrapped("r"), Rules: rulesOf("get,list core pods")}
	stored := wanted.DeepCopy()
	stored.Rules = rulesOf("get core pods; get core nodes")
	if !Reconcile(stored, wanted) || len(stored.Rules) != 3 || Reconcile(stored, wanted) {
		t.Errorf("%+v", stored.Rules)
	}
	stored.Rules, stored.Annotations = nil, map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	if Reconcile(stored, wanted) {
		t.Error("a role that is not to be updated is")
	}
	b := &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}}}
	mine := &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}}
	if !ReconcileBinding(mine, b) || len(mine.Subjects) != 2 || ReconcileBinding(mine, b) {
		t.Errorf("%+v", mine)
	}
	mine.Subjects, mine.RoleRef.Name = nil, "another"
	if ReconcileBinding(mine, b) {
		t.Error("a binding to another role grants it to more")
	}
}

func TestAggregate(t *testing.T) {
	role := func(name, rules string, labels map[string]string, selects ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rulesOf(rules)}
		for _, s := range selects {
			if r.AggregationRule == nil {
				r.AggregationRule = &rbacv1.AggregationRule{}
			}
			r.AggregationRule.ClusterRoleSelectors = append(
				r.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{s: "y"}},
			)
		}
		return r
	}
	to := func(keys ...string) map[string]string {
		m := map[string]string{}
		for _, k := range keys {
			m[k] = "y"
		}
		return m
	}
	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprintf("get core p%d", i)
	}
	many := strings.Join(names, ";")
	for _, tc := range []struct {
		name  string
		roles []*rbacv1.ClusterRole
		want  map[string]string // of the roles that change
	}{
		{"no rule", []*rbacv1.ClusterRole{role("a", "get core pods", to("x"))}, nil},
		{
			"in the order of names, each once",
			[]*rbacv1.ClusterRole{role("z", "", nil, "x"), role("b", "get core b; get core pods", to("x")), role("a", "get core pods; get core a", to("x"))},
			map[string]string{"z": "get core pods; get core a; get core b"},
		},
		{"already so", []*rbacv1.ClusterRole{role("z", "get core pods", nil, "x"), role("a", "get core pods", to("x"))}, nil},
		{"its own rules go", []*rbacv1.ClusterRole{role("z", "get core mine", nil, "x")}, map[string]string{"z": ""}},
		{"not itself", []*rbacv1.ClusterRole{role("z", "get core mine", to("x"), "x")}, map[string]string{"z": ""}},
		{
			"several selectors",
			[]*rbacv1.ClusterRole{role("z", "", nil, "y", "x"), role("a", "get core a", to("x")), role("b", "get core b", to("y"))},
			map[string]string{"z": "get core b; get core a"},
		},
		{
			"of what gathers itself, whatever the order",
			[]*rbacv1.ClusterRole{role("a", "", nil, "x"), role("b", "", to("x"), "y"), role("c", "", to("y"), "w"), role("d", "get core pods", to("w"))},
			map[string]string{"a": "get core pods", "b": "get core pods", "c": "get core pods"},
		},
		{
			"two that select each other",
			[]*rbacv1.ClusterRole{role("a", "", to("x"), "x"), role("b", "", to("x"), "x"), role("c", "get core c", to("x"))},
			map[string]string{"a": "get core c", "b": "get core c"},
		},
		{
			"nothing that is gone stays in two that select each other",
			[]*rbacv1.ClusterRole{role("a", "get core gone", to("x"), "x"), role("b", "get core gone", to("x"), "x")},
			map[string]string{"a": "", "b": ""},
		},
		{
			"more rules than can be compared with each other",
			[]*rbacv1.ClusterRole{role("a", "", nil, "x"), role("b", many, to("x")), role("c", many, to("x"))},
			map[string]string{"a": many},
		},
		{
			"three in a ring",
			[]*rbacv1.ClusterRole{
				role("a", "get core a", to("x"), "y"), role("b", "get core b", to("y"), "z"),
				role("c", "get core c", to("z"), "x"), role("d", "get core d", to("x")),
			},
			map[string]string{"a": "get core d", "b": "get core d", "c": "get core d"},
		},
	} {
		changed, err := Aggregate(tc.roles)
		if err != nil || len(changed) != len(tc.want) {
			t.Errorf("%s: %v %v", tc.name, changed, err)
		}
		for _, r := range changed {
			if want, ok := tc.want[r.Name]; !ok ||
				!slices.EqualFunc(r.Rules, rulesOf(want), func(a, b rbacv1.PolicyRule) bool { return a.String() == b.String() }) {
				t.Errorf("%s: %s has %v, want %s", tc.name, r.Name, r.Rules, want)
			}
		}
	}
}
