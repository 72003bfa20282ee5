package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// countdown is an Indexed Job of ten pods at once. Each prints ten numbers with pauses in between and notes its run on
// the host; the odd ones fail for good.
func countdown(name, dir string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  completions: 10
  parallelism: 10
  completionMode: Indexed
  backoffLimitPerIndex: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox:1.36
        command:
        - sh
        - -c
        - |
          echo run >> /out/$JOB_COMPLETION_INDEX
          for n in 1 2 3 4 5 6 7 8 9 10; do echo $n; sleep 0.$JOB_COMPLETION_INDEX; done
          exit $((JOB_COMPLETION_INDEX %% 2))
        volumeMounts: [{name: out, mountPath: /out}]
      volumes: [{name: out, hostPath: {path: %s}}]
`, name, dir)
}

func TestKillInTheMiddleOfTenPods(t *testing.T) {
	t.Parallel()
	d := start(t)
	for round, pause := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second} {
		name, dir := "count-"+strconv.Itoa(round), t.TempDir()
		d.apply(countdown(name, dir))
		time.Sleep(pause / 2)
		d.kill()
		time.Sleep(pause)
		d.serve()
		time.Sleep(pause / 2)
		d.kill()
		d.serve()

		job := d.failed(name, "FailedIndexes")
		if job.Status.CompletedIndexes != "0,2,4,6,8" || *job.Status.FailedIndexes != "1,3,5,7,9" || job.Status.Succeeded != 5 || job.Status.Failed != 5 {
			t.Errorf("%s: %+v", name, job.Status)
		}
		pods := d.pods(name)
		if len(pods) != 10 {
			t.Errorf("%s: %d pods, want 10", name, len(pods))
		}
		for _, p := range pods {
			index := p.Annotations["batch.kubernetes.io/job-completion-index"]
			n, _ := strconv.Atoi(index)
			if end := p.Status.ContainerStatuses[0].State.Terminated; int(end.ExitCode) != n%2 {
				t.Errorf("%s: exit code of index %s is %d", name, index, end.ExitCode)
			}
			if got, want := d.jobctl("logs", p.Name), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"; got != want {
				t.Errorf("%s: index %s said %q", name, index, got)
			}
			if runs, _ := os.ReadFile(filepath.Join(dir, index)); string(runs) != "run\n" {
				t.Errorf("%s: index %s was run %d times", name, index, strings.Count(string(runs), "run"))
			}
		}
	}
}
