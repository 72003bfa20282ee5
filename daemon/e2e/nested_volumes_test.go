package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Volumes in volumes, of every kind that files and directories can have, through changes of what they show, restarts of the container, and
// kill -9 of the daemon and the shards. What is left of their mounts is found when the daemon is cleaned up.
func TestVolumesInVolumes(t *testing.T) {
	t.Parallel()
	const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {key: "2"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {a: b}}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 0
  hostUsers: %[2]t
  containers:
  - name: c
    image: busybox:1.36
    terminationMessagePath: /work/deep/message
    command: [sh, -c]
    args:
    - |
      echo run >> /claim/in/runs; echo said > /work/deep/message
      [ $(wc -l < /claim/in/runs) -gt 1 ] || exit 1
      while [ ! -e /claim/in/end ]; do sleep 0.1; done
      rm /claim/in/end; exit 1
    volumeMounts:
    - {name: work, mountPath: /work}
    - {name: settings, mountPath: /work/settings, readOnly: true}
    - {name: memory, mountPath: /work/settings/memory}
    - {name: settings, mountPath: /work/conf/key, subPath: key}
    - {name: password, mountPath: /work/settings/memory/key, subPathExpr: key}
    - {name: all, mountPath: /work/all}
    - {name: work, mountPath: /work/all/again, subPath: again, readOnly: true}
    - {name: claim, mountPath: /claim}
    - {name: memory, mountPath: /claim/in}
    - {name: memory, mountPath: /dev/shm/memory}
  volumes:
  - {name: work, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - {name: all, projected: {sources: [{secret: {name: password}}, {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}}
  - {name: claim, persistentVolumeClaim: {claimName: %[1]s}}
`
	eachRuntime(t, func(t *testing.T, d *daemon) {
		for name, hostUsers := range map[string]bool{"host-users": true, "own-users": false} {
			d.apply(fmt.Sprintf(manifest, name, hostUsers))
		}
		runs := func() {
			t.Helper()
			for _, name := range []string{"host-users", "own-users"} {
				d.podUntil(name, "runs again", func(p *corev1.Pod) bool {
					return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].RestartCount > 0 &&
						p.Status.ContainerStatuses[0].State.Running != nil
				})
			}
		}
		says := func(want string) {
			t.Helper()
			const look = `cd /work; cat settings/key conf/key settings/memory/key all/key all/labels deep/message; wc -l < settings/memory/runs
				for dir in /work /work/settings /work/settings/memory /work/all /work/all/again /claim /claim/in /dev/shm/memory
				do touch $dir/new 2>/dev/null && echo $dir
				done
				ls again settings/memory /dev/shm/memory`
			for _, name := range []string{"host-users", "own-users"} {
				d.eventually("what "+name+" sees", func() error {
					if got := strings.Join(strings.Fields(d.jobctl("exec", name, "--", "sh", "-c", look)), " "); got != want {
						return fmt.Errorf("%s, want\n%s", got, want)
					}
					return nil
				})
			}
		}
		const rest = `22a="b"said 2 /work /work/settings/memory /claim /claim/in /dev/shm/memory` +
			` /dev/shm/memory: key new runs again: settings/memory: key new runs`
		runs()
		says("11" + rest)
		d.kill()
		d.serve()
		runs()
		says("11" + rest)
		if _, err := d.CoreV1().ConfigMaps("default").Patch(t.Context(), "settings", types.MergePatchType,
			[]byte(`{"data": {"key": "3"}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		says("31" + rest)
		d.killShards()
		says("31" + rest)
		for _, name := range []string{"host-users", "own-users"} {
			d.jobctl("exec", name, "--", "touch", "/claim/in/end")
			d.podUntil(name, "runs once more", func(p *corev1.Pod) bool {
				return p.Status.ContainerStatuses[0].RestartCount == 2 && p.Status.ContainerStatuses[0].State.Running != nil
			})
		}
		says("33" + strings.Replace(rest, "said 2", "said 3", 1)) // which the subPath shows now
	})
}

// A second container of a pod has the volume in which the first one mounts another, and keeps putting a symlink in the way that leads to a
// directory of the host. runc before 1.1.14 then makes the mount point there (CVE-2024-45310), and all of them mount the volume elsewhere.
func TestSymlinksInTheWayOfVolumes(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		outside, err := os.MkdirTemp("/var/tmp", "jobd-e2e-outside.")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(outside) })
		d.apply(strings.ReplaceAll(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: hostile}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, "cd /v; mkdir -p way; ln -s OUTSIDE link; while :; do mv way real; mv link way; mv way link; mv real way; done"]
    volumeMounts: [{name: v, mountPath: /v}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: shared}}]
`, "OUTSIDE", outside))
		d.podUntil("hostile", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		d.apply(strings.ReplaceAll(`
apiVersion: batch/v1
kind: Job
metadata: {name: victims}
spec:
  completions: 100
  parallelism: 4
  completionMode: Indexed
  backoffLimitPerIndex: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, "[ $(grep -c OUTSIDE /proc/mounts) = 0 ]"]
        volumeMounts:
        - {name: v, mountPath: /v}
        - {name: w, mountPath: /v/way/new/in, subPathExpr: $(JOB_COMPLETION_INDEX)}
        env: [{name: JOB_COMPLETION_INDEX, value: x}]
      volumes:
      - {name: v, persistentVolumeClaim: {claimName: shared}}
      - {name: w, emptyDir: {}}
`, "OUTSIDE", outside))
		d.eventually("all have been started", func() error {
			j, err := d.BatchV1().Jobs("default").Get(t.Context(), "victims", metav1.GetOptions{})
			if err == nil && j.Status.Succeeded+j.Status.Failed < 100 {
				err = fmt.Errorf("%+v", j.Status)
			}
			return err
		})
		for _, p := range d.pods("victims") {
			end := p.Status.ContainerStatuses[0].State.Terminated
			if end == nil || end.ExitCode != 0 && !(end.Reason == "StartError" && strings.Contains(end.Message, " the volume at /v: ")) {
				t.Errorf("%s: %+v", p.Name, end)
			}
		}
		if made, err := filepath.Glob(outside + "/*"); err != nil || len(made) > 0 {
			t.Errorf("on the host there is %v, %v", made, err)
		}
	})
}
