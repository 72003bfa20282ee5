package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Pods that must not, or must, be on one node with others wait for those, and start when they are gone or have come.
func TestPodsWaitForEachOther(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: db, labels: {app: db}}
spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:1.36", command: [sleep, "1000"]}]}
`)
	d.podUntil("db", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	const term = `{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: %s}}}]}`
	job := func(name, spec string) {
		d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: ` + name + `}
spec:
  template:
    metadata: {labels: {app: ` + name + `}}
    spec:
      restartPolicy: Never
      ` + spec + `
      containers: [{name: c, image: "busybox:1.36", command: [sleep, "1"]}]
`)
	}
	waits := func(name, why string) {
		t.Helper()
		d.eventually("the pod of "+name+" says why it waits", func() error {
			pods := d.pods(name)
			if len(pods) != 1 {
				return fmt.Errorf("%d pods", len(pods))
			}
			for _, c := range pods[0].Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
					strings.HasPrefix(c.Message, "0/1 nodes are available: 1 node(s) "+why+".") {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", pods[0].Status.Conditions)
		})
	}
	job("lone", "affinity: {podAntiAffinity: "+fmt.Sprintf(term, "db")+"}")
	job("follower", "affinity: {podAffinity: "+fmt.Sprintf(term, "leader")+"}")
	job("spread", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: spread}}}]`)
	waits("lone", "didn't match pod anti-affinity rules")
	waits("follower", "didn't match pod affinity rules")
	waits("spread", "didn't match pod topology spread constraints (missing required label)")
	job("leader", "terminationGracePeriodSeconds: 5")
	d.jobctl("delete", "pod", "db")
	d.jobctl("label", "nodes", "--all", "rack=one")
	for _, name := range []string{"lone", "follower", "spread", "leader"} {
		d.complete(name)
	}
}
