package rbac

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// ruleOf reads "verbs groups resources names", with "core" for the group "", and "verbs /paths".
func ruleOf(s string) rbacv1.PolicyRule {
	f := strings.Fields(s)
	r := rbacv1.PolicyRule{Verbs: words(f[0])}
	if strings.HasPrefix(f[1], "/") || len(f) == 2 {
		r.NonResourceURLs = words(f[1])
		return r
	}
	for _, g := range words(f[1]) {
		r.APIGroups = append(r.APIGroups, strings.Replace(g, "core", "", 1))
	}
	r.Resources = words(f[2])
	if len(f) > 3 {
		r.ResourceNames = words(f[3])
	}
	return r
}

// requestOf reads "verb group resource/subresource name" and "verb /path".
func requestOf(s string) authorizer.AttributesRecord {
	f := strings.Fields(s)
	if strings.HasPrefix(f[1], "/") {
		return authorizer.AttributesRecord{Verb: f[0], Path: f[1]}
	}
	a := authorizer.AttributesRecord{Verb: f[0], APIGroup: strings.Replace(f[1], "core", "", 1), ResourceRequest: true}
	a.Resource, a.Subresource, _ = strings.Cut(f[2], "/")
	if len(f) > 3 {
		a.Name = f[3]
	}
	return a
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		rule    string
		yes, no []string
	}{
		{
			"get,list core pods", []string{"get core pods p", "list core pods"},
			[]string{"watch core pods", "get core pods/log p", "get batch pods", "get core podsx", "get /pods"},
		},
		{"get core pods/log", []string{"get core pods/log p"}, []string{"get core pods p", "get core pods/exec p"}},
		{
			"create core */exec", []string{"create core pods/exec p", "create core x/exec"},
			[]string{"create core pods", "create core exec", "create core pods/attach"},
		},
		{"get core pods/", nil, []string{"get core pods p"}},
		{"get core */", nil, []string{"get core pods p"}},
		{"get core pods/*", nil, []string{"get core pods/log p", "get core pods p"}},
		{"* * *", []string{"escalate rbac.authorization.k8s.io roles r", "get core pods/log p", "x y z"}, []string{"get /metrics"}},
		{"deletecollection core pods", []string{"deletecollection core pods"}, []string{"delete core pods p"}},
		{
			"get,update,create,list core configmaps a,b", []string{"get core configmaps a", "update core configmaps b"},
			[]string{"get core configmaps c", "create core configmaps", "list core configmaps"},
		},
		{
			"get /healthz,/logs/*", []string{"get /healthz", "get /logs/", "get /logs/a/b"},
			[]string{"post /healthz", "get /healthz/x", "get /logs", "get core pods"},
		},
		{"get *", []string{"get /", "get /metrics"}, []string{"get core pods p"}},
		{"get /a**", []string{"get /ab"}, []string{"get /b"}},
		{"*core core *x", nil, []string{"get core pods"}},
	} {
		rule := ruleOf(tc.rule)
		for _, q := range tc.yes {
			if !allows(&rule, requestOf(q)) {
				t.Errorf("%s: does not allow %s", tc.rule, q)
			}
		}
		for _, q := range tc.no {
			if allows(&rule, requestOf(q)) {
				t.Errorf("%s: allows %s", tc.rule, q)
			}
		}
	}
}

