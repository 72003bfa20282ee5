package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
)

func preparedPod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := podOf(
		t,
		`{metadata: {name: p, namespace: default, resourceVersion: "7"}, spec: {restartPolicy: OnFailure, schedulingGates: [{name: a/b}], initContainers: [{name: i, image: i}], containers: [{name: c, image: i}]}}`,
	)
	SetPodDefaults(pod)
	PreparePod(pod, someTime)
	if errs := ValidatePod(pod); len(errs) > 0 {
		t.Fatal(errs)
	}
	return pod
}

func TestWhatOfAPodMayChange(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"nothing", func(*corev1.Pod) {}, ""},
		{"labels and annotations", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, ""},
		{"files are kept", func(p *corev1.Pod) { p.Annotations = map[string]string{KeepFilesAnnotation: "1h"} }, ""},
		{
			"but not for a year", func(p *corev1.Pod) { p.Annotations = map[string]string{KeepFilesAnnotation: "8760h"} },
			"metadata.annotations[jobd.dev/keep-files]: Invalid value",
		},
		{"a deadline is set", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(5)) }, ""},
		{
			"a deadline is not negative", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(-5)) },
			"spec.activeDeadlineSeconds: Invalid value: -5: must be between 0 and 2147483647, inclusive",
		},
		{"a toleration is added", func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		}, ""},
		{"a toleration lasts longer", func(p *corev1.Pod) {
			p.Spec.Tolerations = slices.Clone(p.Spec.Tolerations)
			p.Spec.Tolerations[0].TolerationSeconds = ptr.To[int64](1000)
		}, ""},
		{
			"a toleration is not taken away", func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[1:] },
			"spec.tolerations: Forbidden: existing toleration",
		},
		{"a gate is taken away", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, ""},
		{"a gate is not added", func(p *corev1.Pod) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "c/d"})
		}, "spec.schedulingGates[1]: Forbidden: only deletion is allowed, but found new scheduling gate 'c/d'"},
		{
			"a command is not changed", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} },
			"spec: Forbidden: pod updates may not change fields other than",
		},
		{"an image is changed", func(p *corev1.Pod) { p.Spec.Containers[0].Image, p.Spec.InitContainers[0].Image = "j", "k" }, ""},
		{"but not taken away", func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "" }, "spec.initContainers[0].image: Required value"},
		{
			"nor a container added", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) },
			"spec.containers: Forbidden: pod updates may not add or remove containers",
		},
		{"nor its node", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, "spec: Forbidden: pod updates may not change fields other than"},
		{
			"nor its grace period", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1)) },
			"spec: Forbidden: pod updates may not change fields other than",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := preparedPod(t)
			pod := old.DeepCopy()
			tc.change(pod)
			var got []string
			for _, e := range validatePodUpdate(pod, old) {
				got = append(got, e.Error())
			}
			if text := strings.Join(got, "\n"); (text == "") != (tc.want == "") || !strings.HasPrefix(text, tc.want) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
	t.Run("a deadline only comes closer", func(t *testing.T) {
		old := preparedPod(t)
		old.Spec.ActiveDeadlineSeconds = ptr.To(int64(5))
		for deadline, fine := range map[*int64]bool{ptr.To(int64(4)): true, ptr.To(int64(6)): false, nil: false} {
			pod := old.DeepCopy()
			pod.Spec.ActiveDeadlineSeconds = deadline
			if errs := validatePodUpdate(pod, old); (len(errs) == 0) != fine {
				t.Errorf("%v: %v", ptr.Deref(deadline, -1), errs)
			}
		}
	})
	t.Run("a negative grace period is mended", func(t *testing.T) {
		old := preparedPod(t)
		old.Spec.TerminationGracePeriodSeconds = ptr.To(int64(-1))
		pod := old.DeepCopy()
		pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1))
		if errs := validatePodUpdate(pod, old); len(errs) > 0 {
			t.Error(errs)
		}
	})
}

