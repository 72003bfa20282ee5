package fit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Memory pressure keeps away only pods that ask for nothing, and those do not tolerate it by chance.
func TestMemoryPressureKeepsAwayWhoAsksForNothing(t *testing.T) {
	memory := Facts{Taints: []corev1.Taint{{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}}}
	disk := Facts{Taints: []corev1.Taint{{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}}}
	for _, c := range []struct {
		rule, spec         string
		offMemory, offDisk bool
	}{
		{"nothing", `containers: [{name: c}]`, true, true},
		{"a request", `containers: [{name: c}, {name: d, resources: {requests: {cpu: 1m}}}]`, false, true},
		{"a limit of the pod", `{resources: {limits: {memory: 1Mi}}, containers: [{name: c}]}`, false, true},
		{"something that is neither CPU nor memory", `containers: [{name: c, resources: {requests: {ephemeral-storage: 1Mi}}}]`, true, true},
		{"a toleration", `{tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists}], containers: [{name: c}]}`, false, true},
		{"one of the disk", `{tolerations: [{key: node.kubernetes.io/disk-pressure, operator: Exists}], containers: [{name: c}]}`, true, false},
	} {
		spec := &corev1.PodSpec{}
		if err := yaml.UnmarshalStrict([]byte(c.spec), spec); err != nil {
			t.Fatal(err)
		}
		terms := TermsOf(spec)
		for _, at := range []struct {
			facts Facts
			off   bool
		}{{memory, c.offMemory}, {disk, c.offDisk}} {
			if off := at.facts.Unfit(&terms) != ""; off != at.off || off != (len(at.facts.Obstacles(&terms)) > 0) {
				t.Errorf("%s, %s: kept away %t, %v", c.rule, at.facts.Taints[0].Key, off, at.facts.Obstacles(&terms))
			}
		}
	}
}
