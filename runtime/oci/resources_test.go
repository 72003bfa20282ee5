package oci

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// TestAmountsOfCPUAreMonotonous asks for more and more: shares and quota never become less, nor more than the kernel takes.
func TestAmountsOfCPUAreMonotonous(t *testing.T) {
	quantities := []string{
		"0", "1n", "1m", "10m", "100m", "1", "256", "1k", "1M", "1e12", "9223372036854775", "4611686018427650048m",
		"9223372036854775807", "1e30", "1e400",
	}
	shares, quota := uint64(0), int64(0)
	for _, s := range quantities {
		q := resource.MustParse(s)
		c := cpu(q, q)
		if *c.Shares < max(shares, minShares) || *c.Shares > maxShares {
			t.Errorf("%s CPUs get %d shares", s, *c.Shares)
		}
		shares = *c.Shares
		if c.Quota == nil {
			continue
		}
		if *c.Quota < quota || *c.Quota < minQuota || *c.Quota > maxQuota {
			t.Errorf("%s CPUs get a quota of %d", s, *c.Quota)
		}
		quota = *c.Quota
	}
}

// TestSumsOfContainers has pods whose containers ask for more together than can be counted.
func TestSumsOfContainers(t *testing.T) {
	quantities := []string{"1", "1Gi", "4611686018427650048m", "9223372036854775807", "1e30"}
	rapid.Check(t, func(t *rapid.T) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}}
		quantity := func() resource.Quantity { return resource.MustParse(rapid.SampledFrom(quantities).Draw(t, "quantity")) }
		for range rapid.IntRange(1, 4).Draw(t, "containers") {
			list := corev1.ResourceList{corev1.ResourceCPU: quantity(), corev1.ResourceMemory: quantity()}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: list, Limits: list}})
		}
		pod.Spec.Resources.Requests[corev1.ResourceMemory], pod.Spec.Resources.Limits[corev1.ResourceMemory] = quantity(), quantity()
		pod.Status.QOSClass = corev1.PodQOSBurstable
		host := Host{Memory: 1 << 34}
		if r := PodResources(pod, 0, host); *r.CPU.Shares < minShares || *r.CPU.Shares > maxShares || r.Memory != nil && *r.Memory.Limit <= 0 {
			t.Errorf("%+v %+v", r.CPU, r.Memory)
		}
		for i := range pod.Spec.Containers {
			in := Input{Pod: pod, Container: &pod.Spec.Containers[i], Host: host}
			if share := memoryShare(in); share < 0 {
				t.Errorf("a share of %d bytes", share)
			}
			if score := *oomScoreAdj(in); score < 3 || score > 1000 {
				t.Errorf("a score of %d", score)
			}
		}
	})
}