func TestWhatAPodAsksOfItsNodeMayChangeBehindGates(t *testing.T) {
	const (
		required  = "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
		preferred = "nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: " +
			"{matchExpressions: [{key: %s, operator: Exists}]}}]}"
		ssd      = "{key: disk, operator: In, values: [ssd]}"
		zone     = "{key: zone, operator: Exists}"
		named    = "{key: metadata.name, operator: In, values: [n]}"
		others   = "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}"
		terms    = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
		onlyMore = "only additions are allowed (no mutations or deletions)"
		frozen   = "pod updates may not change fields other than"
	)
	term := func(expressions ...string) string {
		return required + "[{matchExpressions: [" + strings.Join(expressions, ", ") + "]}]}}"
	}
	gated := "schedulingGates: [{name: a/b}], "
	affinity := func(parts ...string) string { return "affinity: {" + strings.Join(parts, ", ") + "}" }
	for _, tc := range []struct{ name, gates, was, now, want string }{
		{"a selector is set", gated, "", "nodeSelector: {a: b}", ""},
		{"a selector gets more", gated, "nodeSelector: {a: b}", "nodeSelector: {a: b, c: d}", ""},
		{"a selector gets no less", gated, "nodeSelector: {a: b, c: d}", "nodeSelector: {a: b}", "spec.nodeSelector: only additions to spec.nodeSelector"},
		{"a selector gets no other", gated, "nodeSelector: {a: b}", "nodeSelector: {a: c}", "spec.nodeSelector: only additions to spec.nodeSelector"},
		{"a selector has proper labels", gated, "", "nodeSelector: {a: b c}", "spec.nodeSelector: a valid label must be"},
		{"without gates it stays", "", "", "nodeSelector: {a: b}", "spec: " + frozen},
		{"nor does the affinity change", "", affinity(term(ssd)), affinity(term(ssd, zone)), "spec: " + frozen},
		{"an affinity is set", gated, "", affinity(term(ssd)), ""},
		{"an affinity is set beside that of pods", gated, affinity(others), affinity(others, term(ssd)), ""},
		{"an affinity is set where it was empty", gated, "affinity: {}", affinity(term(ssd)), ""},
		{"terms are set where only a preference was", gated, affinity(fmt.Sprintf(preferred, "a")), affinity(term(ssd)), ""},
		{"a preference is changed", gated, affinity(fmt.Sprintf(preferred, "a")), affinity(fmt.Sprintf(preferred, "b")), ""},
		{"a preference is taken away", gated, affinity(fmt.Sprintf(preferred, "a")), "", ""},
		{"a term gets more", gated, affinity(term(ssd)), affinity(term(ssd, zone)), ""},
		{"a term gets fields", gated, affinity(term(ssd)),
			affinity(required + "[{matchExpressions: [" + ssd + "], matchFields: [" + named + "]}]}}"), ""},
		{"a term gets no less", gated, affinity(term(ssd, zone)), affinity(term(ssd)), terms + "[0]: " + onlyMore},
		{"a term gets no other", gated, affinity(term(ssd)), affinity(term(zone)), terms + "[0]: " + onlyMore},
		{"an empty term stays", gated, affinity(required + "[{}]}}"), affinity(term(ssd)), terms + "[0]: " + onlyMore},
		{"there is no further term", gated, affinity(term(ssd)),
			affinity(required + "[{matchExpressions: [" + ssd + "]}, {matchExpressions: [" + zone + "]}]}}"), terms + ": no additions/deletions"},
		{"terms are not taken away", gated, affinity(term(ssd)), "", terms + ": no additions/deletions"},
		{"what is set is checked", gated, "", affinity(term("{key: a, operator: In}")), terms + "[0].matchExpressions[0].values: must be specified"},
		{"what is asked of pods stays", gated, "", affinity(others, term(ssd)), "spec: " + frozen},
		{"nor is it taken away", gated, affinity(others), affinity(term(ssd)), "spec: " + frozen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := func(constraints string) *corev1.Pod {
				if constraints != "" {
					constraints += ", "
				}
				pod := podOf(t, `{metadata: {name: p, namespace: default, resourceVersion: "7"}, spec: {`+tc.gates+constraints+
					`containers: [{name: c, image: i}]}}`)
				SetPodDefaults(pod)
				PreparePod(pod, someTime)
				pod.UID = "1"
				return pod
			}
			var got []string
			for _, e := range validatePodUpdate(pod(tc.now), pod(tc.was)) {
				got = append(got, e.Field+": "+e.Detail)
			}
			if text := strings.Join(got, "\n"); (text == "") != (tc.want == "") || !strings.HasPrefix(text, tc.want) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

func TestWhatHasEndedStaysEnded(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, tc := range []struct {
		name     string
		policy   corev1.RestartPolicy
		was, now corev1.ContainerState
		refused  bool
	}{
		{"never", corev1.RestartPolicyNever, ended(1), running, true},
		{"on failure, after a success", corev1.RestartPolicyOnFailure, ended(0), running, true},
		{"on failure, after a failure", corev1.RestartPolicyOnFailure, ended(1), running, false},
		{"always", corev1.RestartPolicyAlways, ended(0), running, false},
		{"it ends again", corev1.RestartPolicyNever, ended(1), ended(2), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := preparedPod(t)
			old.Spec.RestartPolicy = tc.policy
			old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: tc.was}}
			pod := old.DeepCopy()
			pod.Status.ContainerStatuses[0].State = tc.now
			errs := validatePodStatusUpdate(pod, old)
			if refused := len(errs) > 0; refused != tc.refused {
				t.Error(errs)
			}
			for _, e := range errs {
				if e.Error() != "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state" {
					t.Error(e)
				}
			}
		})
	}
	old := preparedPod(t)
	pod := old.DeepCopy()
	pod.Status.QOSClass = corev1.PodQOSGuaranteed
	pod.Status.PodIPs = []corev1.PodIP{{IP: "x"}}
	pod.Status.NominatedNodeName = "A"
	if errs := validatePodStatusUpdate(pod, old); len(errs) != 3 {
		t.Error(errs)
	}
}

