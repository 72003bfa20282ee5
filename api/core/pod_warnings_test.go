package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func TestLabelsOfNodesThatAreOutOfUseAreSaid(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: podOf(t, `
spec:
  nodeSelector: {kubernetes.io/os: linux, beta.kubernetes.io/os: linux, beta.kubernetes.io/arch: amd64}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/arch, operator: Exists}, {key: beta.kubernetes.io/arch, operator: Exists}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: node-role.kubernetes.io/master, operator: Exists}]}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: failure-domain.beta.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}
  containers: [{name: c, image: i}]`).Spec}
	affinity := "spec.template.spec.affinity.nodeAffinity."
	want := `spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead
spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead
` + affinity + `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].key: ` +
		`beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead
` + affinity + `preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: ` +
		`node-role.kubernetes.io/master is use "node-role.kubernetes.io/control-plane" instead
spec.template.spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is ` +
		`deprecated since v1.17; use "topology.kubernetes.io/zone" instead`
	got := PodTemplateWarnings(template, field.NewPath("spec", "template"))
	got = slices.DeleteFunc(got, func(w string) bool { return strings.Contains(w, "has no effect in jobd") })
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLikelyMistakesAreSaid(t *testing.T) {
	pod := podOf(t, `
spec:
  nodeSelector: {disk: ssd}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  affinity:
    podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}
    podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}, {topologyKey: zone, labelSelector: {}}]}
  initContainers: [{name: i, image: i, env: [{name: A}, {name: A}]}]
  containers:
  - name: c
    image: i
    resources: {requests: {memory: 100m}, limits: {cpu: 100m}}
    ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}, {containerPort: 80, name: web}]`)
	SetPodDefaults(pod)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(-1)) // as a template may have it: in a pod it is 1 by now
	want := `spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1
spec.initContainers[0].env[1]: hides previous definition of "A", which may be dropped when using apply
spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer
spec.containers[0].ports[2]: duplicate port definition with spec.containers[0].ports[0]
spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod
spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod
spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod
spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution: has no effect in jobd: there is one node
spec.topologySpreadConstraints[0].whenUnsatisfiable: has no effect in jobd: there is one node`
	if diff := cmp.Diff(want, strings.Join(podWarnings(pod), "\n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
