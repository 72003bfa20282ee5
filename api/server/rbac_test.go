package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/store"
)

// person returns a client that acts as a user of some groups: what an administrator says with --as.
func (ts *testServer) person(t *testing.T, name string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	config := ts.config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
	return mustClient(t, config)
}

func rule(verbs, group, resources string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: strings.Split(resources, ",")}
}

func (ts *testServer) role(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta, api := metav1.ObjectMeta{Name: name}, ts.client(t).RbacV1()
	if namespace == "" {
		mustMake(t, api.ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		return
	}
	mustMake(t, api.Roles(namespace), &rbacv1.Role{ObjectMeta: meta, Rules: rules})
}

// grant grants a role, "Role/name" or "ClusterRole/name", to subjects such as "Group/dev" or "ServiceAccount/robot", by a
// binding of the same name as the role.
func (ts *testServer) grant(t *testing.T, namespace, role string, subjects ...string) {
	t.Helper()
	kind, name, _ := strings.Cut(role, "/")
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	var list []rbacv1.Subject
	for _, s := range subjects {
		kind, name, _ := strings.Cut(s, "/")
		subject := rbacv1.Subject{Kind: kind, Name: name}
		if kind == "ServiceAccount" && namespace == "" {
			subject.Namespace = "default"
		}
		list = append(list, subject)
	}
	meta, api := metav1.ObjectMeta{Name: name}, ts.client(t).RbacV1()
	if namespace == "" {
		mustMake(t, api.ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: list})
		return
	}
	mustMake(t, api.RoleBindings(namespace), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: list})
}

