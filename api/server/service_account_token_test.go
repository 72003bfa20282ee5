package server

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/roles"
)

// account creates a ServiceAccount, with a role unless that is empty, and returns its name.
func (ts *testServer) account(t *testing.T, name, role string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if role != "" {
		sa.Annotations = map[string]string{core.RoleAnnotation: role}
	}
	mustMake(t, ts.client(t).CoreV1().ServiceAccounts("default"), sa)
	return name
}

// token requests a token of a ServiceAccount, bound to an object unless that is nil.
func (ts *testServer) token(t *testing.T, account string, to *authenticationv1.BoundObjectReference) *authenticationv1.TokenRequest {
	t.Helper()
	r, err := ts.client(t).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// with returns a client over TLS that has a token.
func (ts *testServer) with(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	return mustClient(
		t,
		&rest.Config{Host: "https://" + ts.tls.String(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ts.authority.Certificate()}},
	)
}

func podOf(account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bound"},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func TestTokenRequest(t *testing.T) {
	ts := startServer(t)
	ts.account(t, "robot", "")
	pod := mustMake(t, ts.client(t).CoreV1().Pods("default"), podOf("robot"))
	accounts := ts.client(t).CoreV1().ServiceAccounts("default")
	toPod := func(edit func(*authenticationv1.BoundObjectReference)) *authenticationv1.BoundObjectReference {
		ref := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name}
		if edit != nil {
			edit(ref)
		}
		return ref
	}
	for _, c := range []struct {
		name, account string
		spec          authenticationv1.TokenRequestSpec
		err           string
	}{
		{"an hour for this API, when nothing is said", "robot", authenticationv1.TokenRequestSpec{}, ""},
		{"for others", "robot", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}, ExpirationSeconds: ptr.To(int64(600))}, ""},
		{
			"less than ten minutes is too short", "robot",
			authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(599))},
			"may not specify a duration less than 10 minutes",
		},
		{
			"an age is too long", "robot", authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(1)<<32 + 1)},
			"may not specify a duration larger than 2^32 seconds",
		},
		{"of an account that is not there", "nobody", authenticationv1.TokenRequestSpec{}, `serviceaccounts "nobody" not found`},
		{"bound to a pod", "robot", authenticationv1.TokenRequestSpec{BoundObjectRef: toPod(nil)}, ""},
		{
			"bound to the pod of that uid", "robot",
			authenticationv1.TokenRequestSpec{BoundObjectRef: toPod(func(r *authenticationv1.BoundObjectReference) { r.UID = pod.UID })},
			"",
		},
		{
			"not to one of another uid", "robot",
			authenticationv1.TokenRequestSpec{BoundObjectRef: toPod(func(r *authenticationv1.BoundObjectReference) { r.UID = "other" })},
			"does not match the UID in record",
		},
		{
			"not to a pod of another account", "default", authenticationv1.TokenRequestSpec{BoundObjectRef: toPod(nil)},
			`cannot bind token for serviceaccount "default" to pod running with serviceaccount "robot"`,
		},
		{
			"not to what is not there", "robot",
			authenticationv1.TokenRequestSpec{BoundObjectRef: toPod(func(r *authenticationv1.BoundObjectReference) { r.Kind = "Secret" })},
			`secrets "bound" not found`,
		},
		{
			"not to any kind", "robot",
			authenticationv1.TokenRequestSpec{BoundObjectRef: toPod(func(r *authenticationv1.BoundObjectReference) { r.Kind = "ConfigMap" })},
			"cannot bind token to object of type /v1, Kind=ConfigMap",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.account == "default" {
				_, _ = accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
			}
			r, err := accounts.CreateToken(t.Context(), c.account, &authenticationv1.TokenRequest{Spec: c.spec}, metav1.CreateOptions{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			life := time.Duration(ptr.Deref(c.spec.ExpirationSeconds, 3600)) * time.Second
			if left := time.Until(r.Status.ExpirationTimestamp.Time); left > life || left < life-time.Minute ||
				r.Name != c.account || len(r.Spec.Audiences) != 1 {
				t.Errorf("lasts %v: %+v", left, r)
			}
			_, err = ts.with(t, r.Status.Token).AuthenticationV1().SelfSubjectReviews().Create(
				t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
			)
			if forUs := len(c.spec.Audiences) == 0; (err == nil) != forUs {
				t.Errorf("it is for this API: %v, but %v", forUs, err)
			}
		})
	}
	dry, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.Status.Token != "" {
		t.Errorf("a dry run gave %+v, %v", dry.Status, err)
	}
}

