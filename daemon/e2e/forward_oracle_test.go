package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/testdata/oracle"
)

// played is how the pods of a recorded scenario are simulated: for how long they run, and how they exit.
type played struct {
	duration, exit string
	// slow ones are played only with JOBD_FORWARDED: they wait for a back-off.
	slow bool
	// side: pods end side by side, and how many of them have before the Job ends is chance.
	side bool
}

// needNode are the scenarios that cannot be simulated so, and why.
var needNode = map[string]string{
	"backoff-reset": "its pods remember on the node how many there were", "pfp-ignore": "its pods remember on the node how many there were",
	"command-missing": "a container cannot start", "image-missing": "an image cannot be pulled", "oom-signal": "a container is killed",
	"failjob-slowterm": "its indexes run for different times", "success-count": "its indexes run for different times",
	"success-indexes": "its indexes run for different times", "success-slowterm": "its indexes run for different times",
	"managedby": "another controller manages it",
}

// untilThen is how long pods run that end by themselves after users have done something while they ran, which on a busy machine takes its time.
const untilThen = "20s"

// simulations are the others.
var simulations = map[string]played{
	"deadline": {duration: "1h"}, "delete-background": {duration: "1h"}, "delete-orphan": {duration: "1h"}, "delpod-b0": {duration: "1h"},
	"elastic": {duration: untilThen}, "indexed": {}, "indexed-perindex": {exit: "1:1,3:1"}, "manual-selector": {}, "never-b0": {exit: "1"},
	"never-b1": {exit: "1"}, "never-b3": {exit: "1"}, "never-b6": {exit: "1", slow: true}, "onfailure-b0": {exit: "1"},
	"onfailure-b3": {exit: "1", slow: true}, "onfailure-recovers": {exit: "1,0", slow: true}, "parallelism0": {}, "perindex-b3": {exit: "1:1"},
	"pfp-container2": {exit: "42"}, "pfp-failindex": {exit: "1:1,3:1"}, "pfp-failjob": {exit: "42", side: true},
	"pfp-ignore-disruption": {duration: untilThen}, "replace-failed": {duration: untilThen}, "simple": {}, "suspend-mid": {duration: untilThen},
	"suspend-start": {}, "ttl": {}, "ttl0": {}, "workqueue": {duration: "1s"}, "workqueue-one-done": {duration: "1s"}, "zero-completions": {},
}

// What a real cluster did with Jobs (testdata/oracle) is done twice again, with simulated pods: here, and in a cluster to which the Jobs are
// forwarded. They end with the same status, which is that of the real cluster as far as the simulation goes: how they have ended, and why.
func TestForwardedScenarios(t *testing.T) {
	t.Parallel()
	scenarios, err := oracle.Scenarios("../../testdata/oracle/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=64", "--pod-backoff-base", "1s", "--pod-backoff-cap", "2s"})
	type run struct {
		s                *oracle.Scenario
		ours, theirs     *rerun // unforwarded, and forwarded
		failed, failedTo error
	}
	var runs []*run
	var playing sync.WaitGroup
	for _, s := range scenarios {
		how, ok := simulations[s.Name]
		if ok == (needNode[s.Name] != "") {
			t.Errorf("%s: nothing says how it is to be simulated, or why it is not", s.Name)
		}
		if !ok || how.slow && os.Getenv("JOBD_FORWARDED") == "" {
			continue
		}
		r := &run{
			s: s, ours: &rerun{Scenario: s, jobs: f.here, pods: f.here, namespace: "own-" + s.Name},
			theirs: &rerun{Scenario: s, jobs: f.here, pods: f.there, namespace: "fwd-" + s.Name, manager: clusters.Manager("prod")},
		}
		runs = append(runs, r)
		playing.Go(func() { r.failed = r.ours.play(how) })
		playing.Go(func() { r.failedTo = r.theirs.play(how) })
	}
	playing.Wait()
	for _, r := range runs {
		t.Run(r.s.Name, func(t *testing.T) {
			if err := errors.Join(r.failed, r.failedTo); err != nil {
				t.Fatal(err)
			}
			ours, theirs := r.ours.last, r.theirs.last
			if (ours == nil) != (theirs == nil) || (ours == nil) != r.s.Deleted {
				t.Fatalf("it is gone: unforwarded %v, forwarded %v, in the real cluster %v", ours == nil, theirs == nil, r.s.Deleted)
			}
			if r.s.Deleted {
				return
			}
			if simulations[r.s.Name].side {
				ours.Status.Failed, theirs.Status.Failed = 0, 0
			}
			if a, b := r.ours.timeless(), r.theirs.timeless(); !equality.Semantic.DeepEqual(a, b) {
				t.Errorf("unforwarded %+v\nforwarded   %+v", a, b)
			}
			if was, is := batch.End(&r.s.AtEnd.Status), batch.End(&theirs.Status); was.Type != is.Type || was.Reason != is.Reason {
				t.Errorf("in the real cluster %+v\nforwarded %+v", was, is)
			}
		})
	}
}

