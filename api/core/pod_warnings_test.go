package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

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
