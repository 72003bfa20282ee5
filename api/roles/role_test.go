package roles

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestWhatRolesAllow(t *testing.T) {
	for _, tc := range []struct{ role, allowed, refused string }{
		{"read", "get pods team, watch jobs.batch team, list nodes", "create pods team, get secrets team, get pods/exec team"},
		{"read", "list gpus.gpus.jobd.dev", "get processes.gpus.jobd.dev"},
		{"submit", "list gpus.gpus.jobd.dev", "get processes.gpus.jobd.dev"},
		{"admin", "get processes.gpus.jobd.dev", ""},
		{"admin:team", "", "list gpus.gpus.jobd.dev, get processes.gpus.jobd.dev"},
		{"submit", "create jobs.batch team, get secrets team, create pods/exec team", "update pods/status team, create pods/log team, create roles team, delete nodes"},
		{"admin", "delete nodes, create namespaces, get secrets team", ""},
		{"read:team", "get pods team, list nodes", "get pods other, get pods"},
		{"admin:team", "create pods/exec team, update secrets team, get namespaces team",
			"update namespaces team, update resourcequotas team, update pods/status team, create pods/log team, create pods other, delete nodes"},
	} {
		name, namespace, _ := strings.Cut(tc.role, ":")
		r, err := New(name, namespace)
		if err != nil {
			t.Fatal(err)
		}
		for questions, want := range map[string]bool{tc.allowed: true, tc.refused: false} {
			for question := range strings.SplitSeq(questions, ", ") {
				if f := append(strings.Fields(question), ""); len(f) > 2 && r.Allows(asked(f)) != want {
					t.Errorf("%s: %s: allowed %v", tc.role, question, !want)
				}
			}
		}
	}
}

// asked returns the question whether somebody may use a verb on a resource, in a namespace or in none.
func asked(f []string) authorizer.Attributes {
	resource, subresource, _ := strings.Cut(f[1], "/")
	resource, group, _ := strings.Cut(resource, ".")
	return authorizer.AttributesRecord{
		ResourceRequest: true, Verb: f[0], Resource: resource, Subresource: subresource, APIGroup: group, Namespace: f[2],
	}
}

func TestARoleHasAName(t *testing.T) {
	for _, bad := range [][2]string{{"root", ""}, {"", ""}, {"read", "No.Namespace"}} {
		if _, err := New(bad[0], bad[1]); err == nil {
			t.Errorf("%q is a role", bad)
		}
	}
	r, err := New("read", "team")
	if err != nil || r.Group() != "jobd:role:read:team" {
		t.Errorf("%v: %v", r, err)
	}
	for group, want := range map[string]string{
		r.Group(): "{read team}  true", r.GroupOf(""): "{read team}  true", r.GroupOf("u-1"): "{read team} u-1 true",
		Role{Name: "admin"}.GroupOf("u-1"): "{admin }  true", "jobd:role:root": "{ }  false", "jobd:admins": "{ }  false",
	} {
		of, uid, ok := OfGroup(group)
		if got := fmt.Sprint(of, " ", uid, " ", ok); got != want {
			t.Errorf("%s: %s, want %s", group, got, want)
		}
	}
}