// rerun is a scenario as it is played with simulated pods.
type rerun struct {
	*oracle.Scenario
	jobs, pods *daemon // where users are, and where pods run
	namespace  string
	manager    string       // empty: jobd itself
	last       *batchv1.Job // nil: it is gone
}

func (r *rerun) manifest(how played) *batchv1.Job {
	j := r.Manifest.DeepCopy()
	if r.manager != "" {
		j.Spec.ManagedBy = &r.manager
	}
	template := &j.Spec.Template
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, simulated.Duration, how.duration)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, simulated.ExitCode, how.exit)
	for name, value := range template.Annotations {
		if value == "" {
			delete(template.Annotations, name)
		}
	}
	template.Spec.Volumes = nil // they are the memory of commands that nobody runs
	for i := range template.Spec.Containers {
		template.Spec.Containers[i].VolumeMounts = nil
	}
	return j
}

// play does what users did, each action once pods are active, or not, as then, and returns when the Job has ended or is gone.
func (r *rerun) play(how played) error {
	ctx := r.jobs.t.Context()
	for _, d := range []*daemon{r.jobs, r.pods} {
		_, err := d.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	jobs, pods := r.jobs.BatchV1().Jobs(r.namespace), r.pods.CoreV1().Pods(r.namespace)
	if _, err := jobs.Create(ctx, r.manifest(how), metav1.CreateOptions{}); err != nil {
		return err
	}
	running := func() (names []string, err error) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				names = append(names, p.Name)
			}
		}
		return names, nil
	}
	suspended := func(s *batchv1.JobStatus) bool { return batch.ConditionTrue(s.Conditions, batchv1.JobSuspended) }
	for _, a := range r.Pods.Actions {
		if len(a.Action) == 0 {
			continue
		}
		what, _ := a.Action[0].(string)
		if err := r.await(fmt.Sprint(a.Action), func(j *batchv1.Job) (bool, error) {
			if what != "running" {
				was := r.at(a.T)
				if batch.End(&j.Status) != nil {
					return false, fmt.Errorf("%s: the Job has ended before %v", r.namespace, a.Action)
				}
				return (j.Status.Active > 0) == (was.Active > 0) && suspended(&j.Status) == suspended(&was), nil
			}
			names, err := running()
			if err == nil && batch.End(&j.Status) != nil {
				err = errors.New("the Job has ended before")
			}
			return float64(len(names)) >= a.Action[1].(float64), err
		}); err != nil {
			return err
		}
		var err error
		switch what {
		case "patch":
			var patch []byte
			if patch, err = json.Marshal(a.Action[1]); err == nil {
				_, err = jobs.Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			}
		case "delete":
			err = jobs.Delete(ctx, r.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation(a.Action[1].(string)))})
		case "delete pod", "evict":
			names, failed := running()
			if err = failed; err == nil && len(names) == 0 {
				err = errors.New("no pod runs")
			}
			if err == nil && what == "evict" {
				err = pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: names[0]}})
			} else if err == nil {
				err = pods.Delete(ctx, names[0], metav1.DeleteOptions{})
			}
		}
		if err != nil {
			return fmt.Errorf("%v: %w", a.Action, err)
		}
	}
	return r.await("the end", func(j *batchv1.Job) (bool, error) {
		r.last = j
		return !r.Deleted && batch.End(&j.Status) != nil && ptr.Deref(j.Status.Terminating, 0) == 0, nil
	})
}

// at returns the status of the recorded Job at a time.
func (r *rerun) at(t float64) (was batchv1.JobStatus) {
	for i := range r.Timeline {
		if r.Timeline[i].T <= t {
			was = r.Timeline[i].Status
		}
	}
	return was
}

// await waits until something is so, or the Job is gone.
func (r *rerun) await(what string, is func(*batchv1.Job) (bool, error)) error {
	var j *batchv1.Job
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var err error
		if j, err = r.jobs.BatchV1().Jobs(r.namespace).Get(r.jobs.t.Context(), r.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			r.last = nil
			return nil
		}
		so := false
		if err == nil {
			so, err = is(j)
		}
		if so || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: not within %v: %s: %+v", r.namespace, patience, what, j.Status)
}

// timeless returns the last status without times, and names of pods and namespaces.
func (r *rerun) timeless() batchv1.JobStatus {
	s := *r.last.Status.DeepCopy()
	for _, at := range []*metav1.Time{s.StartTime, s.CompletionTime} {
		if at != nil {
			*at = metav1.Time{}
		}
	}
	pod := regexp.MustCompile(regexp.QuoteMeta(r.namespace+"/"+r.Name) + `(-\d+)?-[a-z0-9]{5}\b`)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastProbeTime, c.LastTransitionTime = metav1.Time{}, metav1.Time{}
		c.Message = pod.ReplaceAllString(c.Message, "POD")
	}
	return s
}