func TestWhatBindingsGrant(t *testing.T) {
	ts := startServer(t)
	account := ts.with(t, ts.token(t, ts.account(t, "robot", ""), nil).Status.Token)
	if canI(t, account, "list pods default") {
		t.Error("an account that no binding names may list pods")
	}
	ts.role(t, "default", "pods", rule("get,list,watch", "", "pods"), rule("get", "", "pods/log"))
	ts.grant(t, "default", "Role/pods", "ServiceAccount/robot")
	ts.role(t, "", "paths", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}})
	ts.grant(t, "", "ClusterRole/paths", "Group/system:serviceaccounts:default")
	ts.role(
		t, "kube-system", "names",
		rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"settings"}},
	)
	ts.grant(t, "kube-system", "Role/names", "Group/system:serviceaccounts")
	ts.grant(t, "default", "ClusterRole/view", "Group/readers")
	ts.grant(t, "kube-system", "ClusterRole/edit", "User/ann")
	ts.grant(t, "kube-public", "ClusterRole/jobd:submit", "User/ann")
	for _, tc := range []struct {
		name    string
		client  *kubernetes.Clientset
		yes, no []string
	}{
		{
			"a service account", account, []string{"list pods default", "watch pods default", "get pods/log default"},
			[]string{
				"list pods", "list pods kube-system", "delete pods default", "get pods/exec default", "list secrets default",
				"list jobs.batch default", "get pods/status default", "deletecollection pods default",
				"list configmaps kube-system",
			},
		},
		{
			"a group", ts.person(t, "ben", "readers"), []string{
				"list pods default", "list jobs.batch default", "get jobs.batch/log default", "list resourcequotas default",
			},
			[]string{
				"list secrets default", "create jobs.batch default", "list pods kube-system", "list nodes",
				"list roles.rbac.authorization.k8s.io default",
			},
		},
		{
			"a user", ts.person(t, "ann"), []string{
				"create jobs.batch kube-system", "list secrets kube-system", "create pods/exec kube-system",
				"create jobs.batch/retry kube-system", "create jobs.batch kube-public", "list secrets kube-public",
			},
			[]string{
				"create jobs.batch default", "update jobs.batch/status kube-system",
				"create roles.rbac.authorization.k8s.io kube-system", "update namespaces kube-system",
				"create serviceaccounts kube-public", "update jobs.batch/status kube-public",
			},
		},
		{"nobody", ts.person(t, "nobody"), nil, []string{"list pods default", "list namespaces", "create subjectaccessreviews.authorization.k8s.io"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, q := range append(slices.Clone(tc.yes), tc.no...) {
				if canI(t, tc.client, q) != slices.Contains(tc.yes, q) {
					t.Errorf("%s: %v", q, !slices.Contains(tc.yes, q))
				}
			}
		})
	}
	if err := account.RESTClient().Get().AbsPath("/metrics").Do(t.Context()).Error(); err != nil {
		t.Errorf("a path: %v", err)
	}
	if _, err := account.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object by its name: %v", err)
	}
	if _, err := account.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "others", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another one: %v", err)
	}
	resources, paths := rulesOf(t, account, "default")
	for _, want := range []string{"pods. get,list,watch", "pods/log. get", "selfsubjectreviews.authentication.k8s.io create"} {
		if !slices.Contains(strings.Split(resources, "\n"), want) {
			t.Errorf("%q is not in\n%s", want, resources)
		}
	}
	if !strings.Contains(paths, "get /metrics") {
		t.Error(paths)
	}

	// A right ends with its binding, and with its role, whoever removes them.
	api := ts.client(t).RbacV1()
	if err := api.RoleBindings("default").Delete(t.Context(), "pods", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if canI(t, account, "list pods default") {
		t.Error("a binding that is gone still grants its role")
	}
	ts.grant(t, "default", "Role/pods", "ServiceAccount/robot")
	if !canI(t, account, "list pods default") {
		t.Error("a new binding grants nothing")
	}
	if err := ts.store.Update(t.Context(), func(tx *store.Tx) error {
		tx.Delete(store.Key(rbac.Roles, "default", "pods"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if canI(t, account, "list pods default") {
		t.Error("a role that is gone still grants its rights")
	}
}

// A WebSocket begins with a GET, which a role that reads everything includes.
func TestReadersDoNotReachIntoContainers(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{} })
	mustMake(t, ts.client(t).CoreV1().Pods("default"), newPod("p", "c"))
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	ts.role(t, "default", "reader", rule("get,list,watch", "*", "*"))
	ts.grant(t, "default", "Role/reader", "User/ann", "User/ben")
	ts.role(t, "default", "enter", rule("create", "", "pods/exec"))
	ts.grant(t, "default", "Role/enter", "User/ben")
	for part, query := range map[string]string{"exec": "command=ls&stdout=true", "attach": "stdout=true", "portforward": "ports=80"} {
		for _, who := range []string{"ann", "ben"} {
			err := ts.person(t, who).CoreV1().RESTClient().Get().RequestURI("/api/v1/namespaces/default/pods/p/" + part + "?" + query).
				Do(t.Context()).Error()
			if who == "ben" && part == "exec" { // may come in, and has not asked for a WebSocket
				if !apierrors.IsBadRequest(err) {
					t.Errorf("%s: %s: %v", who, part, err)
				}
			} else if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `cannot create resource "pods/`+part+`"`) {
				t.Errorf("%s: %s: %v", who, part, err)
			}
		}
	}
}

func TestManyChangesBetweenTwoDecisions(t *testing.T) {
	ts := startServer(t)
	ann := ts.person(t, "ann")
	ts.grant(t, "default", "ClusterRole/view", "User/ann")
	if !canI(t, ann, "list pods default") {
		t.Fatal("the binding grants nothing")
	}
	if err := ts.store.Update(t.Context(), func(tx *store.Tx) error {
		tx.Delete(store.Key(rbac.RoleBindings, "default", "view"))
		for range 4097 { // more than are followed one by one
			tx.Put(store.Object{Key: "marks.jobd.dev/many", Value: []byte("x")})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if canI(t, ann, "list pods default") {
		t.Error("a binding that went long ago still grants its role")
	}
}

func TestNobodyGrantsWhatTheyDoNotHave(t *testing.T) {
	ts := startServer(t)
	group := rbacv1.GroupName
	ts.role(t, "", "rbac", rule("*", group, "roles,rolebindings"), rule("get,list", "", "pods"), rule("get,update,patch,create", "", "serviceaccounts"))
	ts.grant(t, "default", "ClusterRole/rbac", "User/ann")
	ts.role(t, "", "all-rbac", rule("create,update,get,patch", group, "clusterroles,clusterrolebindings,roles,rolebindings"))
	ts.grant(t, "", "ClusterRole/all-rbac", "User/carl")
	ts.role(
		t, "", "binder", rule("create,get,update", group, "rolebindings"),
		rbacv1.PolicyRule{Verbs: []string{"bind"}, APIGroups: []string{group}, Resources: []string{"clusterroles"}, ResourceNames: []string{"view"}},
	)
	ts.grant(t, "default", "ClusterRole/binder", "User/dora")
	ts.role(t, "", "no-escalation", rule("create,update,get,patch", group, "roles,rolebindings"), rule("get", "", "pods"))
	ts.grant(t, "kube-public", "ClusterRole/no-escalation", "User/eve")
	ts.role(t, "kube-public", "strong", rule("get", "", "secrets"))
	ann, carl, dora, eve := ts.person(t, "ann"), ts.person(t, "carl"), ts.person(t, "dora"), ts.person(t, "eve", "dev")
	boss := ts.with(t, ts.token(t, ts.account(t, "boss", core.RoleAdmin), nil).Status.Token)

	name := 0
	role := func(c *kubernetes.Clientset, namespace string, rules ...rbacv1.PolicyRule) error {
		name++
		_, err := c.RbacV1().Roles(namespace).Create(
			t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r" + string(rune('a'+name))}, Rules: rules},
			metav1.CreateOptions{},
		)
		return err
	}
	clusterRole := func(c *kubernetes.Clientset, edit func(*rbacv1.ClusterRole), rules ...rbacv1.PolicyRule) error {
		name++
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c" + string(rune('a'+name))}, Rules: rules}
		if edit != nil {
			edit(r)
		}
		_, err := c.RbacV1().ClusterRoles().Create(t.Context(), r, metav1.CreateOptions{})
		return err
	}
	binding := func(c *kubernetes.Clientset, namespace, kind, role string) error {
		name++
		_, err := c.RbacV1().RoleBindings(namespace).Create(
			t.Context(),
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "b" + string(rune('a'+name))},
				RoleRef:    rbacv1.RoleRef{Kind: kind, Name: role}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "x"}},
			},
			metav1.CreateOptions{},
		)
		return err
	}
	clusterBinding := func(c *kubernetes.Clientset, role string) error {
		name++
		_, err := c.RbacV1().ClusterRoleBindings().Create(
			t.Context(),
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "d" + string(rune('a'+name))},
				RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "x"}},
			},
			metav1.CreateOptions{},
		)
		return err
	}
	annotate := func(c *kubernetes.Clientset, role string) error {
		_, err := c.CoreV1().ServiceAccounts("default").Patch(
			t.Context(), "boss", types.MergePatchType, []byte(`{"metadata":{"annotations":{"jobd.dev/role":"`+role+`"}}}`),
			metav1.PatchOptions{},
		)
		return err
	}
	aggregated := func(r *rbacv1.ClusterRole) {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
	}
	const held = "is attempting to grant RBAC permissions not currently held:\n"
	for _, tc := range []struct {
		name string
		err  error
		want string // "" if it is allowed
	}{
		{"what one has", role(eve, "kube-public", rule("get", "", "pods")), ""},
		{
			"a verb that one lacks", role(eve, "kube-public", rule("get,list", "", "pods")),
			`roles.rbac.authorization.k8s.io "rc" is forbidden: user "eve" (groups=["dev" "system:authenticated"]) ` + held + `{APIGroups:[""], Resources:["pods"], Verbs:["list"]}`,
		},
		{"escalate is among the verbs that one has", role(ann, "default", rule("*", "", "*")), ""},
		{"rights of one namespace in all", clusterRole(carl, nil, rule("get", "", "pods")), held},
		{"a role without rules", clusterRole(carl, nil), ""},
		{"an aggregation", clusterRole(carl, aggregated), "must have cluster-admin privileges to use the aggregationRule"},
		{"an administrator's", clusterRole(ts.client(t), aggregated, rule("*", "*", "*")), ""},
		{"a role that one has", binding(eve, "kube-public", "ClusterRole", "no-escalation"), ""},
		{"a Role that one lacks", binding(eve, "kube-public", "Role", "strong"), held + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		{"a role that is not there", binding(eve, "kube-public", "Role", "none"), `roles.rbac.authorization.k8s.io "none" not found`},
		{"an administrator binds a role that is not there", binding(ts.client(t), "default", "Role", "none"), ""},
		{"in another namespace", binding(eve, "default", "ClusterRole", "view"), "cannot create resource"},
		{"what one may bind", binding(dora, "default", "ClusterRole", "view"), ""},
		{"what one may not bind", binding(dora, "default", "ClusterRole", "edit"), held},
		{"cluster-admin", clusterBinding(carl, "cluster-admin"), held},
		{"roles of jobd grant no more either", role(boss, "default", rule("*", "*", "*")), held},
		{"nor bind more", binding(boss, "default", "ClusterRole", "cluster-admin"), held},
		{"but what they have", binding(boss, "default", "ClusterRole", "view"), ""},
		{"their own role", binding(boss, "default", "ClusterRole", "jobd:admin"), ""},
		{"an annotation", annotate(ann, core.RoleSubmit), "metadata.annotations[jobd.dev/role]: user \"ann\""},
		{"an annotation by who has the role", annotate(boss, core.RoleSubmit), ""},
		{"an annotation by an administrator", annotate(ts.client(t), core.RoleAdmin), ""},
		{"no more than before", annotate(ann, core.RoleAdmin), ""},
	} {
		got := ""
		if tc.err != nil {
			got = tc.err.Error()
		}
		if (tc.err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}

	// An update that adds nothing is one that grants, too; one that only removes finalizers is not.
	strong, err := ts.client(t).RbacV1().Roles("kube-public").Get(t.Context(), "strong", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	strong.Finalizers = []string{"example.com/a"}
	if strong, err = ts.client(t).RbacV1().Roles("kube-public").Update(t.Context(), strong, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	strong.Finalizers = nil
	if _, err = eve.RbacV1().Roles("kube-public").Update(t.Context(), strong, metav1.UpdateOptions{}); err != nil {
		t.Errorf("remove a finalizer: %v", err)
	}
	for what, patch := range map[string]string{
		"a label": `{"metadata":{"labels":{"a":"b"}}}`,
		"rules":   `{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`,
	} {
		if _, err := eve.RbacV1().Roles("kube-public").Patch(
			t.Context(), "strong", types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		); !apierrors.IsForbidden(err) {
			t.Errorf("patch %s: %v", what, err)
		}
	}
	force := true
	_, err = eve.RbacV1().Roles("kube-public").Patch(
		t.Context(), "applied", types.ApplyPatchType,
		[]byte(
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"applied"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`,
		),
		metav1.PatchOptions{FieldManager: "x", Force: &force},
	)
	if !apierrors.IsForbidden(err) {
		t.Errorf("server-side apply: %v", err)
	}
	if _, err := eve.RbacV1().Roles("kube-public").Update(
		t.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "put"}, Rules: []rbacv1.PolicyRule{rule("get", "", "secrets")}},
		metav1.UpdateOptions{},
	); !apierrors.IsForbidden(err) {
		t.Errorf("PUT: %v", err)
	}
}

func TestAccessReviewsOfOthers(t *testing.T) {
	ts := startServer(t)
	ts.grant(t, "default", "ClusterRole/view", "Group/dev")
	ts.grant(t, "default", "ClusterRole/admin", "User/ann")
	api := ts.client(t).AuthorizationV1()
	pods := func(namespace string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: namespace}
	}
	for _, tc := range []struct {
		name  string
		spec  authorizationv1.SubjectAccessReviewSpec
		ok    bool
		fails string
	}{
		{"a group", authorizationv1.SubjectAccessReviewSpec{Groups: []string{"dev"}, ResourceAttributes: pods("default")}, true, ""},
		{"elsewhere", authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"dev"}, ResourceAttributes: pods("kube-system")}, false, ""},
		{
			"a path",
			authorizationv1.SubjectAccessReviewSpec{
				User: "x", Groups: []string{"system:authenticated"},
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/apis"},
			},
			true, "",
		},
		{"nobody", authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: pods("default")}, false, "at least one of user or group must be specified"},
		{"nothing", authorizationv1.SubjectAccessReviewSpec{User: "x"}, false, "exactly one of nonResourceAttributes or resourceAttributes must be specified"},
	} {
		r, err := api.SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: tc.spec}, metav1.CreateOptions{})
		if tc.fails != "" {
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil || r.Status.Allowed != tc.ok {
			t.Errorf("%s: %+v %v", tc.name, r.Status, err)
		}
	}
	local := func(c *kubernetes.Clientset, namespace, of string) (*authorizationv1.LocalSubjectAccessReview, error) {
		r := &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{Groups: []string{"dev"}, ResourceAttributes: pods(of)}}
		r.Namespace = namespace
		return c.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(t.Context(), r, metav1.CreateOptions{})
	}
	if r, err := local(ts.person(t, "ann"), "default", "default"); err != nil || !r.Status.Allowed ||
		!strings.Contains(r.Status.Reason, `RoleBinding "view/default" of ClusterRole "view" to Group "dev"`) {
		t.Errorf("%+v: %v", r, err)
	}
	if _, err := local(ts.person(t, "ann"), "default", "kube-system"); !apierrors.IsInvalid(err) {
		t.Errorf("of another namespace: %v", err)
	}
	if _, err := local(ts.person(t, "ben", "dev"), "default", "default"); !apierrors.IsForbidden(err) {
		t.Errorf("who may only view: %v", err)
	}
	if _, err := ts.person(t, "ann").AuthorizationV1().SubjectAccessReviews().Create(
		t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{},
	); !apierrors.IsForbidden(err) {
		t.Errorf("of all namespaces: %v", err)
	}
}

// anonymous sends a request without credentials over TLS.
func (ts *testServer) anonymous(t *testing.T, path string) (code int, headers http.Header) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ts.authority.Certificate())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+ts.tls.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

func TestRequestsWithoutCredentials(t *testing.T) {
	ts := startServer(t)
	code := func(path string) int {
		t.Helper()
		code, _ := ts.anonymous(t, path)
		return code
	}
	const shared = "/api/v1/namespaces/kube-public/configmaps"
	for path, want := range map[string]int{"/version": 200, "/api": 401, shared: 401} {
		if got := code(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	ts.role(t, "kube-public", "shared", rule("list", "", "configmaps"))
	ts.grant(t, "kube-public", "Role/shared", "Group/system:unauthenticated")
	for path, want := range map[string]int{shared: 200, "/api/v1/namespaces/kube-public/secrets": 401, "/api/v1/configmaps": 401} {
		if got := code(path); got != want {
			t.Errorf("bound, %s: %d, want %d", path, got, want)
		}
	}
	if err := ts.client(t).RbacV1().ClusterRoleBindings().Delete(t.Context(), "system:public-info-viewer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := code("/version"); got != 403 {
		t.Errorf("without its binding: %d", got)
	}
}

func TestWhatAnAccountLacks(t *testing.T) {
	ts := startServer(t)
	c := ts.with(t, ts.token(t, ts.account(t, "robot", ""), nil).Status.Token)
	refusal := func() string {
		t.Helper()
		_, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return err.Error()
	}
	ts.grant(t, "default", "Role/reader", "ServiceAccount/robot")
	if got := refusal(); !strings.HasSuffix(
		got,
		`the Role "reader" of the namespace "default" does not exist, which the RoleBinding "reader/default" grants to the ServiceAccount "robot", so its token may do nothing`,
	) {
		t.Error(got)
	}
	ts.role(t, "default", "reader", rule("get", "", "pods"))
	if got := refusal(); !strings.HasSuffix(got, `cannot list resource "secrets" in API group "" in the namespace "default"`) {
		t.Error(got)
	}
}

func TestDefaultRolesAtAStart(t *testing.T) {
	ts := startServer(t)
	api := ts.client(t).RbacV1()
	mine, err := api.ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"system:discovery", "jobd:read"} {
		if err := api.ClusterRoles().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := ts.store.Version()
	if err := ts.createRoles(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"system:discovery", "jobd:read", "jobd:submit", "jobd:admin"} {
		if r, err := api.ClusterRoles().Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(r.Rules) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if again, err := api.ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{}); err != nil || again.ResourceVersion != mine.ResourceVersion {
		t.Errorf("a role that lacks nothing is written: %v", err)
	}
	if got := ts.store.Version() - before; got != 2 {
		t.Errorf("%d writes", got)
	}
}
