package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime/simulated"
)

func TestTerminationMessages(t *testing.T) {
	for rule, test := range map[string]func(t *testing.T){
		"a failed container without a message shows the end of its log, where it may": func(t *testing.T) {
			dir := t.TempDir()
			h := newHost(t, func(_ *host, c *Config) {
				c.LogPath = func(_ *corev1.Pod, container string, attempt int) string {
					return filepath.Join(dir, container, fmt.Sprintf("%d.log", attempt))
				}
			})
			defer h.close()
			obj := newPod(corev1.RestartPolicyNever, "c")
			obj.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			obj = lasting(obj, "1m")
			obj.Annotations[simulated.ExitCode] = "1"
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			h.take()
			if err := os.WriteFile(filepath.Join(dir, "c", "0.log"),
				[]byte("2026-01-01T00:00:00.000000000Z stdout F one\n2026-01-01T00:00:00.000000000Z stderr F two\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := h.batches[0][0].Status.Message; got != "one\ntwo\n" {
				t.Errorf("message is %q", got)
			}
		},
		"it does so even if it has ended before its start is over": func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "0.log")
			h := newHost(t, func(h *host, c *Config) {
				h.slow = time.Minute
				c.LogPath = func(*corev1.Pod, string, int) string { return log }
			})
			defer h.close()
			if err := os.WriteFile(log, []byte("2026-01-01T00:00:00.000000000Z stdout F why\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			obj := lasting(newPod(corev1.RestartPolicyNever, "c"), "1s")
			obj.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			obj.Annotations[simulated.ExitCode] = "1"
			h.workers.Do(obj, []duty.Action{launchOf("c", 0)})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for _, o := range h.batches[0] {
				if o.What == duty.Exited && o.Status.Message != "why\n" {
					t.Errorf("message is %q", o.Status.Message)
				}
			}
		},
	} {
		t.Run(rule, func(t *testing.T) { synctest.Test(t, test) })
	}
}
