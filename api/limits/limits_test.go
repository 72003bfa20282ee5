package limits

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return v
}

// ofContainers has the defaults of LimitRangeItem.Default and DefaultRequest, as they are stored.
const ofContainers = `{spec: {limits: [{type: Container, min: {cpu: 100m, memory: 16Mi}, max: {cpu: "2", memory: 1Gi}, maxLimitRequestRatio: {cpu: "4"},
  default: {cpu: 500m, memory: 256Mi}, defaultRequest: {cpu: 250m, memory: 64Mi}}]}}`

func TestContainersGetWhatTheyLeaveOut(t *testing.T) {
	ranges := []*corev1.LimitRange{read[corev1.LimitRange](t, ofContainers)}
	p := read[corev1.Pod](t, `{spec: {
  containers: [{name: bare}, {name: half, resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}}, {name: full, resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: "1", memory: 1Gi}}}],
  initContainers: [{name: first, resources: {requests: {cpu: 300m}}}]}}`)
	Fill(ranges, p)
	const want = "LimitRanger plugin set: cpu, memory request for container bare; cpu, memory limit for container bare; " +
		"memory request for container half; memory limit for container half; memory request for init container first; " +
		"cpu, memory limit for init container first"
	if got := p.Annotations[annotation]; got != want {
		t.Errorf("it says\n%s, want\n%s", got, want)
	}
	got := ""
	for _, c := range append(p.Spec.Containers, p.Spec.InitContainers...) {
		r := c.Resources
		got += fmt.Sprintf("%s %s/%s %s/%s\n", c.Name, r.Requests.Cpu(), r.Limits.Cpu(), r.Requests.Memory(), r.Limits.Memory())
	}
	if want := "bare 250m/500m 64Mi/256Mi\nhalf 1/1 64Mi/256Mi\nfull 1/1 1Gi/1Gi\nfirst 300m/500m 64Mi/256Mi\n"; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if err := CheckPod(ranges, p); err != nil {
		t.Error(err)
	}
	before := p.DeepCopy()
	if Fill(ranges, p); fmt.Sprint(before) != fmt.Sprint(p) {
		t.Error("the second time it changes something")
	}
}

func TestWhatIsRefused(t *testing.T) {
	const ofPods = `{spec: {limits: [{type: Pod, min: {cpu: 200m}, max: {cpu: "2"}, maxLimitRequestRatio: {memory: "1.5"}}]}}`
	container := func(resources string) string {
		return "{spec: {containers: [{name: c, resources: " + resources + "}]}}"
	}
	for _, c := range []struct{ name, limits, pod, want string }{
		{"all is well", ofContainers, container(`{requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}`), ""},
		{"nothing is limited", `{spec: {limits: []}}`, container(`{}`), ""},
		{"too much", ofContainers, container(`{requests: {cpu: "2", memory: 1Gi}, limits: {cpu: "4", memory: 1Gi}}`),
			"maximum cpu usage per Container is 2, but limit is 4"},
		{"too little", ofContainers, container(`{requests: {cpu: 50m, memory: 1Gi}, limits: {cpu: 100m, memory: 1Gi}}`),
			"minimum cpu usage per Container is 100m, but request is 50m"},
		{"too low a limit", ofContainers, container(`{requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 50m, memory: 1Gi}}`),
			"minimum cpu usage per Container is 100m, but limit is 50m"},
		{"no limit", ofContainers, container(`{requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 500m}}`),
			"maximum memory usage per Container is 1Gi.  No limit is specified"},
		{"nothing", ofContainers, container(`{}`), "[minimum cpu usage per Container is 100m.  No request is specified, " +
			"minimum memory usage per Container is 16Mi.  No request is specified, maximum cpu usage per Container is 2.  No limit is specified, " +
			"maximum memory usage per Container is 1Gi.  No limit is specified, " +
			"cpu max limit to request ratio per Container is 4, but no request is specified or request is 0]"},
		{"too high a ratio", ofContainers, container(`{requests: {cpu: 200m, memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}`),
			"cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000"},
		{"a ratio that floating point numbers exceed", `{spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: "3", memory: 1800m}}]}}`,
			container(`{requests: {cpu: 3m, memory: 5m}, limits: {cpu: 9m, memory: 9m}}`), ""},
		{"an init container", ofContainers, `{spec: {initContainers: [{name: i, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 100m, memory: 2Gi}}}]}}`,
			"maximum memory usage per Container is 1Gi, but limit is 2Gi"},
		{
			"a pod", ofPods,
			`{spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1", memory: 2Gi}}}]}}`,
			"",
		},
		{"too large a pod", ofPods, `{spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "2", memory: 3Gi}}}]}}`,
			"[maximum cpu usage per Pod is 2, but limit is 3, memory max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000]"},
		{"the largest init container counts", ofPods, `{spec: {containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}], initContainers: [{name: i, resources: {requests: {cpu: "3"}, limits: {cpu: "3"}}}]}}`,
			"maximum cpu usage per Pod is 2, but limit is 3"},
		{"another type", `{spec: {limits: [{type: example.com/other, max: {cpu: 1m}}]}}`, container(`{}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckPod([]*corev1.LimitRange{read[corev1.LimitRange](t, c.limits)}, read[corev1.Pod](t, c.pod))
			if got := strings.TrimPrefix(fmt.Sprint(err), "<nil>"); got != c.want {
				t.Errorf("got %q,\nwant %q", got, c.want)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	ranges := []*corev1.LimitRange{read[corev1.LimitRange](t, `{spec: {limits: [{type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 5Gi}}]}}`)}
	for size, want := range map[string]string{
		"{storage: 2Gi}":   "<nil>",
		"{storage: 100Mi}": "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Mi",
		"{storage: 6Gi}":   "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi",
		"{}": "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, " +
			"maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified]",
	} {
		if got := fmt.Sprint(CheckClaim(ranges, read[corev1.PersistentVolumeClaim](t, "{spec: {resources: {requests: "+size+"}}}"))); got != want {
			t.Errorf("%s: got %q, want %q", size, got, want)
		}
	}
}
