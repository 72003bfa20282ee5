package e2e

import (
	"fmt"
	"strings"
	"testing"

	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// A distributed training whose ranks meet as those of torchrun do: all ask rank 0 by its name, and none is ready before all have met, so
// that they find each other though no pod is ready. One that ends begins the whole anew, which goes on at the last checkpoint.
func TestTrainingOfAJobSet(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  failurePolicy: {maxRestarts: 2, restartStrategy: BlockingRecreate}
  coordinator: {replicatedJob: ranks}
  volumeClaimPolicies:
  - templates:
    - {metadata: {name: checkpoints}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}
  replicatedJobs:
  - name: ranks
    template:
      spec:
        completions: 3
        parallelism: 3
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            containers:
            - name: c
              image: busybox:1.36
              readinessProbe: {exec: {command: [test, -e, /tmp/met]}, periodSeconds: 1}
              volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
              env:
              - {name: MASTER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/coordinator']"}}}
              - {name: ATTEMPT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}}
              command:
              - sh
              - -c
              - |
                rank=$JOB_COMPLETION_INDEX world=/checkpoints/world.$ATTEMPT
                if [ $rank = 0 ]; then
                  until [ "$(sort -u /tmp/ranks 2>/dev/null | grep -c rank)" = 2 ]; do echo hello | nc -l -p 29500 >> /tmp/ranks; done
                  touch $world
                fi
                until [ -e $world ]; do [ $rank = 0 ] || echo rank $rank | nc -w 2 $MASTER 29500 > /dev/null; sleep 0.2; done
                touch /tmp/met
                step=$(cat /checkpoints/step 2>/dev/null || echo 0)
                echo "rank $rank of attempt $ATTEMPT goes on at step $step"
                until [ $ATTEMPT = 1 ] && [ -e /checkpoints/done ]; do
                  [ -e /tmp/die ] && exit 9
                  if [ $rank = 0 ]; then
                    step=$((step + 1)); echo $step > /checkpoints/step
                    [ $ATTEMPT = 1 ] && [ $step -gt 20 ] && touch /checkpoints/done
                  fi
                  sleep 0.1
                done
`)
	pod := ""
	d.eventually("all have met, and are ready", func() error {
		js, err := d.jobSet("train")
		if err != nil || len(js.Status.ReplicatedJobsStatus) == 0 || js.Status.ReplicatedJobsStatus[0].Ready != 1 {
			return fmt.Errorf("%w: %+v", err, js.Status)
		}
		pod = d.jobctl("get", "pods", "-l", "batch.kubernetes.io/job-completion-index=2", "-o", "jsonpath={.items[0].metadata.name}")
		if out := d.jobctl("exec", pod, "--", "cat", "/checkpoints/step"); len(strings.TrimSpace(out)) < 2 {
			return fmt.Errorf("it is at step %s", out)
		}
		return nil
	})
	d.jobctl("exec", pod, "--", "touch", "/tmp/die")
	d.eventually("it begins anew", func() error {
		js, err := d.jobSet("train")
		if err == nil && js.Status.Restarts < 1 {
			err = fmt.Errorf("%+v", js.Status)
		}
		return err
	})
	d.kill() // while the pods of the first attempt end
	d.serve()
	d.eventually("it is complete", func() error {
		js, err := d.jobSet("train")
		if err == nil && js.Status.TerminalState != string(jobsetv1.JobSetCompleted) {
			err = fmt.Errorf("%+v", js.Status)
		}
		return err
	})
	out := d.jobctl("logs", "jobs/train-ranks-0")
	for rank := range 3 {
		words := fmt.Sprintf("rank %d of attempt 1 goes on at step ", rank)
		if _, step, ok := strings.Cut(out, words); !ok || strings.HasPrefix(step, "0\n") {
			t.Errorf("%q is not in the log, or it begins at 0: %s", words, out)
		}
	}
}
