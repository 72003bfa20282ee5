package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestACrowdTakesNothingFromOthers has a pod hold 2,300 connections to the API on which it sends nothing, and 450
// requests whose bodies never arrive. Another pod, even though it has the same ServiceAccount, and the administrator
// notice nothing.
func TestACrowdTakesNothingFromOthers(t *testing.T) {
	path := attacker(t)
	c := startClient(t)
	c.needBridge()
	c.importAttacker(path)
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: crowd}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  serviceAccountName: starter
  containers: [{name: c, image: "docker.io/hostile/attacker:1", command: [/attacker, crowd]}]
`)
	c.eventually("the pod holds what it can get", func() error {
		if said, _ := c.try("jobctl", nil, "logs", "crowd"); !strings.Contains(said, "crowded") {
			return fmt.Errorf("it said %q", said)
		}
		return nil
	})
	c.job("harmless", "serviceAccountName: starter", `
set -e
k create job child --image=busybox:1.36 -- echo hello from the child
k wait --for=condition=complete job/child --timeout=10m
k logs job/child
`)
	c.complete("harmless")
	if got := c.logs("harmless"); !strings.Contains(got, "hello from the child") {
		t.Errorf("it said %s", got)
	}
	metrics := c.jobctl("get", "--raw", "/metrics")
	for _, name := range []string{`jobd_api_connections_closed_total{listener="pods"}`, `jobd_api_requests_refused_total{kind="write",listener="pods"}`} {
		if !strings.Contains(metrics, name+" ") || strings.Contains(metrics, name+" 0\n") {
			t.Errorf("nothing was taken back: %s", name)
		}
	}
	if phase := c.jobctl("get", "pod", "crowd", "-o", "jsonpath={.status.phase}"); phase != "Running" {
		t.Errorf("the crowd has gone: %s", phase)
	}
}
