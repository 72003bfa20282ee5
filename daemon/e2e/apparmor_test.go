package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How AppArmor confines a container (SecurityContext.AppArmorProfile), on a host that has AppArmor and on one that does
// not.
func TestAppArmorProfile(t *testing.T) {
	d := start(t)
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: NAME}, spec: {restartPolicy: Never, securityContext: {appArmorProfile: PROFILE}, containers: [{name: c, image: "busybox:1.36", command: ["true"]}]}}`
	run := func(name, profile string) *corev1.Pod {
		d.apply(strings.NewReplacer("NAME", name, "PROFILE", profile).Replace(pod))
		return d.podUntil(name, "has ended", ended)
	}
	rejected := func(p *corev1.Pod, why string) {
		t.Helper()
		why = "Cannot enforce AppArmor: " + why
		if s := p.Status; s.Phase != corev1.PodFailed || s.Reason != "AppArmor" || s.Message != "Pod was rejected: "+why {
			t.Errorf("pod %s is %s: %s: %s, want %s", p.Name, s.Phase, s.Reason, s.Message, why)
		}
		events, err := d.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=AppArmor,involvedObject.name=" + p.Name})
		if err != nil || len(events.Items) != 1 || events.Items[0].Message != why {
			t.Errorf("events of pod %s: %v, %+v", p.Name, err, events)
		}
		if table := d.jobctl("get", "pod", p.Name, "--no-headers"); !strings.Contains(table, " AppArmor ") {
			t.Errorf("pod %s: %s", p.Name, table)
		}
	}

	if enabled, _ := os.ReadFile("/sys/module/apparmor/parameters/enabled"); !strings.HasPrefix(string(enabled), "Y") {
		rejected(run("default", "{type: RuntimeDefault}"), "AppArmor is not enabled on the host")
		rejected(run("own", "{type: Localhost, localhostProfile: jobd-e2e}"), "AppArmor is not enabled on the host")
		if p := run("unconfined", "{type: Unconfined}"); p.Status.Phase != corev1.PodSucceeded {
			t.Errorf("a pod that asks for no profile: %+v", p.Status)
		}
		return
	}
	parser, err := exec.LookPath("apparmor_parser")
	if err != nil {
		t.Skip("needs apparmor_parser")
	}
	rejected(run("missing", "{type: Localhost, localhostProfile: jobd-e2e}"), `profile "jobd-e2e" is not loaded`)

	profile := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(profile, []byte("profile jobd-e2e flags=(attach_disconnected) {\n file,\n deny /tmp/forbidden w,\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(parser, "-Kr", profile).CombinedOutput(); err != nil {
		t.Fatalf("load a profile: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(parser, "-R", profile).CombinedOutput(); err != nil {
			t.Errorf("unload a profile: %v: %s", err, out)
		}
	})
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: confined, annotations: {container.apparmor.security.beta.kubernetes.io/annotated: localhost/jobd-e2e}}
spec:
  restartPolicy: Never
  containers:
  # Without the profile the capability would let it mount.
  - {name: unset, image: "busybox:1.36", securityContext: {capabilities: {add: [SYS_ADMIN]}, seccompProfile: {type: Unconfined}}, command: [sh, -c, cat /proc/self/attr/current; mount -t tmpfs x /tmp 2>&1; sleep 1000]}
  - {name: default, image: "busybox:1.36", securityContext: {appArmorProfile: {type: RuntimeDefault}}, command: [cat, /proc/self/attr/current]}
  - {name: unconfined, image: "busybox:1.36", securityContext: {appArmorProfile: {type: Unconfined}, capabilities: {add: [SYS_ADMIN]}, seccompProfile: {type: Unconfined}}, command: [sh, -c, cat /proc/self/attr/current; mount -t tmpfs x /tmp && echo mounted]}
  - {name: privileged, image: "busybox:1.36", securityContext: {privileged: true}, command: [cat, /proc/self/attr/current]}
  - {name: own, image: "busybox:1.36", securityContext: {appArmorProfile: {type: Localhost, localhostProfile: jobd-e2e}}, command: [sh, -c, "cat /proc/self/attr/current; (echo x >/tmp/forbidden) 2>&1; echo x >/tmp/allowed && echo written"]}
  - {name: annotated, image: "busybox:1.36", command: [cat, /proc/self/attr/current]}
`)
	d.podUntil("confined", "has containers that have ended", func(p *corev1.Pod) bool {
		ends := 0
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil {
				ends++
			}
		}
		return ends == 5
	})
	fallback := d.name() + "-default (enforce)\n"
	for container, want := range map[string]string{
		"unset":      fallback + "mount: mounting x on /tmp failed: Permission denied\n",
		"default":    fallback,
		"unconfined": "unconfined\nmounted\n",
		"privileged": "unconfined\n",
		"own":        "jobd-e2e (enforce)\nsh: can't create /tmp/forbidden: Permission denied\nwritten\n",
		"annotated":  "jobd-e2e (enforce)\n",
	} {
		d.eventually("the log of "+container, func() error {
			got, err := d.CoreV1().Pods("default").GetLogs("confined", &corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
			if err == nil && string(got) != want {
				err = fmt.Errorf("%q is not %q", got, want)
			}
			return err
		})
	}
	if got := d.jobctl("exec", "confined", "-c", "unset", "--", "cat", "/proc/self/attr/current"); got != fallback {
		t.Errorf("a process that is executed is confined by %q", got)
	}
}