func TestWhoAToken(t *testing.T) {
	ts := startServer(t)
	ts.account(t, "robot", "")
	pod := mustMake(t, ts.client(t).CoreV1().Pods("default"), podOf("robot"))
	ts.bind(t, pod.Name, "node")
	r := ts.token(t, "robot", &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name})
	c := ts.with(t, r.Status.Token)
	me, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	who := me.Status.UserInfo
	extra := func(key string) string { return strings.Join(who.Extra["authentication.kubernetes.io/"+key], " ") }
	if who.Username != "system:serviceaccount:default:robot" ||
		strings.Join(who.Groups, " ") != "system:serviceaccounts system:serviceaccounts:default system:authenticated" ||
		extra("pod-name") != "bound" || extra("pod-uid") != string(pod.UID) || extra("node-name") != "node" ||
		!strings.HasPrefix(extra("credential-id"), "JTI=") {
		t.Errorf("got %+v", who)
	}
	if _, err := c.Discovery().ServerPreferredResources(); err != nil {
		t.Errorf("discovery: %v", err)
	}
	if _, err := c.CoreV1().Pods("default").Get(t.Context(), "bound", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	if err := ts.client(t).CoreV1().Pods("default").Delete(t.Context(), "bound", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods("default").Get(t.Context(), "bound", metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("without its pod: %v", err)
	}
}

func TestRoleOfAServiceAccount(t *testing.T) {
	ts := startServer(t)
	accounts := ts.client(t).CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(
		t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{core.RoleAnnotation: "root"}}},
		metav1.CreateOptions{},
	)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `metadata.annotations[jobd.dev/role]: Unsupported value: "root"`) {
		t.Errorf("a role that is not there: %v", err)
	}
	ts.account(t, "robot", core.RoleRead)
	c := ts.with(t, ts.token(t, "robot", nil).Status.Token)
	if !canI(t, c, "list pods default") {
		t.Error("a role has no effect")
	}
	if _, err := accounts.Patch(
		t.Context(), "robot", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"jobd.dev/role":null}}}`),
		metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if canI(t, c, "list pods default") {
		t.Error("a role outlasts its annotation")
	}
}

// The listener for pods knows nobody except ServiceAccounts.
func TestListenerForPods(t *testing.T) {
	ts := startServer(t)
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	serve := func(clients netip.Prefix) string {
		t.Helper()
		l, err := listen.ForPods(netip.MustParseAddrPort("127.0.0.1:0"), clients, ts.authority)
		if err != nil {
			t.Fatal(err)
		}
		server := ts.httpServer(l)
		done := make(chan error, 1)
		go func() { done <- l.Serve(server, ts.pods.connections) }()
		t.Cleanup(func() {
			_ = server.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return "https://" + l.Addr().String()
	}
	ca := rest.TLSClientConfig{CAData: ts.authority.Certificate()}
	account := ts.token(t, ts.account(t, "robot", core.RoleRead), nil).Status.Token
	host := serve(loopback)
	cert, key, err := ts.authority.IssueClient("me", []string{roles.AdminGroup}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	withCertificate := ca
	withCertificate.CertData, withCertificate.KeyData = cert, key
	for _, c := range []struct {
		name   string
		config rest.Config
		code   int
	}{
		{"a service account", rest.Config{BearerToken: account, TLSClientConfig: ca}, http.StatusOK},
		{"the administrator's token", rest.Config{BearerToken: ts.adminToken, TLSClientConfig: ca}, http.StatusUnauthorized},
		{"an administrator's certificate", rest.Config{TLSClientConfig: withCertificate}, http.StatusUnauthorized},
		{"nobody", rest.Config{TLSClientConfig: ca}, http.StatusUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Host = host
			code := 0
			_ = mustClient(t, &c.config).CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods").Do(t.Context()).StatusCode(&code)
			if code != c.code {
				t.Errorf("%d, not %d", code, c.code)
			}
		})
	}
	t.Run("another address is not even listened to", func(t *testing.T) {
		host := serve(netip.MustParsePrefix("192.0.2.0/24"))
		_, err := mustClient(
			t, &rest.Config{Host: host, BearerToken: account, TLSClientConfig: ca},
		).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("got %v", err)
		}
	})
}
