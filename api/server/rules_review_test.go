package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/core"
)

// rulesOf returns what a client is told that it may do, as lines of verbs, resources with their group, and names.
func rulesOf(t *testing.T, c *kubernetes.Clientset, namespace string) (resources, paths string) {
	t.Helper()
	r, err := c.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil || r.Status.Incomplete {
		t.Fatalf("%+v: %v", r, err)
	}
	var lines []string
	for _, rule := range r.Status.ResourceRules {
		for _, resource := range rule.Resources {
			line := fmt.Sprintf("%s.%s %s %s", resource, rule.APIGroups[0], strings.Join(rule.Verbs, ","), strings.Join(rule.ResourceNames, ","))
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for _, rule := range r.Status.NonResourceRules {
		if paths != "" {
			paths += "; "
		}
		paths += strings.Join(rule.Verbs, ",") + " " + strings.Join(rule.NonResourceURLs, " ")
	}
	return strings.Join(lines, "\n"), paths
}

func TestTheRulesOfEachRole(t *testing.T) {
	ts := startServer(t)
	const (
		reads = " get,list,watch"
		full  = " get,list,watch,create,update,patch,delete,deletecollection"
		known = "get /livez /readyz /version /api /api/* /apis /apis/* /openapi /openapi/*; get /livez /readyz /version"
		keys  = "get /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/; "
	)
	account := ts.with(t, ts.token(t, ts.account(t, "robot", core.RoleSubmit), nil).Status.Token)
	for _, tc := range []struct {
		name, namespace string
		client          *kubernetes.Clientset
		yes, no         []string
		paths           string
	}{
		{"admin", "default", ts.limited(t, ""), []string{"*.* *"}, nil, "* *"},
		{
			"read", "default", ts.limited(t, "role=read"),
			[]string{"pods." + reads, "pods/log. get", "nodes." + reads, "namespaces." + reads, "selfsubjectrulesreviews.authorization.k8s.io create"},
			[]string{"secrets.", "pods/exec.", "pods/attach."},
			"get /metrics; " + known,
		},
		{
			"submit in one namespace", "default", ts.limited(t, "role=submit&namespace=default"),
			[]string{
				"pods." + full, "pods/exec. get,create", "jobs.batch" + full, "jobs/status.batch get", "secrets." + full,
				"serviceaccounts." + reads, "nodes." + reads, "namespaces." + reads + " default",
			},
			[]string{"serviceaccounts/token. create"}, known,
		},
		{
			"submit in another one", "kube-system", ts.limited(t, "role=submit&namespace=default"),
			[]string{"nodes." + reads, "selfsubjectreviews.authentication.k8s.io create"}, []string{"pods", "jobs", "namespaces"}, known,
		},
		{
			"admin in one namespace", "default", ts.limited(t, "role=admin&namespace=default"),
			[]string{
				"serviceaccounts." + full, "serviceaccounts/token. create", "jobs/status.batch get,update,patch",
				"namespaces." + reads + " default", "nodes." + reads,
			}, []string{"*"}, known,
		},
		{"a service account", "default", account, []string{"jobs.batch" + full}, []string{"serviceaccounts/token. create"}, keys + known},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resources, paths := rulesOf(t, tc.client, tc.namespace)
			lines := strings.Split(resources, "\n")
			for _, want := range tc.yes {
				if !slices.Contains(lines, want) {
					t.Errorf("%q is not in\n%s", want, resources)
				}
			}
			for _, start := range tc.no {
				if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, start) }) {
					t.Errorf("%q is in\n%s", start, resources)
				}
			}
			if paths != tc.paths {
				t.Errorf("paths: %s", paths)
			}
		})
	}
	if canI(t, ts.limited(t, "role=admin&namespace=default"), "* *.* default") ||
		canI(t, ts.limited(t, "role=read"), "get * default") || !canI(t, ts.limited(t, ""), "* *.*") {
		t.Error("who may do all but something may not do all")
	}
	_, err := ts.client(t).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{}, metav1.CreateOptions{})
	if !apierrors.IsBadRequest(err) || err.Error() != "no namespace on request" {
		t.Error(err)
	}
	if strings.Contains(ts.log.String(), "reviews") {
		t.Errorf("questions are logged as writes:\n%s", ts.log)
	}
}
