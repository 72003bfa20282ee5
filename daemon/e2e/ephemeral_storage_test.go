package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Limits on what containers write (ResourceEphemeralStorage): to their file systems, logs and volumes on disk.
func TestEphemeralStorage(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: big}, data: {f: " + strings.Repeat("x", 200<<10) + "}}")
	for name, pod := range map[string]string{
		"layer": `{name: c, image: "busybox:1.36", command: [sh, -c, "dd if=/dev/zero of=/f bs=1M count=3; sleep 1000"], resources: {limits: {ephemeral-storage: 2Mi}}}, {name: d, image: "busybox:1.36", command: [sleep, "1000"], resources: {limits: {ephemeral-storage: 100Mi}}}`,
		"log":   `{name: c, image: "busybox:1.36", command: [sh, -c, "dd if=/dev/zero bs=1M count=3 | base64; sleep 1000"], resources: {limits: {ephemeral-storage: 2Mi}}}, {name: d, image: "busybox:1.36", command: [sleep, "1000"], resources: {limits: {ephemeral-storage: 100Mi}}}`,
		"all":   `{name: c, image: "busybox:1.36", command: [sh, -c, "dd if=/dev/zero of=/v/f bs=1M count=3; sleep 1000"], resources: {limits: {ephemeral-storage: 2Mi}}, volumeMounts: [{name: v, mountPath: /v}]}`,
		// A file that was removed while it was open has no name any more, but takes just as much room.
		"removed": `{name: c, image: "busybox:1.36", command: [sh, -c, "exec 3>/f; rm /f; dd if=/dev/zero bs=1M count=3 >&3; exec sleep 1000"], resources: {limits: {ephemeral-storage: 2Mi}}}`,
		"limited": `{name: c, image: "busybox:1.36", command: [sh, -c, "exec 3>/w/f; rm /w/f; dd if=/dev/zero bs=1M count=3 >&3; exec sleep 1000"], volumeMounts: [{name: w, mountPath: /w, subPath: sub}]}`,
		"map":     `{name: c, image: "busybox:1.36", command: [sleep, "1000"], resources: {limits: {ephemeral-storage: 100Ki}}}`,
		// It is told to end, whatever its own grace period is.
		"traps": `{name: c, image: "busybox:1.36", command: [sh, -c, "trap 'echo told; exit 7' TERM; dd if=/dev/zero of=/f bs=1M count=3; sleep 1000 & wait"], resources: {limits: {ephemeral-storage: 2Mi}}}`,
		"small": `{name: c, image: "busybox:1.36", command: [sh, -c, "dd if=/dev/zero of=/f bs=1M count=1; sleep 1000"], resources: {limits: {ephemeral-storage: 2Mi}}}`,
	} {
		d.apply(
			"{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {restartPolicy: Never, " +
				"terminationGracePeriodSeconds: 0, volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {sizeLimit: 2Mi}}, " +
				"{name: m, configMap: {name: big}}], containers: [" + pod + "]}}",
		)
	}
	for name, want := range map[string]string{
		"layer":   `Container c exceeded its local ephemeral storage limit "2Mi". `,
		"removed": `Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. `,
		"limited": `Usage of EmptyDir volume "w" exceeds the limit "2Mi". `,
		"log":     `Container c exceeded its local ephemeral storage limit "2Mi". `,
		"all":     `Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. `,
		"map":     `Pod ephemeral local storage usage exceeds the total limit of containers 100Ki. `,
		"traps":   `Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. `,
	} {
		p := d.podUntil(name, "has ended", ended)
		if p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Evicted" || p.Status.Message != want {
			t.Errorf("%s: %s, %s, %s", name, p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
	}
	if p := d.podUntil("traps", "has ended", ended); p.Status.ContainerStatuses[0].State.Terminated.ExitCode != 7 {
		t.Errorf("its trap has not counted: %+v", p.Status.ContainerStatuses[0].State)
	}
	d.podUntil("small", "runs within its limit", runs)
	d.apply(
		`{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, image: "busybox:1.36", resources: {requests: {ephemeral-storage: 1Ei}}}]}}`,
	)
	d.podUntil("huge", "does not fit", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "ephemeral-storage") {
				return true
			}
		}
		return false
	})
}
