package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

var someTime = time.Date(2026, 11, 20, 13, 34, 18, 0, time.UTC)

func podOf(t *testing.T, manifest string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(manifest), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestPullPolicyFollowsTheTag(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"busybox":                  corev1.PullAlways,
		"busybox:latest":           corev1.PullAlways,
		"busybox:1.37":             corev1.PullIfNotPresent,
		"host:5000/busybox":        corev1.PullAlways,
		"host:5000/busybox:1":      corev1.PullIfNotPresent,
		"not an image":             corev1.PullIfNotPresent,
		"":                         corev1.PullIfNotPresent,
		"b@sha256:" + zeros:        corev1.PullIfNotPresent,
		"b:latest@sha256:" + zeros: corev1.PullAlways,
	} {
		if got := pullPolicyFor(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// A cluster's own answer, recorded (oracle: scenarios/simple), without the volume of the service account's token.
func TestPodIsPreparedAsInACluster(t *testing.T) {
	pod := podOf(t, `
metadata: {name: simple-65xz9, generateName: simple-, namespace: or-simple, uid: 06844b1d-7a4b-4234-b213-5d1b0c2e31f2}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: "registry.k8s.io/e2e-test-images/busybox:1.37.0-2", command: [/bin/sh, -c, exit 0]}`)
	SetPodDefaults(pod)
	PreparePod(pod, someTime)
	want := podOf(t, `
metadata:
  name: simple-65xz9
  generateName: simple-
  namespace: or-simple
  uid: 06844b1d-7a4b-4234-b213-5d1b0c2e31f2
  generation: 1
  creationTimestamp: '2026-11-20T13:34:18Z'
spec:
  containers:
  - name: c
    image: registry.k8s.io/e2e-test-images/busybox:1.37.0-2
    command: [/bin/sh, -c, exit 0]
    resources: {}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    imagePullPolicy: IfNotPresent
  restartPolicy: Never
  terminationGracePeriodSeconds: 30
  dnsPolicy: ClusterFirst
  serviceAccountName: default
  serviceAccount: default
  securityContext: {}
  schedulerName: default-scheduler
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  priority: 0
  enableServiceLinks: true
  preemptionPolicy: PreemptLowerPriority
status: {phase: Pending, qosClass: BestEffort}`)
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("-cluster +jobd\n%s", diff)
	}
}

func TestWhatIsPreparedIsNotOverwritten(t *testing.T) {
	pod := podOf(t, `
spec:
  priorityClassName: system-node-critical
  serviceAccount: builder
  tolerations: [{operator: Exists}]
  schedulingGates: [{name: a/b}]
  containers: [{name: c, image: i}]
status: {phase: Running}`)
	SetPodDefaults(pod)
	PreparePod(pod, someTime)
	if got := *pod.Spec.Priority; got != 2000001000 {
		t.Errorf("priority %d", got)
	}
	if pod.Spec.ServiceAccountName != "builder" || pod.Spec.DeprecatedServiceAccount != "builder" {
		t.Errorf("service accounts %q, %q", pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount)
	}
	if len(pod.Spec.Tolerations) != 1 {
		t.Errorf("a pod that tolerates everything got %v", pod.Spec.Tolerations)
	}
	if pod.Status.Phase != corev1.PodPending || pod.UID == "" {
		t.Errorf("phase %s, uid %q", pod.Status.Phase, pod.UID)
	}
	if c := pod.Status.Conditions; len(c) != 1 || c[0].Reason != corev1.PodReasonSchedulingGated {
		t.Errorf("a gated pod has conditions %v", c)
	}
}

func TestDefaultsOfRareFields(t *testing.T) {
	pod := podOf(
		t,
		`spec: {terminationGracePeriodSeconds: -5, containers: [{name: c, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]}`,
	)
	template := corev1.PodTemplateSpec{Spec: *pod.Spec.DeepCopy()}
	SetPodDefaults(pod)
	if g := *pod.Spec.TerminationGracePeriodSeconds; g != 1 {
		t.Errorf("a negative period of grace became %d", g)
	}
	if optional := pod.Spec.Containers[0].Env[0].ValueFrom.FileKeyRef.Optional; optional == nil || *optional {
		t.Errorf("a variable of a file is optional: %v", optional)
	}
	SetPodTemplateDefaults(&template)
	if g := *template.Spec.TerminationGracePeriodSeconds; g != -5 {
		t.Errorf("in a template it became %d", g)
	}
}

func TestLimitsAreRequestsToo(t *testing.T) {
	pod := podOf(t, `spec: {containers: [{name: c, resources: {limits: {cpu: 100.5m, memory: 1Gi}, requests: {memory: 1Mi}}}]}`)
	SetPodDefaults(pod)
	r := pod.Spec.Containers[0].Resources
	for name, want := range map[corev1.ResourceName]string{corev1.ResourceCPU: "101m", corev1.ResourceMemory: "1Mi"} {
		if got := r.Requests[name]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: %s, want %s", name, got.String(), want)
		}
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: r.Limits}}}}}
	SetPodTemplateDefaults(&template)
	if template.Spec.Containers[0].Resources.Requests != nil {
		t.Error("a template got requests, which only its pods get")
	}
}

func TestAWholePodAsksForWhatItsContainersDo(t *testing.T) {
	for _, tc := range []struct{ name, spec, requests, limits string }{
		{
			"for its limits where they ask for nothing", `{resources: {limits: {cpu: 1, memory: 1Gi}}, containers: [{}]}`,
			`{cpu: 1, memory: 1Gi}`, `{cpu: 1, memory: 1Gi}`,
		},
		{"for what they ask for together", `{resources: {limits: {cpu: 4, memory: 1Gi}}, containers: [{resources: {requests: {cpu: 1}}}, {resources: {limits: {cpu: 2}}}]}`,
			`{cpu: 3, memory: 1Gi}`, `{cpu: 4, memory: 1Gi}`},
		{"for what it says", `{resources: {requests: {cpu: 4}}, containers: [{resources: {requests: {cpu: 1, memory: 1Mi}}}]}`, `{cpu: 4, memory: 1Mi}`, ``},
		{"huge pages are limited", `{resources: {requests: {cpu: 1}}, containers: [{resources: {limits: {hugepages-2Mi: 2Mi}}}, {resources: {limits: {hugepages-2Mi: 2Mi}}}]}`,
			`{cpu: 1, hugepages-2Mi: 4Mi}`, `{hugepages-2Mi: 4Mi}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod, want := podOf(t, "spec: "+tc.spec), podOf(t, "spec: {resources: {requests: "+tc.requests+", limits: "+tc.limits+"}}")
			SetPodDefaults(pod)
			if diff := cmp.Diff(want.Spec.Resources, pod.Spec.Resources); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestQualityOfService(t *testing.T) {
	for _, tc := range []struct {
		name, containers string
		want             corev1.PodQOSClass
	}{
		{"nothing asked for", `[{name: a}]`, corev1.PodQOSBestEffort},
		{"other resources do not count", `[{name: a, resources: {limits: {ephemeral-storage: 1Gi}}}]`, corev1.PodQOSBestEffort},
		{
			"all of it limited to what is asked for",
			`[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}}]`, corev1.PodQOSGuaranteed,
		},
		{"only one of two", `[{name: a, resources: {limits: {cpu: 1}}}]`, corev1.PodQOSBurstable},
		{"asked for less than the limit", `[{name: a, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]`, corev1.PodQOSBurstable},
		{"one container of two", `[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: b}]`, corev1.PodQOSBurstable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(t, "spec: {containers: "+tc.containers+"}")
			if got := PodQOS(&pod.Spec); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
