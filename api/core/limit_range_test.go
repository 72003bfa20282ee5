package core

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func limitRange(t *testing.T, limits string) *corev1.LimitRange {
	t.Helper()
	lr := &corev1.LimitRange{}
	if err := yaml.UnmarshalStrict([]byte("{metadata: {name: a, namespace: n}, spec: {limits: "+limits+"}}"), lr); err != nil {
		t.Fatal(err)
	}
	return lr
}

func TestLimitRanges(t *testing.T) {
	for limits, want := range map[string]string{
		`[{type: Container, min: {cpu: 100m}, defaultRequest: {cpu: 200m}, default: {cpu: 300m}, max: {cpu: 400m}, maxLimitRequestRatio: {cpu: "4"}}, {type: Pod, max: {cpu: "1"}}]`: "",
		`[{type: Container, min: {cpu: 100m}, max: {cpu: 300m}, maxLimitRequestRatio: {cpu: "3"}}]`:                                                                                  "",
		`[{type: example.com/thing, max: {anything.example.com/x: "1"}}]`:                                                                                                            "",
		`[{type: Volume}]`: `spec.limits[0].type: Invalid value: "Volume": must be a standard limit type or fully qualified`,
		`[{type: Pod, max: {cpu: "1"}}, {type: Pod, max: {memory: 1Gi}}]`:                              `spec.limits[1].type: Duplicate value: "Pod"`,
		`[{type: Pod, max: {cups: "1"}}]`:                                                              `spec.limits[0].max[cups]: Invalid value: "cups": must be a standard resource type or fully qualified`,
		`[{type: Container, max: {storage: 1Gi}}]`:                                                     `spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers`,
		`[{type: Container, min: {cpu: "-1"}}]`:                                                        `spec.limits[0].min[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
		`[{type: Pod, default: {cpu: "1"}, defaultRequest: {cpu: "1"}}]`:                               "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
		`[{type: PersistentVolumeClaim, max: {requests.storage: 1Gi}}]`:                                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
		`[{type: Container, min: {cpu: "2"}, max: {cpu: "1"}}]`:                                        `spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`,
		`[{type: Container, min: {cpu: "2"}, defaultRequest: {cpu: "1"}}]`:                             "min value 2 is greater than default request value 1",
		`[{type: Container, defaultRequest: {cpu: "2"}, max: {cpu: "1"}}]`:                             "default request value 2 is greater than max value 1",
		`[{type: Container, defaultRequest: {cpu: "2"}, default: {cpu: "1"}}]`:                         "default request value 2 is greater than default limit value 1",
		`[{type: Container, min: {cpu: "2"}, default: {cpu: "1"}}]`:                                    `spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1`,
		`[{type: Container, default: {cpu: "2"}, max: {cpu: "1"}}]`:                                    `spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1`,
		`[{type: Container, maxLimitRequestRatio: {cpu: 500m}}]`:                                       "ratio 500m is less than 1",
		`[{type: Pod, min: {cpu: "1"}, max: {cpu: "2"}, maxLimitRequestRatio: {cpu: "3"}}]`:            "ratio 3 is greater than max/min = 2.000000",
		`[{type: Container, default: {example.com/gpu: "2"}, defaultRequest: {example.com/gpu: "1"}}]`: "default value 2 must equal to defaultRequest value 1 in example.com/gpu",
		`[{type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 2Gi, "made up": "1"}}]`:    `spec.limits[0].max[made up]: Invalid value: "made up"`,
	} {
		got := fmt.Sprint(validateLimitRange(limitRange(t, limits)).ToAggregate())
		if want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%s:\ngot %s,\nwant %s", limits, got, want)
		}
	}
}

// What containers get that name nothing follows from what they may have.
func TestDefaultsOfLimitRanges(t *testing.T) {
	lr := limitRange(t, `[{type: Container, max: {cpu: "2", memory: 1Gi}, min: {cpu: 100m, ephemeral-storage: 1Mi}, default: {memory: 512Mi}}, {type: Pod, max: {cpu: "1"}}]`)
	setLimitRangeDefaults(lr)
	item := lr.Spec.Limits[0]
	for name, want := range map[corev1.ResourceName]string{"cpu": "2/2", "memory": "512Mi/512Mi", "ephemeral-storage": "1Mi/0"} {
		request, limit := item.DefaultRequest[name], item.Default[name]
		if got := request.String() + "/" + limit.String(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if lr.Spec.Limits[1].Default != nil || lr.Spec.Limits[1].DefaultRequest != nil {
		t.Error("pods get defaults")
	}
}
