package e2e

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHostileOutput runs containers that do not treat their output and their end as one would wish.
func TestHostileOutput(t *testing.T) {
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