// naive says what objects allow, read as the API documents them: every binding, every subject, every rule.
func naive(objs map[string]metav1.Object, a authorizer.AttributesRecord) bool {
	contains := func(list []string, ok func(string) bool) bool {
		for _, s := range list {
			if ok(s) {
				return true
			}
		}
		return false
	}
	covers := func(rules []rbacv1.PolicyRule) bool {
		for _, r := range rules {
			is := func(want string) func(string) bool { return func(s string) bool { return s == "*" || s == want } }
			if !contains(r.Verbs, is(a.Verb)) {
				continue
			}
			if !a.ResourceRequest {
				if contains(r.NonResourceURLs, func(s string) bool {
					return s == a.Path || strings.HasSuffix(s, "*") && strings.HasPrefix(a.Path, s[:len(s)-1])
				}) {
					return true
				}
				continue
			}
			full := a.Resource
			if a.Subresource != "" {
				full += "/" + a.Subresource
			}
			named := len(r.ResourceNames) == 0 || contains(r.ResourceNames, func(s string) bool { return s == a.Name })
			if named && contains(r.APIGroups, is(a.APIGroup)) && contains(r.Resources, func(s string) bool {
				return s == "*" || s == full || a.Subresource != "" && s == "*/"+a.Subresource
			}) {
				return true
			}
		}
		return false
	}
	granted := func(namespace string, role rbacv1.RoleRef, subjects []rbacv1.Subject) bool {
		named := false
		for _, s := range subjects {
			switch s.Kind {
			case "User":
				named = named || s.Name == a.User.GetName()
			case "Group":
				named = named || contains(a.User.GetGroups(), func(g string) bool { return g == s.Name })
			case "ServiceAccount":
				in := s.Namespace
				if in == "" {
					in = namespace
				}
				named = named || in != "" && a.User.GetName() == "system:serviceaccount:"+in+":"+s.Name
			}
		}
		if !named {
			return false
		}
		if role.Kind == "ClusterRole" {
			r, ok := objs["clusterrole//"+role.Name].(*rbacv1.ClusterRole)
			return ok && covers(r.Rules)
		}
		r, ok := objs["role/"+namespace+"/"+role.Name].(*rbacv1.Role)
		return ok && covers(r.Rules)
	}
	for _, obj := range objs {
		switch b := obj.(type) {
		case *rbacv1.RoleBinding:
			if a.Namespace != "" && b.Namespace == a.Namespace && granted(b.Namespace, b.RoleRef, b.Subjects) {
				return true
			}
		case *rbacv1.ClusterRoleBinding:
			if granted("", b.RoleRef, b.Subjects) {
				return true
			}
		}
	}
	return false
}

// TestPolicyAgainstANaiveOne changes roles and bindings at random, and asks both the same.
func TestPolicyAgainstANaiveOne(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		some := func(of ...string) (list []string) {
			for range r.IntN(3) {
				list = append(list, pick(of...))
			}
			return list
		}
		namespace := func() string { return pick("a", "b") }
		rules := func() (rules []rbacv1.PolicyRule) {
			for range r.IntN(3) {
				if r.IntN(5) == 0 {
					rules = append(rules, rbacv1.PolicyRule{Verbs: some("get", "*"), NonResourceURLs: some("/x", "/x/*", "*")})
					continue
				}
				rules = append(rules, rbacv1.PolicyRule{
					Verbs: some("get", "list", "*"), APIGroups: some("", "batch", "*"),
					Resources: some("pods", "pods/log", "*/log", "jobs", "*"), ResourceNames: some("n", "m"),
				})
			}
			return rules
		}
		subjects := func() (list []rbacv1.Subject) {
			for range r.IntN(4) {
				s := rbacv1.Subject{Kind: pick("User", "Group", "ServiceAccount"), Name: pick("u", "v", "system:serviceaccount:a:u")}
				if s.Kind == "ServiceAccount" {
					s.Namespace = pick("", "a", "b")
				}
				list = append(list, s)
			}
			return list
		}
		objs, p := map[string]metav1.Object{}, NewPolicy()
		change := func() {
			var obj metav1.Object
			name := pick("x", "y", "z")
			meta := metav1.ObjectMeta{Name: name}
			role := rbacv1.RoleRef{Kind: pick("Role", "ClusterRole"), Name: pick("x", "y", "z")}
			key := ""
			switch r.IntN(4) {
			case 0:
				meta.Namespace = namespace()
				key, obj = "role/", &rbacv1.Role{ObjectMeta: meta, Rules: rules()}
			case 1:
				key, obj = "clusterrole/", &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules()}
			case 2:
				meta.Namespace = namespace()
				key, obj = "rolebinding/", &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects()}
			case 3:
				role.Kind = "ClusterRole"
				key, obj = "clusterrolebinding/", &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects()}
			}
			key += meta.Namespace + "/" + name
			if r.IntN(4) == 0 {
				delete(objs, key)
				p.Delete(obj)
				return
			}
			objs[key] = obj
			p.Put(obj)
		}
		allowed := 0
		for range 400 {
			change()
			for range 10 {
				who := &user.DefaultInfo{Name: pick("u", "v", "w", serviceaccount.MakeUsername(namespace(), "u")), Groups: some("u", "v")}
				a := requestOf(
					pick(
						"get core pods n", "list core pods", "get core pods/log m", "get batch jobs n", "list batch jobs",
						"get /x", "get /x/y", "watch core pods",
					),
				)
				a.User = who
				if a.ResourceRequest {
					a.Namespace = pick("", "a", "b")
				}
				got, why := p.Allowed(a)
				want := naive(objs, a)
				if got != want || got != strings.HasPrefix(why, "RBAC: allowed by ") {
					t.Fatalf("seed %d: %+v of %+v: %v (%s), want %v", seed, a, who, got, why, want)
				}
				// The rules that somebody has say the same.
				rules, _ := p.Rules(who, a.Namespace)
				if has := func() bool {
					for i := range rules {
						if allows(&rules[i], a) {
							return true
						}
					}
					return false
				}(); has != want {
					t.Fatalf("seed %d: the rules of %+v allow %+v: %v", seed, who, a, has)
				}
				if got {
					allowed++
				}
			}
		}
		if allowed == 0 {
			t.Errorf("seed %d: nothing is ever allowed", seed)
		}
		for _, obj := range objs {
			p.Delete(obj)
		}
		if len(p.roles)+len(p.bindings)+len(p.granted) > 0 {
			t.Errorf("seed %d: an empty policy keeps %+v", seed, p)
		}
	}
}

