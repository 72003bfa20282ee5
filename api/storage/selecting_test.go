package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
)

// TestListBySelector compares lists with what each selector itself says of each object.
func TestListBySelector(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := []string{"a", "example.com/a", "job-name", "tier.x_y-z"}
	values := []string{"", "a", "job-name", "1", "22", "A_b.c-d"}
	s := pods(t)
	var all []*corev1.Pod
	for i := range 60 {
		set := map[string]string{}
		for _, key := range keys {
			if r.IntN(2) == 0 {
				set[key] = values[r.IntN(len(values))]
			}
		}
		all = append(all, create(t, s, pod(fmt.Sprintf("p%02d", i), set)))
	}
	operators := []func(key, one, other string) string{
		func(key, one, _ string) string { return key + "=" + one },
		func(key, one, _ string) string { return key + "==" + one },
		func(key, one, _ string) string { return key + "!=" + one },
		func(key, one, other string) string { return key + " in (" + one + "," + other + ")" },
		func(key, one, _ string) string { return key + " in (" + one + ")" },
		func(key, one, other string) string { return key + " notin (" + one + "," + other + ")" },
		func(key, _, _ string) string { return key },
		func(key, _, _ string) string { return "!" + key },
		func(key, _, _ string) string { return key + ">2" },
		func(key, _, _ string) string { return key + "<22" },
	}
	matched := 0
	for range 500 {
		var terms []string
		for range 1 + r.IntN(2) {
			terms = append(terms, operators[r.IntN(len(operators))](keys[r.IntN(len(keys))], values[r.IntN(len(values))], values[r.IntN(len(values))]))
		}
		selector, err := labels.Parse(strings.Join(terms, ","))
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, p := range all {
			if selector.Matches(labels.Set(p.Labels)) {
				want = append(want, p.Name)
			}
		}
		list := &corev1.PodList{}
		opts := storage.ListOptions{Recursive: true, Predicate: selecting(strings.Join(terms, ","))}
		if err := s.GetList(context.Background(), "/pods/default/", opts, list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			got = append(got, list.Items[i].Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", selector, got, want)
		}
		matched += len(got)
	}
	if matched == 0 {
		t.Error("no selector has matched anything")
	}
}
