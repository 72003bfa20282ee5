package history

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTenancyHas(t *testing.T) {
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	second := Tenancy{UID: "second", Began: began}
	for name, c := range map[string]struct {
		of  Tenancy
		job Job
		has bool
	}{
		"of all namespaces":                                {Tenancy{}, Job{NamespaceUID: "first"}, true},
		"of the namespace":                                 {second, Job{NamespaceUID: "second", Ended: metav1.NewTime(began.Add(time.Hour))}, true},
		"one that ended in the second of its start":        {second, Job{NamespaceUID: "second", Ended: metav1.NewTime(began)}, true},
		"of a former namespace":                            {second, Job{NamespaceUID: "first", Ended: metav1.NewTime(began)}, false},
		"of a former namespace, while the clock was ahead": {second, Job{NamespaceUID: "first", Ended: metav1.NewTime(began.Add(time.Hour))}, false},
		"of which it is not known, ended later":            {second, Job{Ended: metav1.NewTime(began.Add(time.Second))}, true},
		"of which it is not known, in the same second":     {second, Job{Ended: metav1.NewTime(began)}, false},
		"there is no namespace":                            {Tenancy{Began: began}, Job{NamespaceUID: "first", Ended: metav1.NewTime(began)}, false},
	} {
		if got := c.of.Has(&c.job); got != c.has {
			t.Errorf("%s: %v", name, got)
		}
	}
}