func TestReasons(t *testing.T) {
	p := NewPolicy()
	p.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, Rules: []rbacv1.PolicyRule{ruleOf("get core pods")}})
	p.Put(
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "s"}},
		},
	)
	p.Put(
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "broken"},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "none"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}},
		},
	)
	p.Put(
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "too"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "none"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: "h"}},
		},
	)
	for _, tc := range []struct {
		who  user.Info
		ok   bool
		want string
	}{
		{&user.DefaultInfo{Name: "system:serviceaccount:a:s"}, true, `RBAC: allowed by RoleBinding "b/a" of Role "r" to ServiceAccount "s/a"`},
		{&user.DefaultInfo{Name: "x", Groups: []string{"g"}}, false, `RBAC: clusterrole.rbac.authorization.k8s.io "none" not found`},
		{
			&user.DefaultInfo{Name: "x", Groups: []string{"g", "h"}}, false,
			`RBAC: [clusterrole.rbac.authorization.k8s.io "none" not found, role.rbac.authorization.k8s.io "none" not found]`,
		},
		{&user.DefaultInfo{Name: "x"}, false, ""},
		{nil, false, ""},
	} {
		a := requestOf("get core pods p")
		a.Namespace = "a"
		if tc.who != nil {
			a.User = tc.who
		}
		if ok, why := p.Allowed(a); ok != tc.ok || why != tc.want {
			t.Errorf("%v: %v %s", tc.who, ok, why)
		}
	}
}

// What many subjects and bindings cost grows with their number, not with its square: whoever may make some would slow down
// everybody's requests.
func TestManySubjectsAndBindings(t *testing.T) {
	const many = 70_000
	p := NewPolicy()
	all := make([]rbacv1.Subject, many)
	for i := range all {
		all[i] = rbacv1.Subject{Kind: "Group", Name: fmt.Sprint("group", i)}
		p.Put(
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("b%06d", i)},
				RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}},
			},
		)
	}
	p.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, Rules: []rbacv1.PolicyRule{ruleOf("get core pods")}})
	if rules, err := p.Rules(&user.DefaultInfo{Name: "x", Groups: []string{"g"}}, "a"); len(rules) != 1 || err != nil { // those of the role, once
		t.Errorf("%d rules, %v", len(rules), err)
	}
	groups := subjectNames(all, rbacv1.GroupKind)
	if !strings.HasPrefix(groups, "group0, group1, ") || !strings.HasSuffix(groups, fmt.Sprint(", group", many-1)) {
		t.Errorf("%.50s", groups)
	}
}

