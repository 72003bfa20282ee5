package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHostileOutput runs containers that misbehave in what they write and how they end.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, d *daemon) {
		job := func(name, command string) string {
			return strings.Replace(sleeper(name, 1, 0, "backoffLimit: 0"), `[sleep, "0"]`, fmt.Sprintf("[sh, -c, %q]", command), 1)
		}
		d.apply(job("held", "(sleep 1000; echo late) & echo done") + "---" +
			job("long", "head -c 10485760 /dev/zero | tr '\\0' x; echo") + "---" +
			job("binary", "cat /bin/busybox; sha256sum </bin/busybox >/dev/termination-log") + "---" +
			job("deaf", "trap '' TERM; echo ready; while :; do sleep 1; done"))

		t.Run("stdout held open by a child that stays", func(t *testing.T) {
			d.complete("held")
			if got := d.jobctl("logs", "jobs/held"); got != "done\n" {
				t.Errorf("log is %q", got)
			}
		})
		t.Run("a line of 10 MB", func(t *testing.T) {
			d.complete("long")
			if got := d.jobctl("logs", "jobs/long"); len(got) != 10485761 || strings.Trim(got, "x") != "\n" {
				t.Errorf("log has %d bytes", len(got))
			}
		})
		t.Run("binary output", func(t *testing.T) {
			d.complete("binary")
			want := d.pods("binary")[0].Status.ContainerStatuses[0].State.Terminated.Message
			if got := fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(d.jobctl("logs", "jobs/binary")))); got != want {
				t.Errorf("log has the sum %s, what was written %s", got, want)
			}
		})
		t.Run("SIGTERM ignored", func(t *testing.T) {
			pod := d.running("deaf", 1)[0].Name
			d.jobctl("delete", "job", "deaf", "--wait=false")
			d.eventually("the pod is gone", func() error {
				_, err := d.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("it is there: %v", err)
			})
		})
	})
}

// TestHostilePods runs pods that take all they can get.
func TestHostilePods(t *testing.T) {
	t.Parallel()
	d := start(t, "--pids-limit", "64", "--container-log-max-size", "1Mi", "--container-log-max-files", "2")
	pod := func(name, command, mounts, volumes, more string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q], volumeMounts: [%s]}]
  volumes: [%s]%s
`, name, command, mounts, volumes, more)
	}
	over := []string{"/proc", "/proc/sys", "/sys", "/dev"}
	manifest := pod("forks", `b() { b & b; }; b`, "", "", "") +
		pod("loud", `yes 0123456789012345678901234567890123456789 | head -c 33554432; echo; echo last`, "", "", "") +
		pod("link", "cat /out/shadow", "{name: v, mountPath: /out, subPath: out/etc}", "{name: v, emptyDir: {}}", `
  initContainers: [{name: i, image: "busybox:1.36", command: [ln, -s, /, /v/out], volumeMounts: [{name: v, mountPath: /v}]}]`) +
		pod("socket", "true", "{name: v, mountPath: /jobd.sock}", "{name: v, hostPath: {path: "+d.socket()+", type: Socket}}", "") +
		pod("below", "true", "{name: v, mountPath: /v}", "{name: v, hostPath: {path: "+d.root+"/new/dir, type: DirectoryOrCreate}}", "")
	for i, path := range over {
		manifest += pod(
			fmt.Sprintf("over-%d", i), "exec 2>&1; echo mine >"+path+"/file && cat "+path+"/file",
			"{name: v, mountPath: "+path+"}", "{name: v, emptyDir: {}}", "",
		)
	}
	d.apply(manifest)

	t.Run("forks until pids run out", func(t *testing.T) {
		if p := d.podUntil("forks", "has ended", ended); p.Status.Phase != corev1.PodFailed {
			t.Errorf("%+v", p.Status)
		}
	})
	t.Run("far more output than its log may hold", func(t *testing.T) {
		p := d.podUntil("loud", "has ended", ended)
		if got := d.jobctl("logs", "--tail=1", "loud"); got != "last\n" {
			t.Errorf("the last line is %q", got)
		}
		size := int64(0)
		err := filepath.WalkDir(filepath.Join(d.root, "logs"), func(path string, e fs.DirEntry, err error) error {
			if info, infoErr := e.Info(); strings.Contains(path, string(p.UID)) && !e.IsDir() && infoErr == nil {
				size += info.Size()
			}
			return err
		})
		if err != nil || size == 0 || size > 3<<20 {
			t.Errorf("its log takes %d bytes: %v", size, err)
		}
	})
	t.Run("a symlink in a subPath leads nowhere", func(t *testing.T) {
		p := d.podUntil("link", "is refused", func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerConfigError"
		})
		if got := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(got, "not within volume path") {
			t.Errorf("said %q", got)
		}
	})
	for _, name := range []string{"socket", "below"} {
		t.Run("hostPath of what is jobd's: "+name, func(t *testing.T) {
			d.eventually("it is refused", func() error {
				if events := d.jobctl("events", "--for", "pod/"+name); !strings.Contains(events, "FailedMount") ||
					!strings.Contains(events, "belongs to jobd itself") {
					return fmt.Errorf("events:\n%s", events)
				}
				return nil
			})
		})
	}
	for i, path := range over {
		t.Run("a volume over "+path, func(t *testing.T) {
			p := d.podUntil(fmt.Sprintf("over-%d", i), "is refused", endedOrStuck)
			if s := p.Status.ContainerStatuses[0].State.Waiting; s == nil || !strings.Contains(s.Message, "the kernel's own files") {
				t.Errorf("%+v", p.Status)
			}
		})
	}
}
