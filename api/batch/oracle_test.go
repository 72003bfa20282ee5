package batch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yaml12 "go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// The answers under testdata/oracle were recorded from a real cluster of v1.37.1.
const oracle = "../../testdata/oracle"

// answer is what a cluster answered to a write.
type answer struct {
	Code    int
	Reason  string
	Message string
	Details *metav1.StatusDetails
	Patch   json.RawMessage
}

// elsewhere are the cases that are not decided by the rules of the kind; package server tests them.
var elsewhere = map[string]string{
	"metadata.name":         "apiserver's handler compares the name with that of the URL",
	"stale resourceVersion": "apiserver's storage compares resource versions",
}

func readOracle(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(oracle, name))
	if err != nil {
		t.Fatal(err)
	}
	// They were written as YAML 1.2, where y is not a boolean.
	var content any
	if err := yaml12.Unmarshal(data, &content); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// create does with a manifest what the server does.
func create(job *batchv1.Job, uid string) field.ErrorList {
	job.Namespace, job.UID = "or-updates", types.UID(uid)
	SetJobDefaults(job)
	PrepareJob(job)
	return ValidateJob(job)
}

// asTheAPI puts errors into the server's answer.
func asTheAPI(name string, errs field.ErrorList) answer {
	if len(errs) == 0 {
		return answer{}
	}
	status := apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, name, errs).ErrStatus
	return answer{Code: int(status.Code), Reason: string(status.Reason), Message: status.Message, Details: status.Details}
}

// dump matches a whole value inside a message: its syntax is that of the Go types, which are not the same here.
var dump = regexp.MustCompile(`Invalid value: \{.*?\}: (field is immutable|must be empty for finished job)`)

func withoutDumps(s string) string {
	return dump.ReplaceAllString(s, "Invalid value: {...}: $1")
}

func compare(t *testing.T, want, got answer, accepted int) {
	t.Helper()
	if want.Code == accepted {
		if got.Code != 0 {
			t.Errorf("a cluster accepts this; refused: %s", got.Message)
		}
		return
	}
	if got.Code != want.Code || got.Reason != want.Reason {
		t.Errorf("%d %s, a cluster says %d %s", got.Code, got.Reason, want.Code, want.Reason)
	}
	if diff := cmp.Diff(withoutDumps(want.Message), withoutDumps(got.Message)); diff != "" {
		t.Errorf("message: -cluster +jobd\n%s", diff)
	}
	if want.Details == nil {
		return // updates were recorded without causes; the message holds them all
	}
	for _, d := range []*metav1.StatusDetails{want.Details, got.Details} {
		for i := range d.Causes {
			d.Causes[i].Message = withoutDumps(d.Causes[i].Message)
		}
	}
	if diff := cmp.Diff(want.Details, got.Details); diff != "" {
		t.Errorf("causes: -cluster +jobd\n%s", diff)
	}
}

func TestBadManifestsAreAnsweredAsByACluster(t *testing.T) {
	var answers map[string]answer
	readOracle(t, "bad/errors.yaml", &answers)
	files, err := filepath.Glob(filepath.Join(oracle, "bad", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(answers)+1 {
		t.Fatalf("%d manifests for %d answers", len(files)-1, len(answers))
	}
	for name, want := range answers {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{}
			readOracle(t, "bad/"+name+".yaml", job) // it is the decoder that finds unknown fields
			compare(t, want, asTheAPI(job.Name, create(job, "6b1f")), 201)
		})
	}
}

func TestDefaultsAreThoseOfACluster(t *testing.T) {
	var stored map[string]*batchv1.Job
	readOracle(t, "defaults.yaml", &stored)
	// What was posted, in addition to a container and restartPolicy Never.
	posted := map[string]string{
		"minimal":          ``,
		"parallelism=2":    `parallelism: 2`,
		"completions=3":    `completions: 3`,
		"indexed":          `{completionMode: Indexed, completions: 2}`,
		"indexed+perIndex": `{completionMode: Indexed, completions: 2, backoffLimitPerIndex: 1}`,
		"pfp":              `podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}`,
		"successPolicy":    `{completionMode: Indexed, completions: 2, successPolicy: {rules: [{succeededCount: 1}]}}`,
	}
	for name, want := range stored {
		t.Run(name, func(t *testing.T) {
			spec, ok := posted[name]
			if !ok {
				t.Fatal("nothing is said of what was posted")
			}
			job := minimalJob(t, "defaults", spec)
			if errs := create(job, string(want.UID)); len(errs) > 0 {
				t.Fatal(errs)
			}
			job.TypeMeta, job.CreationTimestamp = want.TypeMeta, want.CreationTimestamp
			if diff := cmp.Diff(want, job); diff != "" {
				t.Errorf("-cluster +jobd\n%s", diff)
			}
			again := job.DeepCopy()
			SetJobDefaults(again)
			if diff := cmp.Diff(job, again); diff != "" {
				t.Errorf("defaulting twice differs:\n%s", diff)
			}
		})
	}
}

