package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestShareOfANamespace(t *testing.T) {
	for value, want := range map[string]float64{"2": 2, "0.5": 0.5, "1000": 1000, "0": 0, "-1": 0, "1e9": 0, "NaN": 0, "Inf": 0, "twice": 0, "": 0} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", ResourceVersion: "1", Annotations: map[string]string{ShareAnnotation: value}}}
		share, err := Share(ns.Annotations)
		if share != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %v, %v", value, share, err)
		}
		if errs := append(validateNamespace(ns), validateNamespaceUpdate(ns, ns)...); (len(errs) == 0) != (want > 0) {
			t.Errorf("%q: %v", value, errs)
		}
	}
	if share, err := Share(nil); share != 0 || err != nil {
		t.Errorf("none is %v, %v", share, err)
	}
}
