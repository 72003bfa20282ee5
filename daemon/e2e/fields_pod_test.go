package e2e

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// requires is a spec that only a node runs that a term of node affinity selects.
func requires(terms string) string {
	return `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}`
}

// podFieldCases are about the pod as a whole: where and when it runs, and what its containers share.
var podFieldCases = []fieldCase{
	{fields: "PodSpec.restartPolicy",
		spec: `{restartPolicy: OnFailure, volumes: [{name: v, emptyDir: {}}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}],
			command: [sh, -c, "[ -e /v/again ] && exit 0; touch /v/again; exit 1"]}]}`,
		check: func(t *testing.T, p *fieldPod) {
			pod := p.until("has ended", ended)
			if s := p.status(pod, "c"); s.RestartCount != 1 || pod.Status.Phase != corev1.PodSucceeded {
				t.Errorf("the pod is %s: %+v", pod.Status.Phase, s)
			}
		}},
	{fields: "PodSpec.terminationGracePeriodSeconds",
		spec: `{terminationGracePeriodSeconds: 1, volumes: [{name: v, hostPath: {path: HOSTDIR}}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}],
			command: [sh, -c, "trap 'echo told >/v/told' TERM; echo ready >/v/ready; while :; do sleep 1; done"]}]}`,
		check: func(t *testing.T, p *fieldPod) {
			p.written("ready")
			p.remove() // though it does not end by itself; whether it gets to write is not certain
		}},
	{fields: "PodSpec.activeDeadlineSeconds", spec: `activeDeadlineSeconds: 1`,
		check: func(t *testing.T, p *fieldPod) {
			if s := p.until("has ended", ended).Status; s.Phase != corev1.PodFailed || s.Reason != "DeadlineExceeded" {
				t.Errorf("it is %s: %s, %s", s.Phase, s.Reason, s.Message)
			}
		}},

	{fields: "PodSpec.hostname", pod: "names", spec: `hostname: me`, run: `hostname; cat /etc/hostname`, want: "me\nme"},
	{fields: "PodSpec.subdomain", pod: "names", spec: `subdomain: headless`, needs: bridge,
		run: `grep -o 'me[.].*' /etc/hosts`, want: "me.headless.default.svc.cluster.local\tme"},
	{fields: "PodSpec.setHostnameAsFQDN", pod: "fqdn", spec: `{hostname: me, subdomain: sub, setHostnameAsFQDN: true}`,
		run: `hostname`, want: "me.sub.default.svc.cluster.local"},
	{fields: "PodSpec.hostnameOverride PodSpec.nodeName PodSpec.os PodOS.name", test: "TestTheNodeTakesOrRejectsPods"},
	{fields: "PodSpec.hostAliases HostAlias.ip HostAlias.hostnames", pod: "names", spec: `hostAliases: [{ip: 192.0.2.9, hostnames: [far, away]}]`,
		run: `grep far /etc/hosts`, want: "192.0.2.9\tfar\taway"},
	{fields: "PodDNSConfig.searches", pod: "names", spec: `dnsConfig: {searches: [example.org]}`, needs: bridge,
		run:  `grep search /etc/resolv.conf | cut -d ' ' -f 1-4; grep -o 'example.org' /etc/resolv.conf`,
		want: "search default.svc.cluster.local svc.cluster.local cluster.local\nexample.org"},
	{fields: "PodDNSConfig.options PodDNSConfigOption.name PodDNSConfigOption.value", pod: "names",
		spec: `dnsConfig: {options: [{name: ndots, value: "2"}, {name: edns0}]}`, needs: bridge,
		run: `grep options /etc/resolv.conf`, want: "options ndots:2 edns0"},
	{fields: "PodDNSConfig.nameservers", pod: "names", spec: `dnsConfig: {nameservers: [192.0.2.53, 192.0.2.54, 192.0.2.55]}`, needs: bridge,
		run: `sed -n 's/nameserver //p' /etc/resolv.conf | tail -n +2`, want: "192.0.2.53\n192.0.2.54",
		check: func(t *testing.T, p *fieldPod) { p.says("DNSConfigForming", "Nameserver limits were exceeded, ") }},
	{fields: "PodSpec.dnsPolicy PodSpec.dnsConfig", pod: "own-dns", spec: `{dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.53]}}`,
		run: `cat /etc/resolv.conf`, want: "nameserver 192.0.2.53"},

	{fields: "PodSpec.hostNetwork", pod: "hosts", spec: `hostNetwork: true`, check: func(t *testing.T, p *fieldPod) { p.sharesNamespace("net") }},
	{fields: "PodSpec.hostPID", pod: "hosts", spec: `hostPID: true`, check: func(t *testing.T, p *fieldPod) { p.sharesNamespace("pid") }},
	{fields: "PodSpec.hostIPC", pod: "hosts", spec: `hostIPC: true`, check: func(t *testing.T, p *fieldPod) { p.sharesNamespace("ipc") }},
	{fields: "PodSpec.shareProcessNamespace", test: "TestShareProcessNamespace"},

	{fields: "PodSpec.serviceAccountName", pod: "robot", spec: `serviceAccountName: robot`, check: isRobot},
	{fields: "PodSpec.serviceAccount", pod: "deprecated-robot", spec: `serviceAccount: robot`, check: isRobot},
	{
		fields: "PodSpec.automountServiceAccountToken", pod: "no-token", spec: `automountServiceAccountToken: false`,
		run: `ls /var/run/secrets 2>/dev/null || echo none`, want: "none",
	},
	{fields: "PodSpec.imagePullSecrets LocalObjectReference.name", test: "TestImagePullSecrets"},
	{fields: "PodSpec.runtimeClassName", test: "TestRuntimeClasses"},

	{fields: "PodSpec.nodeSelector", test: "TestPodsThatNeverFitSaySo"},
	{fields: "PodSpec.affinity Affinity.nodeAffinity NodeAffinity.requiredDuringSchedulingIgnoredDuringExecution " +
		"NodeSelector.nodeSelectorTerms NodeSelectorTerm.matchFields", pod: "here",
		spec: requires(
			`{matchExpressions: [{key: disk, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [NODENAME]}]}`,
		), run: `echo here`, want: "here"},
	{fields: "NodeSelectorTerm.matchExpressions NodeSelectorRequirement.key NodeSelectorRequirement.operator NodeSelectorRequirement.values", pod: "nowhere",
		spec: requires(
			`{matchExpressions: [{key: kubernetes.io/os, operator: NotIn, values: [linux]}]}, {matchFields: [{key: metadata.name, operator: In, values: [other]}]}`,
		),
		check: func(t *testing.T, p *fieldPod) {
			p.waits("Unschedulable", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. ")
			p.says("FailedScheduling", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. ")
		}},
	{fields: "NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", pod: "preferences",
		spec: `affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}`},
	{fields: "PodAffinity.preferredDuringSchedulingIgnoredDuringExecution", pod: "preferences",
		spec: `affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {}}}]}}`},
	{fields: "PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution", pod: "preferences",
		spec: `affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {}}}]}}`},
	{fields: "TopologySpreadConstraint.whenUnsatisfiable", pod: "preferences",
		spec: `topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]`},
	// The names put them behind the others: these are on the node by then.
	{fields: "Affinity.podAffinity PodAffinity.requiredDuringSchedulingIgnoredDuringExecution PodAffinityTerm.labelSelector " +
		"PodAffinityTerm.topologyKey PodAffinityTerm.namespaces", pod: "zz-affine",
		spec:  `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaces: [default], labelSelector: {matchLabels: {pod: nobody}}}]}}`,
		check: func(t *testing.T, p *fieldPod) { p.waits("Unschedulable", "node(s) didn't match pod affinity rules") }},
	{fields: "Affinity.podAntiAffinity PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution " +
		"PodAffinityTerm.namespaceSelector PodAffinityTerm.matchLabelKeys PodAffinityTerm.mismatchLabelKeys", pod: "zz-apart",
		spec: `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {}, labelSelector: {}, mismatchLabelKeys: [pod]}]}}`,
		check: func(t *testing.T, p *fieldPod) {
			p.waits("Unschedulable", "node(s) didn't match pod anti-affinity rules")
		}},
	{fields: "PodSpec.topologySpreadConstraints TopologySpreadConstraint.maxSkew TopologySpreadConstraint.topologyKey " +
		"TopologySpreadConstraint.labelSelector TopologySpreadConstraint.minDomains TopologySpreadConstraint.nodeAffinityPolicy " +
		"TopologySpreadConstraint.nodeTaintsPolicy TopologySpreadConstraint.matchLabelKeys", pod: "zz-spread",
		spec: `topologySpreadConstraints: [{maxSkew: 1, minDomains: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [pod], nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}]`,
		check: func(t *testing.T, p *fieldPod) {
			p.waits("Unschedulable", "node(s) didn't match pod topology spread constraints")
		}},
	{fields: "PodSpec.schedulerName", pod: "preferences", spec: `schedulerName: mine`},
	{fields: "PodSpec.tolerations Toleration.key Toleration.operator Toleration.value Toleration.effect Toleration.tolerationSeconds", test: "TestTaints"},
	{fields: "PodSpec.priorityClassName PodSpec.preemptionPolicy", test: "TestAHigherPriorityTakesTheRoomOfALowerOne"},
	{fields: "PodSpec.priority", pod: "priority", spec: `{priorityClassName: patient, priority: 7}`,
		check: func(t *testing.T, p *fieldPod) {
			if pod := p.until("runs", runs); *pod.Spec.Priority != 7 || *pod.Spec.PreemptionPolicy != corev1.PreemptNever {
				t.Errorf("its priority is %d, its policy %s", *pod.Spec.Priority, *pod.Spec.PreemptionPolicy)
			}
		}},
	{fields: "PodSpec.schedulingGroup PodSchedulingGroup.podGroupName", test: "TestAGangStartsTogether"},
	{fields: "PodSpec.schedulingGates PodSchedulingGate.name", pod: "gated", spec: `schedulingGates: [{name: example.org/wait}]`,
		check: func(t *testing.T, p *fieldPod) {
			p.waits("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
			p.patch(`{"spec": {"schedulingGates": null}}`)
			p.until("runs", runs)
		}},
	{fields: "PodSpec.readinessGates PodReadinessGate.conditionType", pod: "ready",
		spec: `{restartPolicy: Always, readinessGates: [{conditionType: example.org/ready}]}`,
		check: func(t *testing.T, p *fieldPod) {
			p.until("is not ready, though its container is", func(pod *corev1.Pod) bool {
				ready := podCondition(pod, corev1.PodReady)
				return p.status(pod, "c").Ready && ready != nil && ready.Status == corev1.ConditionFalse && ready.Reason == "ReadinessGatesNotReady"
			})
			p.patch(`{"status": {"conditions": [{"type": "example.org/ready", "status": "True"}]}}`, "status")
			p.until("is ready", func(pod *corev1.Pod) bool { return podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue })
		}},
	{fields: "PodSpec.resourceClaims", spec: `resourceClaims: [{name: a, resourceClaimName: a}]`},
	{fields: "PodSpec.evictionResponders", spec: `evictionResponders: [{name: a.example/b, priority: 1000}]`},
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// waits waits until the pod says why it is not on the node.
func (p *fieldPod) waits(reason, words string) {
	p.t.Helper()
	p.until("says why it waits", func(pod *corev1.Pod) bool {
		c := podCondition(pod, corev1.PodScheduled)
		return pod.Status.Phase == corev1.PodPending && c != nil && c.Status == corev1.ConditionFalse && c.Reason == reason &&
			strings.Contains(c.Message, words)
	})
}

func (p *fieldPod) patch(patch string, subresource ...string) {
	p.t.Helper()
	if _, err := p.CoreV1().Pods("default").Patch(p.t.Context(), p.name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresource...); err != nil {
		p.t.Fatal(err)
	}
}

// sharesNamespace checks that c is in a namespace of the host.
func (p *fieldPod) sharesNamespace(kind string) {
	p.t.Helper()
	p.until("runs", runs)
	link := "/proc/thread-self/ns/" + kind
	own, err := os.Readlink(link)
	if err != nil {
		p.t.Fatal(err)
	}
	if got := p.sh("c", "readlink "+link); strings.TrimSpace(got) != own {
		p.t.Errorf("it is in %s, and the host in %s", got, own)
	}
}

func isRobot(t *testing.T, p *fieldPod) {
	pod := p.until("runs", runs)
	got := claimsOf(t, p.sh("c", "cat /var/run/secrets/kubernetes.io/serviceaccount/token"))
	if got.Subject != "system:serviceaccount:default:robot" || pod.Spec.ServiceAccountName != "robot" || pod.Spec.DeprecatedServiceAccount != "robot" {
		t.Errorf("it is %s, and its spec says %q and %q", got.Subject, pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount)
	}
}
