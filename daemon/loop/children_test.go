package loop

import (
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// parent knows its Jobs by their UIDs.
type parent struct {
	key  string
	jobs map[types.UID]bool
}

func (p *parent) Key() string                { return p.key }
func (p *parent) SetJob(j *batchv1.Job) bool { p.jobs[j.UID] = true; return true }
func (p *parent) DropJob(uid types.UID)      { delete(p.jobs, uid) }

func TestChildrenAreOfWhoControlsThem(t *testing.T) {
	known := map[types.UID]*parent{}
	for _, name := range []string{"a", "b"} {
		known[types.UID(name)] = &parent{"sets/ns/" + name, map[types.UID]bool{}}
	}
	of := func(j metav1.Object) (string, types.UID) {
		if c := metav1.GetControllerOf(j); c != nil {
			return c.Name, c.UID
		}
		return "", ""
	}
	c := NewChildren("sets", of, known, NewQueue[string]())
	job := func(namespace, owner string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: "j"}}
		if owner != "" {
			yes := true
			j.OwnerReferences = []metav1.OwnerReference{{Name: owner, UID: types.UID(owner), Controller: &yes}}
		}
		return j
	}
	expect := func(when, dirty string, children int, a, b bool) {
		t.Helper()
		keys := []string{}
		for key, ok := c.dirty.Take(); ok; key, ok = c.dirty.Take() {
			keys = append(keys, strings.TrimPrefix(key, "sets/ns/"))
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != dirty || c.Len() != children || known["a"].jobs["j"] != a || known["b"].jobs["j"] != b {
			t.Errorf("%s: %q are to be decided on, %d children, %v", when, got, c.Len(), slices.Collect(maps.Values(known)))
		}
	}
	change := func(j *batchv1.Job) {
		if err := c.JobChanged(nil, "", j); err != nil {
			t.Fatal(err)
		}
	}
	change(job("other", "a"))
	expect("of another namespace", "", 0, false, false)
	change(job("ns", "nobody"))
	expect("of one that is not known", "", 0, false, false)
	change(job("ns", "a"))
	expect("of a", "a", 1, true, false)
	change(job("ns", "b"))
	expect("of b instead", "a b", 1, false, true)
	change(job("ns", ""))
	expect("of nobody", "b", 0, false, false)
	c.JobRecovered("", job("ns", "a"))
	expect("found", "a", 1, true, false)
	c.JobGone(nil, "", job("ns", "a"))
	expect("gone", "a", 0, false, false)
}
