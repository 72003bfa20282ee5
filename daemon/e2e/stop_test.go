package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// terminate stops the daemon in good order.
func (d *daemon) terminate() {
	d.t.Helper()
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	<-d.ended
}

// A daemon that is stopped takes the shards that hold nothing with it, and leaves those that hold its pods alone.
func TestStopEndsShardsThatHoldNothing(t *testing.T) {
	t.Parallel()
	d := start(t)
	before := d.shards()
	if len(before) < 2 {
		t.Fatalf("the daemon has shards %v", before)
	}
	d.terminate()
	if said := d.output.String(); !strings.Contains(said, "stopped in good order") {
		t.Errorf("nothing in the log says that it has ended:\n%s", said)
	}
	if left := d.shards(); len(left) > 0 {
		t.Errorf("an idle daemon was stopped and has left shards %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(d.state, "shards", "*", "*.sock")); len(left) > 0 {
		t.Errorf("and the sockets %v", left)
	}

	d.serve()
	stop := filepath.Join(t.TempDir(), "stop")
	d.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: lasting}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, "echo begun; until [ -e /stop/stop ]; do sleep 0.05; done; echo ended"]
        volumeMounts: [{name: stop, mountPath: /stop}]
      volumes: [{name: stop, hostPath: {path: %s}}]
`, filepath.Dir(stop)))
	d.until("lasting", "ready", func(j *batchv1.Job) bool { return j.Status.Ready != nil && *j.Status.Ready == 1 })
	d.terminate()
	if left := d.shards(); len(left) != 1 {
		t.Errorf("the daemon was stopped and has left shards %v, one holds the pod", left)
	}
	if err := os.WriteFile(stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.serve()
	d.complete("lasting")
	if got := d.jobctl("logs", "jobs/lasting"); got != "begun\nended\n" {
		t.Errorf("it has printed %q", got)
	}

	d.kill()
	if left := d.shards(); len(left) < len(before) {
		t.Errorf("a daemon that was killed had shards %v and has left %v", before, left)
	}
}
