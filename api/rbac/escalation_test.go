package rbac

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

func rulesOf(list string) (rules []rbacv1.PolicyRule) {
	for s := range strings.SplitSeq(list, ";") {
		if strings.TrimSpace(s) != "" {
			rules = append(rules, ruleOf(s))
		}
	}
	return rules
}

func TestEscalation(t *testing.T) {
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"dev"}}
	const start = `user "ann" (groups=["dev"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	for _, tc := range []struct{ name, holds, grants, want string }{
		{"the same", "get core pods", "get core pods", ""},
		{"nothing", "get core pods", "", ""},
		{"a part", "get,list core,batch pods,jobs", "get batch jobs", ""},
		{"put together from several rules", "get core pods; list core pods", "get,list core pods", ""},
		{"a star covers all", "* * *", "get batch jobs/log; * * *", ""},
		{"names of what is held", "get core pods", "get core pods a,b", ""},
		{"a subresource of all", "get core */log", "get core pods/log", ""},
		{"paths below", "get /logs/*", "get /logs/a", ""},
		{"another verb", "get core pods", "get,list,watch core pods", start + `{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}`},
		{"more names", "get core pods a", "get core pods a,b", start + `{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}`},
		{"without names", "get core pods a", "get core pods", start + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"a star", "get,list core pods,jobs", "* core pods", start + `{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		{"a subresource", "get core pods", "get core pods/log", start + `{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}`},
		{
			"a resource in another group", "get core pods", "get batch pods; get /x",
			start + `{APIGroups:["batch"], Resources:["pods"], Verbs:["get"]}` + "\n" + `{NonResourceURLs:["/x"], Verbs:["get"]}`,
		},
		{"resources cover no paths", "* * *", "get /x", start + `{NonResourceURLs:["/x"], Verbs:["get"]}`},
	} {
		err := Escalation(ann, rulesOf(tc.holds), rulesOf(tc.grants), nil)
		if got := text(err); got != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}
	many := make([]string, 1000)
	err := Escalation(ann, nil, []rbacv1.PolicyRule{{Verbs: many, APIGroups: many, Resources: many}}, nil)
	if !strings.Contains(text(err), "more than 100000 permissions") {
		t.Error(err)
	}
}

// What many rules cost grows with their number, not with its square.
func TestEscalationWithManyRules(t *testing.T) {
	ann := &user.DefaultInfo{Name: "ann"}
	many := make([]rbacv1.PolicyRule, 40_000)
	for i := range many {
		many[i] = rbacv1.PolicyRule{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{fmt.Sprint("n", i)},
		}
	}
	if err := Escalation(ann, rulesOf("get core configmaps"), many, nil); err != nil {
		t.Error(err)
	}
	if err := Escalation(ann, many, many, nil); !strings.Contains(text(err), "too many to compare") {
		t.Errorf("many of many: %v", len(text(err)))
	}
	err := Escalation(ann, rulesOf("get core pods"), many, nil)
	if lines := strings.Count(text(err), "\n"); lines != mostDescribed+1 || !strings.HasSuffix(text(err), "\nand 39000 more") {
		t.Errorf("an error of %d lines", lines)
	}
}

// Nor do the names in a rule that is held multiply with those in one that is granted.
func TestEscalationWithManyNames(t *testing.T) {
	rule := ruleOf("get core pods")
	for i := range 90_000 {
		rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("n", i))
	}
	all := []rbacv1.PolicyRule{rule}
	begin := time.Now()
	if err := Escalation(&user.DefaultInfo{Name: "ann"}, all, all, nil); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 20*time.Second { // a tenth of a second; a map of the names for each of them takes minutes
		t.Errorf("it took %v", took)
	}
}

// What rules do not cover is what a cluster says.
func TestUncoveredIsThatOfACluster(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(of ...string) (list []string) {
		for _, s := range of {
			if r.IntN(4) == 0 {
				list = append(list, s)
			}
		}
		return list
	}
	random := func() (rules []rbacv1.PolicyRule) {
		for range r.IntN(5) {
			rule := rbacv1.PolicyRule{Verbs: some("get", "list", "create", "*")}
			if r.IntN(4) == 0 {
				rule.NonResourceURLs = some("/a", "/a*", "/ab", "/ab/*", "*")
			} else {
				rule.APIGroups = some("", "batch", "*")
				rule.Resources = some("pods", "pods/log", "*/log", "jobs", "*", "pods/*", "/", "a/b/c", "*/b/c")
			}
			if r.IntN(3) == 0 {
				rule.ResourceNames = some("a", "b", "c", "")
			}
			rules = append(rules, rule)
		}
		return rules
	}
	both := map[bool]int{}
	for range 20_000 {
		holds, grants := random(), random()
		_, want := validation.Covers(holds, grants)
		got := uncovered(holds, grants)
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("holds %v, grants %v:\ngot  %v\nwant %v", holds, grants, got, want)
		}
		both[len(want) == 0 && len(grants) > 0]++
	}
	if both[true] < 100 || both[false] < 100 {
		t.Errorf("one-sided: %v", both)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