// A role of very many rules, and very many bindings to it, do not multiply: neither when a request is decided about, nor in what somebody
// is told of their rights. Roles that do not exist are named, but not all of them.
func TestBindingsToOneRole(t *testing.T) {
	const many = 20_000
	p := NewPolicy()
	rules := make([]rbacv1.PolicyRule, many)
	for i := range rules {
		rules[i] = ruleOf(fmt.Sprintf("get core pods n%06d", i))
	}
	p.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "big"}, Rules: rules})
	bind := func(name, role string) {
		p.Put(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
			RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: role}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "x"}},
		})
	}
	for i := range many {
		bind(fmt.Sprintf("b%06d", i), []string{"big", fmt.Sprint("gone", i)}[i%2])
	}
	who := &user.DefaultInfo{Name: "x"}
	begin := time.Now()
	a := requestOf("get core pods other")
	a.User, a.Namespace = who, "a"
	if ok, why := p.Allowed(a); ok || strings.Count(why, "not found") != mostMissing {
		t.Errorf("allowed: %v, %.300s", ok, why)
	}
	all, err := p.Rules(who, "a")
	if len(all) != many || err == nil || strings.Count(err.Error(), "not found") != mostMissing {
		t.Errorf("%d rules, %.300s", len(all), err)
	}
	if took := time.Since(begin); took > 5*time.Second { // milliseconds; the rules times the bindings are minutes
		t.Errorf("it took %v", took)
	}
}

// The size of a namespace is that of all that is in it, through any changes.
func TestSize(t *testing.T) {
	p := NewPolicy()
	meta := metav1.ObjectMeta{Namespace: "a", Name: "x"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{ruleOf("get,list core pods"), ruleOf("get /" + strings.Repeat("x", 130))}}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: "User", Name: "x"}}}
	for _, step := range []struct {
		do   func()
		want int
	}{
		{func() { p.Put(role) }, 10}, // 5, and 3 with two more for the text
		{func() { p.Put(binding) }, 12},
		{func() { p.Put(role) }, 12},
		{func() { p.Put(&rbacv1.Role{ObjectMeta: meta, Rules: role.Rules[:1]}) }, 7},
		{func() { p.Put(&rbacv1.RoleBinding{ObjectMeta: meta}) }, 6},
		{func() { p.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: role.Rules}) }, 6},
		{func() { p.Delete(role) }, 1},
		{func() { p.Delete(binding) }, 0},
		{func() { p.Delete(binding) }, 0},
	} {
		if step.do(); p.Size("a") != step.want {
			t.Errorf("size %d, want %d", p.Size("a"), step.want)
		}
	}
	if Size(role) != 10 || Size(binding) != 2 {
		t.Errorf("sizes %d and %d", Size(role), Size(binding))
	}
}

func BenchmarkAllowed(b *testing.B) {
	p := NewPolicy()
	for i := range 1000 {
		ns, name := fmt.Sprint("ns", i%20), fmt.Sprint("b", i)
		p.Put(
			&rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
				Rules:      []rbacv1.PolicyRule{ruleOf("get,list core pods,pods/log"), ruleOf("create batch jobs")},
			},
		)
		p.Put(
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: fmt.Sprint("s", i)}},
			},
		)
	}
	who := serviceaccount.UserInfo("ns3", "s23", "")
	for name, question := range map[string]string{"yes": "create batch jobs", "no": "delete batch jobs j"} {
		a := requestOf(question)
		a.User, a.Namespace = who, "ns3"
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ok, _ := p.Allowed(a); ok != (name == "yes") {
					b.Fatal(ok)
				}
			}
		})
	}
}
