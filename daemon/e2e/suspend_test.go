package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestASuspendedJobMayChangeWhereAndWithWhatItRuns patches what may change in a template, before the first start and
// between two, and resumes the Job with it.
func TestASuspendedJobMayChangeWhereAndWithWhatItRuns(t *testing.T) {
	t.Parallel()
	d := start(t)
	node := strings.TrimSpace(d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	d.jobctl("label", "nodes", "--all", "disk=ssd")
	patch := func(spec string) (string, error) {
		return d.try("jobctl", nil, "patch", "job", "j", "-p", `{"spec":`+spec+`}`)
	}
	accepted := func(spec string) {
		t.Helper()
		if out, err := patch(spec); err != nil {
			t.Fatalf("%s: %v\n%s", spec, err, out)
		}
	}
	immutable := func(spec, words string) {
		t.Helper()
		if out, err := patch(spec); err == nil || !strings.Contains(out, words) {
			t.Errorf("%s: %v\n%s", spec, err, out)
		}
	}
	const (
		elsewhere = `{"template":{"spec":{"nodeSelector":{"disk":"floppy"}}}}`
		here      = `{"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}`
		more      = `{"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"memory":"48Mi"}}}]}}}`
		labelled  = `{"template":{"metadata":{"labels":{"queue":"q"},"annotations":{"a":"b"}}}}`
		tolerant  = `{"template":{"spec":{"tolerations":[{"key":"gpu","operator":"Exists"}]}}}`
		command   = `{"template":{"spec":{"containers":[{"name":"c","command":["true"]}]}}}`
	)
	d.apply(sleeper("j", 2, 600, "suspend: true"))
	suspended := func(j *batchv1.Job) bool {
		return condition(j, batchv1.JobSuspended) != nil && j.Status.Active == 0 && *j.Status.Terminating == 0
	}
	d.until("j", "suspended", suspended)
	for _, spec := range []string{here, more, labelled, tolerant} {
		accepted(spec)
	}
	immutable(command, "of the pods of a suspended Job only the scheduling")
	accepted(`{"suspend":false}`)
	for _, p := range d.running("j", 2) {
		if p.Spec.NodeName != node || p.Spec.NodeSelector["disk"] != "ssd" || p.Spec.Containers[0].Resources.Limits.Memory().String() != "48Mi" ||
			p.Labels["queue"] != "q" || p.Annotations["a"] != "b" || p.Spec.Tolerations[0].Key != "gpu" {
			t.Errorf("%s: %+v %+v", p.Name, p.ObjectMeta, p.Spec)
		}
	}
	for _, spec := range []string{elsewhere, `{"template":{"metadata":{"labels":{"queue":"r"}}}}`, command} {
		immutable(spec, "the template of a Job cannot change")
	}

	accepted(`{"suspend":true}`)
	job := d.until("j", "suspended again", suspended)
	if s := job.Status; s.Failed != 0 || s.Succeeded != 0 || s.StartTime != nil {
		t.Errorf("pods that the suspension has ended were counted: %+v", s)
	}
	accepted(elsewhere)
	accepted(`{"suspend":false}`)
	d.eventually("no pod runs where there is no such node", func() error { return waitsFor(d.pods("j"), 2, "node affinity/selector") })
}

// waitsFor returns an error unless exactly n pods are unschedulable and their conditions say why.
func waitsFor(pods []corev1.Pod, n int, why string) error {
	waiting := 0
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, why) {
				waiting++
			}
		}
	}
	if waiting != n {
		return fmt.Errorf("%d of %d pods wait for %s", waiting, len(pods), why)
	}
	return nil
}
