package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue, greeting: "hello $(color)"}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {user: me, password: "s3cret"}
---
`

func TestConfigMapsAndSecretsReachPods(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(settings + `
apiVersion: batch/v1
kind: Job
metadata: {name: config}
spec:
  template:
    metadata: {labels: {tier: test}}
    spec:
      restartPolicy: Never
      securityContext: {runAsUser: 1000, fsGroup: 2000}
      containers:
      - name: c
        image: busybox:1.36
        envFrom:
        - {prefix: CFG_, configMapRef: {name: settings}}
        - {secretRef: {name: login}}
        - {secretRef: {name: none, optional: true}}
        env:
        - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
        - {name: NONE, valueFrom: {secretKeyRef: {name: none, key: k, optional: true}}}
        - {name: BOTH, value: "$(COLOR)-$(user)"}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        command: [sh, -c]
        args:
        - |
          echo "$CFG_color|$CFG_greeting|$password|$COLOR|${NONE-unset}|$BOTH"
          cd /all
          for f in color user pod/labels pod/memory; do echo "$f=$(cat $f)"; done
          ls -l /secret/..data/password /secret/..data/user | awk '{print $1, $3, $4}'
          cat /one/color; echo
          touch /secret/x 2>&1
          [ -d /sub/deep ] && echo "sub $POD"
        volumeMounts:
        - {name: all, mountPath: /all}
        - {name: secret, mountPath: /secret}
        - {name: color, mountPath: /one/color, subPath: color}
        - {name: scratch, mountPath: /scratch}
        - {name: scratch, mountPath: /sub, subPathExpr: "a/$(POD)"}
      initContainers:
      - name: make
        image: busybox:1.36
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        command: [mkdir, /sub/deep]
        volumeMounts: [{name: scratch, mountPath: /sub, subPathExpr: "a/$(POD)"}]
      volumes:
      - {name: scratch, emptyDir: {}}
      - {name: color, configMap: {name: settings}}
      - {name: secret, secret: {secretName: login, defaultMode: 0400, items: [{key: password, path: password}, {key: user, path: user, mode: 0444}]}}
      - name: all
        projected:
          sources:
          - {configMap: {name: settings}}
          - {secret: {name: login}}
          - {configMap: {name: none, optional: true}}
          - downwardAPI:
              items:
              - {path: pod/labels, fieldRef: {fieldPath: "metadata.labels['tier']"}}
              - {path: pod/memory, resourceFieldRef: {containerName: c, resource: requests.memory}}
`)
	d.complete("config")
	pod := d.pods("config")[0].Name
	want := `blue|hello $(color)|s3cret|blue|unset|blue-me
color=blue
user=me
pod/labels=test
pod/memory=0
-r--r----- root 2000
-r--r--r-- root 2000
blue
touch: /secret/x: Read-only file system
sub ` + pod + "\n"
	if got := d.jobctl("logs", "-c", "c", "jobs/config"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMissingConfigIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: volume}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: "busybox:1.36", command: [cat, /v/color], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, configMap: {name: settings}}]
---
apiVersion: v1
kind: Pod
metadata: {name: env}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "echo $X"], env: [{name: X, valueFrom: {secretKeyRef: {name: login, key: user}}}]}
`)
	d.eventually("the event of the volume", func() error {
		if events := d.jobctl("events", "--for", "pod/volume"); !strings.Contains(
			events, `MountVolume.SetUp failed for volume "v" : configmap "settings" not found`,
		) {
			return fmt.Errorf("events:\n%s", events)
		}
		return nil
	})
	d.podUntil("env", "waits", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerConfigError" &&
			s[0].State.Waiting.Message == `secret "login" not found`
	})
	d.apply(settings)
	for _, name := range []string{"volume", "env"} {
		d.podUntil(name, "has ended", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	}
	if got := d.jobctl("logs", "volume") + d.jobctl("logs", "env"); got != "blueme\n" {
		t.Errorf("logs %q", got)
	}
}

func TestConfigChangesInRunningPods(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(settings + `
apiVersion: v1
kind: Pod
metadata: {name: watcher, labels: {seen: "one"}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, 'while :; do now="$(cat /v/color) $(cat /s/user) $(cat /d/labels)"; [ "$now" = "$last" ] || echo "$now"; last=$now; sleep 0.05; done']
    volumeMounts: [{name: v, mountPath: /v}, {name: s, mountPath: /s}, {name: d, mountPath: /d}]
  volumes:
  - {name: v, configMap: {name: settings}}
  - {name: s, secret: {secretName: login}}
  - {name: d, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
`)
	said := func(want string) {
		t.Helper()
		d.eventually("the pod sees "+want, func() error {
			if logs, err := d.try("jobctl", nil, "logs", "watcher"); err != nil || !strings.HasSuffix(logs, want+"\n") {
				return fmt.Errorf("it has said:\n%s %w", logs, err)
			}
			return nil
		})
	}
	patch := func(what, name, patch string) {
		t.Helper()
		d.jobctl("patch", what, name, "--type=merge", "--patch", patch)
	}
	said(`blue me seen="one"`)
	patch("configmap", "settings", `{"data":{"color":"red"}}`)
	said(`red me seen="one"`)
	patch("secret", "login", `{"stringData":{"user":"you"}}`)
	said(`red you seen="one"`)
	patch("pod", "watcher", `{"metadata":{"labels":{"seen":"two"}}}`)
	said(`red you seen="two"`)

	// The files of a pod that an earlier daemon has set up follow changes, too.
	d.kill()
	d.serve()
	patch("configmap", "settings", `{"data":{"color":"green"}}`)
	said(`green you seen="two"`)
}

// podUntil waits until a pod is as a test wants it, and returns it.
func (d *daemon) podUntil(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	d.t.Helper()
	var pod *corev1.Pod
	d.eventually("pod "+name+": "+what, func() (err error) {
		if pod, err = d.CoreV1().Pods("default").Get(d.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !is(pod) {
			return fmt.Errorf("%+v", pod.Status)
		}
		return nil
	})
	return pod
}
