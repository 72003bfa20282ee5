package server

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKubeconfigOfAPerson(t *testing.T) {
	ts := startServer(t)
	ann := ts.limited(t, url.Values{"user": {"ann"}, "group": {"dev", "ops team"}, "namespace": {"default"}}.Encode())
	me, err := ann.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if who := me.Status.UserInfo; who.Username != "ann" || !slices.Equal(who.Groups, []string{"dev", "ops team", "system:authenticated"}) {
		t.Errorf("%+v", who)
	}
	if canI(t, ann, "list pods default") || canI(t, ann, "list nodes") {
		t.Error("somebody whom no binding names has rights")
	}
	ts.grant(t, "default", "ClusterRole/view", "Group/ops team")
	if !canI(t, ann, "list pods default") || canI(t, ann, "list pods kube-system") || canI(t, ann, "create pods default") {
		t.Error("the rights are not those of the binding")
	}
	for _, tc := range []struct{ query, want string }{
		{"user=ann&role=read", "exclude each other"},
		{"group=dev", "needs --user"},
		{"user=system:admin", "cannot begin with system:"},
		{"user=system:serviceaccount:default:default", "cannot begin with system:"},
		{"user=ann&group=system:masters", "cannot begin with system:"},
		{"user=ann&group=jobd:admins", "or jobd:"},
		{"user=ann&group=jobd:role:admin", "or jobd:"},
		{"user=ann&group=", "needs a name"},
		{"user=a%00b", "cannot be the name"},
		{"user=ann&namespace=A", "cannot be the name of a namespace"},
	} {
		if code, text := ts.do(t, "GET", "/jobd/v1/kubeconfig?"+tc.query, "", ""); code != 400 || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %d %s", tc.query, code, text)
		}
	}
}
