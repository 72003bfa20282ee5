package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The forwarder is killed, and the line is cut, again and again: each Job ends once, none is lost, and nothing is left.
// JOBD_FORWARDED sets how many Jobs there are.
func TestForwardKilledAnywhere(t *testing.T) {
	t.Parallel()
	n, err := strconv.Atoi(os.Getenv("JOBD_FORWARDED"))
	if err != nil {
		n = 30
	}
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=64"})
	applied := make(chan error, 1)
	go func() {
		_, err := f.here.try("jobctl", []byte(manyForwarded("m", n)), "apply", "-f", "-", "--validate=false")
		applied <- err
	}()
	f.shootAt(n)
	if err := <-applied; err != nil {
		t.Fatalf("apply: %v", err)
	}
	f.here.eventually("all have ended", func() error {
		if got := f.ended(); got != n {
			return fmt.Errorf("%d of %d", got, n)
		}
		return nil
	})
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		f.alike(name)
		j := f.here.job(name)
		if failed := condition(j, batchv1.JobFailed); (failed != nil) != (i%5 == 0) || failed != nil && failed.Reason != batchv1.JobReasonBackoffLimitExceeded {
			t.Errorf("%s: %+v", name, j.Status.Conditions)
		}
		if pods := f.there.pods(name); len(pods) != 1 {
			t.Errorf("%s has had %d pods", name, len(pods))
		}
	}
	background := metav1.DeletePropagationBackground
	if err := f.here.BatchV1().Jobs("default").DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background},
		metav1.ListOptions{LabelSelector: "app=forwarded"}); err != nil {
		t.Fatal(err)
	}
	for what, d := range map[string]*daemon{"here": f.here, "there": f.there} {
		d.eventually("nothing is left "+what, func() error {
			jobs, err := d.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			pods, err := d.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err == nil && len(jobs.Items)+len(pods.Items) > 0 {
				err = fmt.Errorf("%d Jobs, %d pods", len(jobs.Items), len(pods.Items))
			}
			return err
		})
	}
}
