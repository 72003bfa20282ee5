package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestWholePages(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"hugepages-2Mi": true, "hugepages-3Mi": false, "hugepages-": false, "hugepages-0": false, "hugepages-1m": false,
		"hugepages-1e-2000000000": false, "hugepages-1e2000000000": false,
	} {
		began := time.Now()
		if got := wholePages(name, resource.MustParse("4Mi")); got != want || time.Since(began) > time.Second {
			t.Errorf("%s: %v after %v", name, got, time.Since(began))
		}
	}
}
