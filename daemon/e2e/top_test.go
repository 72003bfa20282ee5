package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTop: of pods, containers and the node, with jobctl and with kubectl.
func TestTop(t *testing.T) {
	d := start(t, "--network", "none", "--listen", "127.0.0.1:0")
	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  template:
    metadata: {labels: {team: a}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - {name: burns, image: "busybox:1.36", command: [sh, -c, "while :; do :; done"]}
      - {name: holds, image: "busybox:1.36", command: [sh, -c, "x=$(head -c 50000000 /dev/zero | tr '\\0' a); sleep 600; true"]}
`)
	d.apply(sleeper("idle", 1, 600, ""))
	d.apply(jobOf("over", "true"))
	d.complete("over")
	d.running("idle", 1)
	busy := d.running("work", 1)[0].Name
	// A pod can be measured from its first second on.
	d.eventually("top shows the pods", func() error {
		for _, program := range []string{"jobctl", "kubectl"} {
			rows, err := d.top(program, "pods", "--containers", "-l", "team=a")
			if err != nil || len(rows) != 2 || rows[0][0] != busy {
				return fmt.Errorf("%v %v", rows, err)
			}
			burns, holds := rows[0], rows[1]
			if burns[1] != "burns" || holds[1] != "holds" || amount(t, burns[2]) <= amount(t, holds[2]) || amount(t, holds[3]) < 40<<20 {
				return fmt.Errorf("%v", rows)
			}
			if rows, err = d.top(program, "pods", "--sort-by=cpu"); err != nil || len(rows) != 2 || rows[0][0] != busy {
				return fmt.Errorf("%v %v", rows, err)
			}
			if rows, err = d.top(program, "nodes"); err != nil || len(rows) != 1 || rows[0][0] != d.node() || len(rows[0]) != 5 ||
				amount(t, rows[0][1]) <= 0 || amount(t, rows[0][3]) < 50<<20 {
				return fmt.Errorf("%v %v", rows, err)
			}
		}
		return nil
	})
	if out, err := d.try("jobctl", nil, "top", "pods", "-n", "kube-system"); err != nil || !strings.Contains(out, "No resources found") {
		t.Errorf("%s %v", out, err)
	}
	if out, err := d.try("jobctl", nil, "get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/nosuch"); err == nil {
		t.Errorf("of a pod that does not exist: %s", out)
	}
}

// top returns the cells that top prints.
func (d *daemon) top(program string, args ...string) (rows [][]string, err error) {
	args = append(append([]string{"top"}, args...), "--no-headers")
	out, err := d.try("jobctl", nil, args...)
	if program == "kubectl" {
		out, err = d.tryKubectl(args...)
	}
	if err != nil {
		return nil, errors.New(out)
	}
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Fields(line))
	}
	return rows, nil
}

// node returns the name of the node.
func (d *daemon) node() string {
	nodes, err := d.CoreV1().Nodes().List(d.t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		d.t.Fatalf("nodes: %v %v", nodes, err)
	}
	return nodes.Items[0].Name
}

// amount reads a cell such as 250m or 64Mi.
func amount(t *testing.T, cell string) float64 {
	t.Helper()
	q, err := resource.ParseQuantity(cell)
	if err != nil {
		t.Fatal(err)
	}
	return q.AsApproximateFloat64()
}
