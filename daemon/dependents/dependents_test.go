package dependents

import (
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestManyDependentsAreCounted(t *testing.T) {
	var d Dependents
	for i := range 1000 {
		d.Add(Dependent{Object: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}}, Kind: "Job"})
	}
	if len(d.Some) != namedDependents || len(d.Some)+d.Others != 1000 {
		t.Errorf("%d and %d", len(d.Some), d.Others)
	}
}
