package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"
)

// rules puts a pod through everything; none of it may panic, whatever the pod.
func rules(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	SetPodDefaults(pod)
	again := pod.DeepCopy()
	SetPodDefaults(again)
	if !equality.Semantic.DeepEqual(pod, again) {
		t.Fatalf("defaulting twice differs:\n%s", cmp.Diff(pod, again))
	}
	old := pod.DeepCopy()
	PreparePod(pod, someTime)
	_ = ValidatePod(pod)
	_ = podWarnings(pod)
	_ = podTable().Cells(pod, someTime)
	_ = podGrace(pod, &metav1.DeleteOptions{})
	for _, get := range podFields() {
		_ = get(pod)
	}
	preparePodUpdate(again, old)
	_ = validatePodUpdate(again, old)
	_ = validatePodUpdate(pod, &corev1.Pod{})
	preparePodStatusUpdate(pod, old)
	_ = validatePodStatusUpdate(pod, old)
	_ = ValidatePodTemplateSpec(&corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, field.NewPath("template"))
}

func FuzzPodManifest(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{metadata: {name: p}, spec: {containers: [{name: c, image: "i:1", env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a']"}}}], resources: {limits: {cpu: 1}}}]}}`,
		`{spec: {volumes: [{name: v, hostPath: {path: /x}}], initContainers: [{volumeMounts: [{name: v, mountPath: /x, subPath: a}]}], containers: []}}`,
		`{spec: {affinity: {nodeAffinity: {}}, tolerations: [{}], dnsPolicy: None, securityContext: {sysctls: [{name: a}]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pod := &corev1.Pod{}
		if yaml.Unmarshal(data, pod) != nil {
			return
		}
		rules(t, pod)
	})
}

// FuzzFilledPod reaches every field, including those that no manifest in a corpus has.
func FuzzFilledPod(f *testing.F) {
	for seed := range int64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		pod := &corev1.Pod{}
		randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(8).Fill(&pod.Spec)
		randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(8).Fill(&pod.Status)
		rules(t, pod)
	})
}

func FuzzEventAndNamespace(f *testing.F) {
	for seed := range int64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		event, ns := &corev1.Event{}, &corev1.Namespace{}
		fill := randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(6)
		fill.Fill(event)
		fill.Fill(ns)
		_ = validateEvent(event)
		_ = eventTable().Cells(event, someTime)
		PrepareNamespace(ns)
		_ = validateNamespace(ns)
		_ = namespaceTable().Cells(ns, someTime)
	})
}
