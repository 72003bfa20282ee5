// Package oracle reads what a real cluster of v1.37.1 did with Jobs: the manifest that was posted, and every change of
// the Job, of its pods and of their events that followed.
package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// SyncLag is how long after they happen a cluster may notice changes: its controller looks at a Job at most once a
// second. What lasted less need not have been written there.
const SyncLag = 1300 * time.Millisecond

// Scenario is one Job's life. Times are in seconds since it was posted.
type Scenario struct {
	Name     string
	Manifest *batchv1.Job
	// AtEnd is the Job as it was last seen. Deleted says whether it was gone then.
	AtEnd    *batchv1.Job
	Deleted  bool
	Timeline []Revision
	Pods     Pods
	Events   []Event
}

// Revision is a state of the Job.
type Revision struct {
	T                 float64           `json:"t"`
	Event             string            `json:"event"`
	Generation        int64             `json:"generation"`
	Finalizers        []string          `json:"finalizers"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	Status            batchv1.JobStatus `json:"status"`
}

// Pods is what became of the Job's pods, and what users did.
type Pods struct {
	Summary           []Pod               `json:"summary"`
	Actions           []Action            `json:"actions"`
	Timelines         map[string][]Change `json:"timelines"`
	FirstPodAsCreated *corev1.Pod         `json:"firstPodAsCreated"`
	PodsAtEnd         []corev1.Pod        `json:"podsAtEnd"`
}

// Action is what a user did: its name, and what to or with what.
type Action struct {
	T      float64 `json:"t"`
	Action []any   `json:"action"`
}

// Pod is one pod in short, in the order of creation.
type Pod struct {
	Name         string          `json:"name"`
	Index        *string         `json:"index"`
	FailureCount *string         `json:"failureCount"`
	Created      metav1.Time     `json:"created"`
	CreatedAt    float64         `json:"createdAt"`
	FinalPhase   corev1.PodPhase `json:"finalPhase"`
	Gone         bool            `json:"gone"`
}

// Change is a state of a pod.
type Change struct {
	T          float64      `json:"t"`
	Event      string       `json:"event"`
	Phase      string       `json:"phase"`
	Restarts   *int32       `json:"restarts"`
	Exit       *int32       `json:"exit"`
	Deletion   *metav1.Time `json:"deletion"`
	Finalizers []string     `json:"finalizers"`
	Owner      []string     `json:"owner"`
	Conditions []string     `json:"conditions"`
}

// Event is an event about the Job or one of its pods: Object is KIND/NAME.
type Event struct {
	T       float64 `json:"t"`
	Type    string  `json:"type"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
	Count   *int    `json:"count"`
	Object  string  `json:"object"`
}

// Scenarios reads all scenarios in a directory.
func Scenarios(dir string) ([]*Scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.timeline.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no scenarios in %s", dir)
	}
	var all []*Scenario
	for _, f := range files {
		s, err := scenario(strings.TrimSuffix(f, ".timeline.jsonl"))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func scenario(base string) (*Scenario, error) {
	s := &Scenario{Name: filepath.Base(base), Manifest: &batchv1.Job{}, AtEnd: &batchv1.Job{}}
	var end struct {
		Deleted  bool         `json:"deleted"`
		LastSeen *batchv1.Job `json:"lastSeen"`
	}
	for _, part := range []struct {
		name string
		into any
	}{
		{".yaml", s.Manifest}, {".pods.yaml", &s.Pods}, {".events.yaml", &s.Events}, {".job.yaml", &end}, {".job.yaml", s.AtEnd},
	} {
		data, err := os.ReadFile(base + part.name)
		if err == nil {
			err = yaml.Unmarshal(data, part.into)
		}
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", base, part.name, err)
		}
	}
	if s.Deleted = end.Deleted; s.Deleted {
		s.AtEnd = end.LastSeen
	}
	lines, err := os.ReadFile(base + ".timeline.jsonl")
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(lines) {
		var r Revision
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", base, err)
		}
		s.Timeline = append(s.Timeline, r)
	}
	return s, nil
}

// Counted returns the states of the Job that were written, each unlike the one before, as a controller would have
// written them that counts in one step: a cluster's first writes a pod into uncountedTerminatedPods, and then counts
// it. With backoffLimitPerIndex a cluster also counts a replaced pod one look at the Job after its replacement was
// created; that intermediate state is left out.
func (s *Scenario) Counted(alike func(a, b *Revision) bool) []Revision {
	var all []Revision
	last := &Revision{}
	for _, r := range s.Timeline {
		r.Status = counted(r.Status)
		r.Status.Conditions = slices.Clone(r.Status.Conditions)
		for i := range r.Status.Conditions {
			r.Status.Conditions[i].Message = s.AnyPod(r.Status.Conditions[i].Message)
		}
		if r.Event != "DELETED" && !alike(last, &r) {
			all = append(all, r)
			last = &all[len(all)-1]
		}
	}
	if s.Manifest.Spec.BackoffLimitPerIndex == nil {
		return all
	}
	var kept []Revision
	for i, r := range all {
		replaced := i > 0 && i+1 < len(all) && r.Status.Active > all[i-1].Status.Active &&
			all[i+1].Status.Failed > r.Status.Failed && all[i+1].T-r.T <= SyncLag.Seconds()
		if !replaced {
			kept = append(kept, r)
		}
	}
	return kept
}

func counted(s batchv1.JobStatus) batchv1.JobStatus {
	if u := s.UncountedTerminatedPods; u != nil {
		s.Failed += int32(len(u.Failed))
		s.Succeeded += int32(len(u.Succeeded))
		s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	return s
}

// together are scenarios whose outcome came of what fell into one look at the Job. Here the earlier event decides
// (job-semantics.md, section 10).
var together = map[string]time.Duration{
	// Three pods end with 42 within 63 ms. Decided by the first of them alone, the other two are deleted.
	"pfp-failjob": 100 * time.Millisecond,
}

// Together returns the time within which changes were decided upon together, 0 for a scenario where that does not
// matter.
func (s *Scenario) Together() time.Duration { return together[s.Name] }

// named finds the pod in a FailJob message.
var named = regexp.MustCompile(`pod \S+ failed`)

// AnyPod removes the pod's name from messages where several pods that ended in the same second matched a FailJob rule:
// which of them a cluster names is chance. Here it is the one that ended first, among those the one created first, and
// among those the first by name.
func (s *Scenario) AnyPod(message string) string {
	if s.Together() == 0 {
		return message
	}
	return named.ReplaceAllString(message, "one of the pods failed")
}
