package rbac

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func TestValidation(t *testing.T) {
	const (
		role           = "kind: Role, metadata: {name: a, namespace: b}, "
		clusterRole    = "kind: ClusterRole, metadata: {name: 'system:A'}, "
		binding        = "kind: RoleBinding, metadata: {name: a, namespace: b}, "
		clusterBinding = "kind: ClusterRoleBinding, metadata: {name: a}, "
		ref            = "roleRef: {kind: ClusterRole, name: view}, "
		group          = "rbac.authorization.k8s.io"
	)
	for _, tc := range []struct{ name, manifest, want string }{
		{"a rule", role + `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`, ""},
		{"no rules", role, ""},
		{
			"a name that acts on a terminal", `kind: Role, metadata: {name: "a\e[31mb", namespace: b}`,
			`metadata.name: Invalid value: "a\x1b[31mb": may not contain control characters`,
		},
		{
			"a name of several lines", `kind: Role, metadata: {name: "a\nb", namespace: b}`,
			`metadata.name: Invalid value: "a\nb": may not contain control characters`,
		},
		{
			"a name in another order", `kind: ClusterRole, metadata: {name: "a\u202eb"}`,
			`metadata.name: Invalid value: "a\u202eb": may not contain control characters`,
		},
		{"a name of others", "kind: ClusterRole, metadata: {name: 'équipe à deux'}", ""},
		{
			"a long name", "kind: ClusterRole, metadata: {name: " + strings.Repeat("x", 513) + "}",
			`metadata.name: Invalid value: "` + strings.Repeat("x", 513) + `": must be no more than 512 bytes`,
		},
		{
			"a role whose name acts on a terminal", binding + `roleRef: {kind: ClusterRole, name: "a\u009bb"}`,
			`roleRef.name: Invalid value: "a\u009bb": may not contain control characters`,
		},
		{"a name that cannot be in a path", "kind: Role, metadata: {name: a/b, namespace: b}", `metadata.name: Invalid value: "a/b": may not contain '/'`},
		{"no verbs", role + `rules: [{apiGroups: [""], resources: [pods]}]`, "rules[0].verbs: Required value"},
		{
			"no groups", role + `rules: [{resources: [pods], verbs: [get]}]`,
			"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
		},
		{
			"no resources", clusterRole + `rules: [{apiGroups: [""], verbs: [get]}]`,
			"rules[0].resources: Required value: resource rules must supply at least one resource",
		},
		{
			"paths in a namespace", role + `rules: [{nonResourceURLs: [/metrics], verbs: [get]}]`,
			`rules[0].nonResourceURLs: Invalid value: ["/metrics"]: namespaced rules cannot apply to non-resource URLs`,
		},
		{"paths", clusterRole + `rules: [{nonResourceURLs: [/metrics], verbs: [get]}]`, ""},
		{
			"both", clusterRole + `rules: [{nonResourceURLs: [/metrics], resources: [pods], verbs: [get]}]`,
			`rules[0].nonResourceURLs: Invalid value: ["/metrics"]: rules cannot apply to both regular resources and non-resource URLs`,
		},
		{
			"an empty aggregation", clusterRole + `aggregationRule: {}`,
			"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
		},
		{"a selector", clusterRole + `aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}`, ""},
		{
			"a wrong selector", clusterRole + `aggregationRule: {clusterRoleSelectors: [{matchLabels: {a b: c}}]}`,
			"aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value: \"a b\"",
		},
		{"a binding", binding + ref + "subjects: [{kind: User, name: ann}, {kind: Group, name: dev}, {kind: ServiceAccount, name: robot}]", ""},
		{"no role", binding, `roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"; roleRef.name: Required value`},
		{
			"a Role for all namespaces", clusterBinding + "roleRef: {kind: Role, name: a}",
			`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`,
		},
		{
			"another group", binding + "roleRef: {apiGroup: apps, kind: Role, name: a}",
			`roleRef.apiGroup: Unsupported value: "apps": supported values: "` + group + `"`,
		},
		{
			"another subject", binding + ref + "subjects: [{kind: Robot, name: ann}]",
			`subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`,
		},
		{"nobody", binding + ref + "subjects: [{kind: User}]", "subjects[0].name: Required value"},
		{
			"an account of a group", binding + ref + "subjects: [{kind: ServiceAccount, name: a, apiGroup: " + group + "}]",
			`subjects[0].apiGroup: Unsupported value: "` + group + `": supported values: ""`,
		},
		{
			"a user of another group", binding + ref + "subjects: [{kind: User, name: a, apiGroup: x}]",
			`subjects[0].apiGroup: Unsupported value: "x": supported values: "` + group + `"`,
		},
		{"an account without namespace", clusterBinding + ref + "subjects: [{kind: ServiceAccount, name: a}]", "subjects[0].namespace: Required value"},
		{"an account's name", binding + ref + "subjects: [{kind: ServiceAccount, name: 'a:b'}]", `subjects[0].name: Invalid value: "a:b"`},
	} {
		var errs field.ErrorList
		read := func(into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict([]byte("{"+tc.manifest+"}"), into); err != nil {
				t.Fatal(err)
			}
		}
		switch kind := strings.TrimSuffix(strings.Fields(tc.manifest)[1], ","); kind {
		case "Role":
			o := &rbacv1.Role{}
			read(o)
			errs = validateRole(o)
		case "ClusterRole":
			o := &rbacv1.ClusterRole{}
			read(o)
			errs = validateClusterRole(o)
		case "RoleBinding":
			o := &rbacv1.RoleBinding{}
			read(o)
			setBindingDefaults(&o.RoleRef, o.Subjects)
			errs = validateRoleBinding(o)
		case "ClusterRoleBinding":
			o := &rbacv1.ClusterRoleBinding{}
			read(o)
			setBindingDefaults(&o.RoleRef, o.Subjects)
			errs = validateClusterRoleBinding(o)
		default:
			t.Fatal(kind)
		}
		var got []string
		for _, err := range errs {
			got = append(got, err.Error())
		}
		if text := strings.Join(got, "; "); text != tc.want && (tc.want == "" || !strings.HasPrefix(text, tc.want)) {
			t.Errorf("%s: %s\nwant %s", tc.name, text, tc.want)
		}
	}
	a := &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: group, Kind: "Role", Name: "a"}}
	a.Name, a.Namespace, a.ResourceVersion = "a", "b", "1"
	b := a.DeepCopy()
	b.RoleRef.Name = "b"
	if errs := validateRoleBindingUpdate(b, a); len(errs) != 1 || !strings.HasSuffix(errs[0].Error(), "field is immutable") || errs[0].Field != "roleRef" {
		t.Error(errs)
	}
}
