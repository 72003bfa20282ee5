package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestEphemeralContainersAreAddedAsInACluster(t *testing.T) {
	const there = `{name: d, image: busybox, targetContainerName: c}`
	for _, tc := range []struct{ name, containers, want string }{
		{"nothing changes", there, ""},
		{
			"one is added",
			there + `, {name: e, image: i, stdin: true, tty: true, securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /v}]}`,
			"",
		},
		{"none is taken away", ``, `spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed`},
		{"none is changed", `{name: d, image: other}`, `spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed`},
		{"a name is one's own", there + `, {name: c, image: i}`, `spec.ephemeralContainers[1].name: Duplicate value: "c"`},
		{"among the new ones too", there + `, {name: e, image: i}, {name: e, image: i}`, `spec.ephemeralContainers[2].name: Duplicate value: "e"`},
		{"a target exists", there + `, {name: e, image: i, targetContainerName: x}`, `spec.ephemeralContainers[1].targetContainerName: Not found: "x"`},
		{
			"a target is none of them", there + `, {name: e, image: i, targetContainerName: d}`,
			`spec.ephemeralContainers[1].targetContainerName: Not found: "d"`,
		},
		{"it needs an image", there + `, {name: e}`, `spec.ephemeralContainers[1].image: Required value`},
		{"nobody relies on it", there + `, {name: e, image: i, ports: [{containerPort: 80}], resources: {limits: {cpu: 1}}, livenessProbe: {exec: {command: [a]}}, lifecycle: {preStop: {exec: {command: [a]}}}}`,
			`spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container
spec.ephemeralContainers[1].resources: Forbidden: cannot be set for an Ephemeral Container
spec.ephemeralContainers[1].livenessProbe: Forbidden: cannot be set for an Ephemeral Container
spec.ephemeralContainers[1].lifecycle: Forbidden: cannot be set for an Ephemeral Container`},
		{
			"it mounts no part of a volume",
			there + `, {name: e, image: i, volumeMounts: [{name: v, mountPath: /v, subPath: a}]}`,
			`spec.ephemeralContainers[1].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container`,
		},
		{
			"it mounts volumes of the pod", there + `, {name: e, image: i, volumeMounts: [{name: x, mountPath: /v}]}`,
			`spec.ephemeralContainers[1].volumeMounts[0].name: Not found: "x"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := podOf(t, `{metadata: {name: p, namespace: default, resourceVersion: "7"}, spec: {containers: [{name: c, image: i}], volumes: [{name: v}]}}`)
			set := func(pod *corev1.Pod, list string) {
				pod.Spec.EphemeralContainers = nil
				if err := yaml.UnmarshalStrict([]byte("["+list+"]"), &pod.Spec.EphemeralContainers); err != nil {
					t.Fatal(err)
				}
				SetPodDefaults(pod)
			}
			SetPodDefaults(old)
			PreparePod(old, someTime)
			set(old, there)
			pod := old.DeepCopy()
			set(pod, tc.containers)
			pod.Spec.Hostname, pod.Labels = "other", map[string]string{"a": "b"}
			prepareEphemeralContainersUpdate(pod, old)
			if pod.Spec.Hostname != "" || pod.Labels != nil {
				t.Error("something else was changed")
			}
			if changed := pod.Generation != old.Generation; changed != (tc.containers != there) {
				t.Errorf("generation %d, and was %d", pod.Generation, old.Generation)
			}
			var got []string
			for _, e := range validateEphemeralContainersUpdate(pod, old) {
				got = append(got, e.Error())
			}
			if text := strings.Join(got, "\n"); (text == "") != (tc.want == "") || !strings.HasPrefix(text, tc.want) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

func TestEphemeralContainersComeLater(t *testing.T) {
	pod := podOf(t, `{metadata: {name: p, namespace: default}, spec: {containers: [{name: c, image: i}], ephemeralContainers: [{name: d, image: i}]}}`)
	SetPodDefaults(pod)
	PreparePod(pod, someTime)
	if errs := ValidatePod(pod); len(errs) != 1 || errs[0].Error() != "spec.ephemeralContainers: Forbidden: cannot be set on create" {
		t.Errorf("a pod: %v", errs)
	}
}