// A client that may write the status of a pod cannot use that to have its containers run on unseen.
func TestAStatusUpdateForgetsNoContainer(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	old := preparedPod(t)
	old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 2, State: running}}
	for name, tc := range map[string]struct {
		now  []corev1.ContainerStatus
		want string
	}{
		"the same": {[]corev1.ContainerStatus{{Name: "c", RestartCount: 2, State: running, Ready: true}}, "[]"},
		"other attempts": {
			[]corev1.ContainerStatus{{Name: "c", RestartCount: 9, State: running}},
			"[status.containerStatuses[0].restartCount: Forbidden: only jobd may change how often a container was started]",
		},
		"none any more": {
			nil,
			"[status.containerStatuses[0].state: Forbidden: only jobd may say that a container does not run any more " +
				"status.containerStatuses[0].restartCount: Forbidden: only jobd may change how often a container was started]",
		},
		"it ended": {
			[]corev1.ContainerStatus{{Name: "c", RestartCount: 2}},
			"[status.containerStatuses[0].state: Forbidden: only jobd may say that a container does not run any more]",
		},
		"one that is new": {
			[]corev1.ContainerStatus{{Name: "c", RestartCount: 2, State: running}, {Name: "d", RestartCount: 1}},
			"[status.containerStatuses[1].restartCount: Forbidden: only jobd may change how often a container was started]",
		},
		"one in its place": {[]corev1.ContainerStatus{{Name: "d"}, {Name: "c", RestartCount: 2, State: running}}, "[]"},
	} {
		pod := old.DeepCopy()
		pod.Status.ContainerStatuses = tc.now
		if got := fmt.Sprint(validatePodStatusUpdate(pod, old)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// What is on another node that node knows: the containers of such a pod end by writes of its status. One that this node has taken is its own.
func TestAStatusUpdateEndsPodsOfOtherNodes(t *testing.T) {
	old := preparedPod(t)
	old.Spec.NodeName = "elsewhere"
	old.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod := old.DeepCopy()
	pod.Status.ContainerStatuses[0].RestartCount = 2
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	if errs := validatePodStatusUpdate(pod, old); len(errs) > 0 {
		t.Error(errs)
	}
	old.Status.Conditions[0].Status = corev1.ConditionTrue
	if errs := validatePodStatusUpdate(pod, old); len(errs) != 2 {
		t.Errorf("of one that was taken: %v", errs)
	}
}

func TestAPodThatShowsOneOfAClusterNamesIt(t *testing.T) {
	pod := preparedPod(t)
	pod.Spec.SchedulerName = clusters.Scheduler("prod")
	if errs := ValidatePod(pod); len(errs) != 1 || errs[0].Field != "spec.nodeName" {
		t.Error(errs)
	}
	pod.Spec.NodeName, pod.Spec.SchedulingGates = "prod", nil
	if errs := ValidatePod(pod); len(errs) > 0 {
		t.Error(errs)
	}
}
