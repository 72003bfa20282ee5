package upkeep_test

import (
	"slices"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestAggregatedClusterRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		put := func(name, label string, aggregates string, resources ...string) {
			r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{label: "true"}}}
			for _, resource := range resources {
				r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}})
			}
			if aggregates != "" {
				r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregates: "true"}}}}
			}
			w.Put(store.Key(rbac.ClusterRoles, "", name), r)
		}
		check := func(when, name string, want ...string) {
			t.Helper()
			synctest.Wait()
			r, got := &rbacv1.ClusterRole{}, []string{}
			if !w.Read(store.Key(rbac.ClusterRoles, "", name), objects.Object(r)) {
				t.Fatalf("%s: no role %s", when, name)
			}
			for _, rule := range r.Rules {
				got = append(got, rule.Resources...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s has %v, want %v", when, name, got, want)
			}
		}
		put("all", "", "to-all", "mine")
		check("nothing is selected", "all")
		put("some", "to-all", "to-some")
		put("a", "to-some", "", "pods")
		put("b", "to-some", "", "jobs", "pods")
		check("a role of a role", "all", "pods", "jobs")
		put("some", "to-all", "to-some", "mine")
		check("rules of its own are replaced", "some", "pods", "jobs")
		w.Write(func(tx *store.Tx) error { tx.Delete(store.Key(rbac.ClusterRoles, "", "b")); return nil })
		check("a role is gone", "all", "pods")
		put("a", "nothing", "", "pods")
		check("a role is selected no more", "all")
		put("a", "to-all", "", "pods")
		w.Stop()
		w.Start()
		check("after a restart", "all", "pods")
	})
}
