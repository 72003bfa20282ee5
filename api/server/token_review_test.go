package server

import (
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/tokens"
)

func askWhose(t *testing.T, c *kubernetes.Clientset, token string, audiences ...string) (*authenticationv1.TokenReview, error) {
	t.Helper()
	return c.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
}

func TestTokenReview(t *testing.T) {
	ts := startServer(t)
	ts.account(t, "robot", "")
	service := ts.with(t, ts.token(t, ts.account(t, "service", ""), nil).Status.Token)
	if _, err := askWhose(t, service, "x"); !apierrors.IsForbidden(err) {
		t.Errorf("without system:auth-delegator: %v", err)
	}
	ts.grant(t, "", "ClusterRole/system:auth-delegator", "ServiceAccount/service")

	of := func(name string) string {
		pod := podOf("robot")
		pod.Name = name
		mustMake(t, ts.client(t).CoreV1().Pods("default"), pod)
		ts.bind(t, name, "node")
		return ts.token(t, "robot", &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name}).Status.Token
	}
	here, gone := of("here"), of("gone")
	if err := ts.client(t).CoreV1().Pods("default").Delete(t.Context(), "gone", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	forOthers := func(audiences ...string) string {
		r, err := ts.client(t).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	const robot = "system:serviceaccount:default:robot"
	for _, tc := range []struct {
		name, token string
		asked       []string
		user, err   string
		audiences   []string
	}{
		{"for this API, when nothing is said", here, nil, robot, "", []string{tokens.Audience}},
		{"of a pod that is gone", gone, nil, "", `ended with pod "gone"`, nil},
		{"for others, when they are not asked about", forOthers("vault"), nil, "", `for the audiences ["vault"]`, nil},
		{"for others", forOthers("vault", "x", "y"), []string{"y", "z", "vault"}, robot, "", []string{"y", "vault"}},
		{"for this API, when others are asked about", here, []string{"vault"}, "", "none of which", nil},
		{"the administrator's", ts.adminToken, nil, "jobd:admin", "", []string{tokens.Audience}},
		{"the administrator's, for others", ts.adminToken, []string{"vault"}, "", "invalid bearer token", nil},
		{"nobody's", "x", nil, "", "invalid bearer token", nil},
		{"two words of which one is a token", here + " x", nil, "", "invalid bearer token", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := askWhose(t, service, tc.token, tc.asked...)
			if err != nil {
				t.Fatal(err)
			}
			s := r.Status
			if s.Authenticated != (tc.err == "") || s.User.Username != tc.user || !strings.Contains(s.Error, tc.err) ||
				(s.Error == "") != (tc.err == "") || !slices.Equal(s.Audiences, tc.audiences) {
				t.Errorf("got %+v", s)
			}
			if tc.err == "" && !slices.Contains(s.User.Groups, "system:authenticated") {
				t.Errorf("groups %v", s.User.Groups)
			}
		})
	}
	r, err := askWhose(t, service, here)
	if err != nil {
		t.Fatal(err)
	}
	who := r.Status.User
	for _, key := range []string{"pod-name", "pod-uid", "node-name", "credential-id"} {
		if len(who.Extra["authentication.kubernetes.io/"+key]) != 1 {
			t.Errorf("no %s in %v", key, who.Extra)
		}
	}
	if who.UID == "" || !slices.Equal(who.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}) {
		t.Errorf("got %+v", who)
	}
	if _, err := askWhose(t, service, ""); !apierrors.IsBadRequest(err) {
		t.Errorf("about no token: %v", err)
	}
	said := &authenticationv1.TokenReview{
		Spec:   authenticationv1.TokenReviewSpec{Token: "x"},
		Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "me"}},
	}
	if r, err := service.AuthenticationV1().TokenReviews().Create(t.Context(), said, metav1.CreateOptions{}); err != nil ||
		r.Status.Authenticated || r.Status.User.Username != "" {
		t.Errorf("the answer in a question counts: %+v, %v", r, err)
	}
	if strings.Contains(ts.log.String(), "tokenreviews") {
		t.Errorf("questions are logged as writes:\n%s", ts.log)
	}
}

// A service that knows nothing but the documents of the issuer can verify tokens.
func TestServiceAccountIssuerDiscovery(t *testing.T) {
	ts := startServer(t)
	token := ts.token(t, ts.account(t, "robot", ""), nil).Status.Token
	var about struct {
		Issuer     string   `json:"issuer"`
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	read := func(path string, into any) {
		t.Helper()
		data, err := ts.with(t, token).RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	read("/.well-known/openid-configuration", &about)
	path, below := strings.CutPrefix(about.Keys, about.Issuer)
	if !below {
		t.Fatalf("got %+v", about)
	}
	var keys jose.JSONWebKeySet
	read(path, &keys)
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(about.Algorithms[0])})
	if err != nil {
		t.Fatal(err)
	}
	known := keys.Key(parsed.Headers[0].KeyID)
	if len(known) != 1 {
		t.Fatalf("%+v has no key %s", keys, parsed.Headers[0].KeyID)
	}
	if _, public := known[0].Key.(*ecdsa.PublicKey); !public {
		t.Fatalf("the key is a %T", known[0].Key)
	}
	claims := jwt.Claims{}
	if err := parsed.Claims(known[0].Key, &claims); err != nil || claims.Issuer != about.Issuer {
		t.Errorf("%+v: %v", claims, err)
	}

	code, _ := ts.anonymous(t, path)
	if code != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", code)
	}
	mustMake(t, ts.client(t).RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "verifiers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:service-account-issuer-discovery"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:unauthenticated"}},
	})
	code, headers := ts.anonymous(t, path)
	if code != http.StatusOK || headers.Get("Content-Type") != "application/jwk-set+json" || !strings.Contains(headers.Get("Cache-Control"), "public") {
		t.Errorf("without credentials where a binding allows it: %d %v", code, headers)
	}
	if _, document := ts.do(t, "GET", "/openapi/v2", "", ""); !strings.Contains(document, `"`+path+`/"`) ||
		!strings.Contains(document, "/apis/authentication.k8s.io/v1/tokenreviews") {
		t.Error("the paths are not in OpenAPI")
	}
}