func minimalJob(t *testing.T, name, spec string) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	if err := yaml.UnmarshalStrict([]byte(spec), &job.Spec); err != nil {
		t.Fatal(err)
	}
	job.Name = name
	const template = `{restartPolicy: Never, containers: [{name: c, image: "registry.k8s.io/e2e-test-images/busybox:1.37.0-2", command: [/bin/sh, -c, exit 0]}]}`
	if err := yaml.UnmarshalStrict([]byte(template), &job.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	return job
}

// updated returns the Jobs that were patched, as the recorded answers show them.
func updated(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	var job *batchv1.Job
	var status, uid string
	switch name {
	case "u-plain":
		job = minimalJob(t, name, `{suspend: true, completions: 3}`)
		uid = "f79959ea-b6b5-45a3-8c3a-69d3b45c016c"
		status = `{active: 0, ready: 0, terminating: 0, uncountedTerminatedPods: {}, conditions: [{type: Suspended, status: "True"}]}`
	case "u-indexed":
		job = minimalJob(t, name, `{suspend: true, completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: 1,
			podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [3]}}]}}`)
		uid = "de0f62bb-3a21-4dfb-88f5-0b54615642a3"
		status = `{ready: 0, terminating: 0, uncountedTerminatedPods: {}, conditions: [{type: Suspended, status: "True"}]}`
	case "u-done":
		job = minimalJob(t, name, ``)
		uid = "0c4e9a53-0000-4000-8000-000000000000"
		status = `{succeeded: 1, ready: 0, terminating: 0, uncountedTerminatedPods: {}, startTime: "2026-11-20T13:35:59Z", completionTime: "2026-11-20T13:36:01Z",
			conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}`
	default:
		t.Fatalf("unknown Job %s", name)
	}
	if errs := create(job, uid); len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := yaml.UnmarshalStrict([]byte(status), &job.Status); err != nil {
		t.Fatal(err)
	}
	job.ResourceVersion = "7"
	return job
}

func TestUpdatesAreAnsweredAsByACluster(t *testing.T) {
	var cases map[string]map[string]answer
	readOracle(t, "updates.yaml", &cases)
	for _, name := range []string{"u-plain", "u-indexed", "u-done"} {
		for patch, want := range cases[name] {
			t.Run(name+"/"+patch, func(t *testing.T) {
				if why, ok := elsewhere[patch]; ok {
					t.Skip("decided elsewhere: " + why)
				}
				old := updated(t, name)
				// The status was merge-patched (lists are replaced), the object strategically (containers are merged by
				// name).
				job := patched(t, old, want.Patch, strings.HasPrefix(patch, "template."))
				SetJobDefaults(job)
				var errs field.ErrorList
				if strings.HasPrefix(patch, "status: ") {
					prepareJobStatusUpdate(job, old)
					errs = validateJobStatusUpdate(job, old)
				} else {
					prepareJobUpdate(job, old)
					errs = validateJobUpdate(job, old)
					if changed := !cmp.Equal(job.Spec, old.Spec); changed != (job.Generation == old.Generation+1) {
						t.Errorf("generation %d after %d", job.Generation, old.Generation)
					}
				}
				compare(t, want, asTheAPI(name, errs), 200)
			})
		}
	}
}

func patched(t *testing.T, old *batchv1.Job, patch json.RawMessage, strategic bool) *batchv1.Job {
	t.Helper()
	before, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	var after []byte
	if strategic {
		after, err = strategicpatch.StrategicMergePatch(before, patch, &batchv1.Job{})
	} else {
		after, err = jsonpatch.MergePatch(before, patch)
	}
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{}
	if err := json.Unmarshal(after, job); err != nil {
		t.Fatal(err)
	}
	return job
}

func minimalSpec(t *testing.T, spec string) batchv1.JobSpec {
	t.Helper()
	var out batchv1.JobSpec
	if err := yaml.UnmarshalStrict([]byte(spec), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
