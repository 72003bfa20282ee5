package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAmountsOfAQuotaAreRounded(t *testing.T) {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"cpu": resource.MustParse("500u"), "memory": resource.MustParse("1Gi"),
	}}}
	ResourceQuotaKind().Default(q)
	cpu, memory := q.Spec.Hard["cpu"], q.Spec.Hard["memory"]
	if cpu.Cmp(resource.MustParse("1m")) != 0 || memory.Cmp(resource.MustParse("1Gi")) != 0 {
		t.Errorf("%v", q.Spec.Hard)
	}
}
