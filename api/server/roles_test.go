package server

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/roles"
)

// limited returns a client with the kubeconfig of a role.
func (ts *testServer) limited(t *testing.T, query string) *kubernetes.Clientset {
	t.Helper()
	code, text := ts.do(t, "GET", "/jobd/v1/kubeconfig?"+query, "", "")
	if code != 200 {
		t.Fatalf("%s: %d %s", query, code, text)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return mustClient(t, config)
}

func mustClient(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// canI asks the server whether a client may do something and, where that can be tried, tries it: an answer that does
// not hold would be worth nothing.
func canI(t *testing.T, c *kubernetes.Clientset, question string) bool {
	t.Helper()
	f := strings.Fields(question)
	resource, subresource, _ := strings.Cut(f[1], "/")
	resource, group, _ := strings.Cut(resource, ".")
	attributes := &authorizationv1.ResourceAttributes{Verb: f[0], Resource: resource, Group: group, Subresource: subresource}
	if len(f) > 2 {
		attributes.Namespace = f[2]
	}
	review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f[0] == "list" {
		path := "/api/v1"
		if group != "" {
			path = "/apis/" + group + "/v1"
		}
		if len(f) > 2 {
			path += "/namespaces/" + f[2]
		}
		if err := c.RESTClient().Get().AbsPath(path, resource).Do(t.Context()).Error(); (err == nil) != review.Status.Allowed {
			t.Errorf("%s: allowed %v, but %v", question, review.Status.Allowed, err)
		}
	}
	return review.Status.Allowed
}

func TestRoles(t *testing.T) {
	ts := startServer(t)
	account := func(name, role string) *kubernetes.Clientset {
		return ts.with(t, ts.token(t, ts.account(t, name, role), nil).Status.Token)
	}
	for _, tc := range []struct {
		name    string
		client  *kubernetes.Clientset
		yes, no []string
	}{
		{
			"read", ts.limited(t, "role=read"),
			[]string{"list jobs.batch", "list pods default", "get pods/log default", "list nodes", "list namespaces", "watch events default"},
			[]string{
				"list secrets", "create jobs.batch default", "delete pods default", "get pods/exec default",
				"get pods/attach default", "create pods/portforward default", "get pods/proxy default",
				"create pods/eviction default", "get persistentvolumeclaims/files default", "get pods/files default",
				"update pods/resize default", "create jobs.batch/retry default",
			},
		},
		{
			"submit", ts.limited(t, "role=submit"),
			[]string{
				"list jobs.batch", "create jobs.batch default", "create cronjobs.batch kube-system",
				"create podgroups.scheduling.k8s.io default", "create persistentvolumeclaims default",
				"get persistentvolumeclaims/files default", "update persistentvolumeclaims/files default",
				"list storageclasses.storage.k8s.io", "list secrets", "get pods/files default", "update pods/resize default",
				"create jobs.batch/retry default", "create pods/exec default", "create pods/attach default",
				"get pods/portforward default", "get pods/proxy default", "create pods/eviction default",
			},
			[]string{
				"update jobs.batch/status default", "create namespaces", "update nodes", "create serviceaccounts default",
				"delete priorityclasses.scheduling.k8s.io", "create persistentvolumes", "delete persistentvolumes",
				"update persistentvolumeclaims/status default", "create storageclasses.storage.k8s.io",
			},
		},
		{
			"submit in one namespace", ts.limited(t, "role=submit&namespace=default"),
			[]string{"list jobs.batch default", "create jobs.batch default", "list nodes", "get namespaces default"},
			[]string{
				"list jobs.batch", "list jobs.batch kube-system", "create jobs.batch kube-system", "list namespaces",
				"list secrets", "list jobs.history.jobd.dev", "list jobs.history.jobd.dev kube-system",
			},
		},
		{
			"admin in one namespace", ts.limited(t, "role=admin&namespace=default"),
			[]string{"create serviceaccounts default", "list secrets default", "update jobs.batch/status default", "get pods/status default"},
			[]string{
				"update pods/status default", "patch pods/status default", "list secrets kube-system", "update nodes",
				"delete namespaces default", "create limitranges default", "update resourcequotas default",
				"create persistentvolumes", "list persistentvolumes", "create storageclasses.storage.k8s.io",
			},
		},
		{"admin", ts.limited(t, ""), []string{"create namespaces", "update nodes", "list secrets"}, nil},
		{
			"a service account that reads", account("reader", core.RoleRead),
			[]string{"list jobs.batch default", "get pods/log default", "list nodes"},
			[]string{
				"list secrets default", "create jobs.batch default", "list jobs.batch", "create serviceaccounts/token default",
				"impersonate serviceaccounts default",
			},
		},
		{
			"a service account that submits", account("robot", core.RoleSubmit),
			[]string{"create jobs.batch default", "list secrets default", "create pods/exec default"},
			[]string{
				"list jobs.batch", "list jobs.batch kube-system", "create serviceaccounts default",
				"create serviceaccounts/token default", "update serviceaccounts default",
			},
		},
		{
			"a service account that administers its namespace", account("boss", core.RoleAdmin),
			[]string{"create serviceaccounts/token default", "update jobs.batch/status default"},
			[]string{"create serviceaccounts/token kube-system", "list secrets", "update nodes", "delete namespaces default"},
		},
		{"a service account without a role", account("nobody", ""), nil, []string{"list jobs.batch default", "get configmaps default", "list nodes"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, question := range tc.yes {
				if !canI(t, tc.client, question) {
					t.Errorf("may not %s", question)
				}
			}
			for _, question := range tc.no {
				if canI(t, tc.client, question) {
					t.Errorf("may %s", question)
				}
			}
		})
	}
	me, err := ts.limited(t, "role=read&namespace=default").AuthenticationV1().SelfSubjectReviews().Create(
		t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
	)
	if err != nil || me.Status.UserInfo.Username != "jobd:read:default" || !strings.Contains(fmt.Sprint(me.Status.UserInfo.Groups), "jobd:role:read:default") {
		t.Errorf("%+v: %v", me, err)
	}
	if code, text := ts.do(t, "GET", "/jobd/v1/kubeconfig?role=root", "", ""); code != 400 || !strings.Contains(text, "it is read, submit or admin") {
		t.Errorf("a role that is not there: %d %s", code, text)
	}
}

func TestActingAsSomebodyElse(t *testing.T) {
	ts := startServer(t)
	robot := rest.ImpersonationConfig{UserName: "system:serviceaccount:default:" + ts.account(t, "robot", core.RoleSubmit)}
	as := func(config *rest.Config, who rest.ImpersonationConfig) *kubernetes.Clientset {
		config.Impersonate = who
		return mustClient(t, config)
	}
	token := func(name, role string) *rest.Config {
		return &rest.Config{
			Host: "https://" + ts.tls.String(), BearerToken: ts.token(t, ts.account(t, name, role), nil).Status.Token,
			TLSClientConfig: rest.TLSClientConfig{CAData: ts.authority.Certificate()},
		}
	}
	c := as(ts.config(), robot)
	if !canI(t, c, "create jobs.batch default") || canI(t, c, "list secrets kube-system") || canI(t, c, "create namespaces") {
		t.Error("an administrator is not what it acts as")
	}
	if _, err := c.CoreV1().ConfigMaps("default").Create(
		t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{},
	); err != nil {
		t.Error(err)
	}
	if said := ts.log.String(); !strings.Contains(said, "user=system:serviceaccount:default:robot actor=jobd:uid:") {
		t.Errorf("it is not said who acts:\n%s", said)
	}
	if c := as(token("boss", core.RoleAdmin), robot); !canI(t, c, "create jobs.batch default") {
		t.Error("who administers a namespace does not act as its accounts")
	}
	for name, who := range map[string]rest.ImpersonationConfig{
		"another account":  robot,
		"an administrator": {UserName: "root", Groups: []string{roles.AdminGroup}},
	} {
		_, err := as(
			token("submits-"+strings.ReplaceAll(name, " ", "-"), core.RoleSubmit), who,
		).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("who submits acts as %s: %v", name, err)
		}
	}
	_, err := as(
		token("chief", core.RoleAdmin), rest.ImpersonationConfig{UserName: "root", Groups: []string{roles.AdminGroup}},
	).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("who administers a namespace acts as an administrator of all: %v", err)
	}
}
