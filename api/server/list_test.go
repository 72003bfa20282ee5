package server

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestListInPages(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	for i := range 5 {
		if _, err := jobs.Create(t.Context(), newJob(fmt.Sprint("j", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	options := metav1.ListOptions{Limit: 2}
	for {
		l, err := jobs.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range l.Items {
			names = append(names, j.Name)
		}
		if options.Continue = l.Continue; l.Continue == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "j0 j1 j2 j3 j4" {
		t.Error(got)
	}
}

func TestSelectors(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	for _, name := range []string{"a", "b"} {
		mustMake(t, c.CoreV1().Pods("default"), newPod(name, "c"))
		ts.bind(t, name, "node-"+name)
	}
	for _, tc := range []struct {
		selector string
		want     int
	}{
		{"metadata.name=a", 1},
		{"spec.nodeName=node-b", 1},
		{"spec.nodeName!=node-b", 1},
		{"status.phase=Pending", 2},
		{"status.phase=Running", 0},
	} {
		l, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: tc.selector})
		if err != nil || len(l.Items) != tc.want {
			t.Errorf("%s: %d Pods, not %d: %v", tc.selector, len(l.Items), tc.want, err)
		}
	}
	if _, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nope=x"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a field that cannot be selected by: %v", err)
	}
}
