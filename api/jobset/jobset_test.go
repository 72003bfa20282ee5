package jobset_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/jobset"
)

// pods is a template of Jobs.
const pods = `template: {spec: {completions: 2, parallelism: 2, template: {spec: {containers: [{name: c, image: busybox}]}}}}`

// read reads the spec of a JobSet that is called train, as the API does.
func read(t *testing.T, spec string) *jobsetv1.JobSet {
	t.Helper()
	js := &jobsetv1.JobSet{}
	js.Name, js.Namespace, js.UID = "train", "default", "u"
	if err := yaml.UnmarshalStrict([]byte(spec), &js.Spec); err != nil {
		t.Fatalf("%v in %s", err, spec)
	}
	jobset.Kind().Default(js)
	return js
}

func groups(more string) string {
	return "replicatedJobs: [{name: leader, " + pods + "}, {name: workers, replicas: 3, " + pods + "}]\n" + more
}

func say(errs field.ErrorList) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestDefaults(t *testing.T) {
	js := read(t, `{replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c, image: busybox}]}}}}}],
		failurePolicy: {maxRestarts: 2, rules: [{action: FailJobSet}, {name: own, action: RestartJobSet}]}}`)
	got, err := json.Marshal(js.Spec)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"replicatedJobs":[{"name":"a","groupName":"default","template":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":[` +
		`{"name":"c","image":"busybox","resources":{}}],"restartPolicy":"OnFailure"}},"completionMode":"Indexed"}},"replicas":1}],` +
		`"network":{"enableDNSHostnames":true,"publishNotReadyAddresses":true},"successPolicy":{"operator":"All"},` +
		`"failurePolicy":{"maxRestarts":2,"restartStrategy":"Recreate","rules":[{"name":"failurePolicyRule0","action":"FailJobSet"},` +
		`{"name":"own","action":"RestartJobSet"}]},"startupPolicy":{"startupPolicyOrder":"AnyOrder"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	again := js.DeepCopy()
	jobset.Kind().Default(again)
	if diff := cmp.Diff(js, again); diff != "" {
		t.Errorf("a second time: %s", diff)
	}
}

func TestValidation(t *testing.T) {
	long := strings.Repeat("a", 60)
	for name, c := range map[string]struct{ spec, want string }{
		"a set of two groups": {groups(""), ""},
		"what depends on what comes before": {
			`replicatedJobs: [{name: a, ` + pods + `}, {name: b, dependsOn: [{name: a, status: Ready}], ` + pods + `}]`, "",
		},
		"the first depends": {
			`replicatedJobs: [{name: a, dependsOn: [{name: a, status: Ready}], ` + pods + `}]`,
			`DependsOn can't be set for the first ReplicatedJob`,
		},
		"it depends on a later one": {
			`replicatedJobs: [{name: a, ` + pods + `}, {name: b, dependsOn: [{name: c, status: Ready}], ` + pods + `}, {name: c, ` + pods + `}]`,
			`replicatedJob: b cannot depend on replicatedJob: c`,
		},
		"it depends and starts in order": {
			`{startupPolicy: {startupPolicyOrder: InOrder},
				replicatedJobs: [{name: a, ` + pods + `}, {name: b, dependsOn: [{name: a, status: Ready}], ` + pods + `}]}`,
			`spec: Invalid value: "object": StartupPolicy and DependsOn APIs are mutually exclusive`,
		},
		"a status that there is not": {
			`replicatedJobs: [{name: a, ` + pods + `}, {name: b, dependsOn: [{name: a, status: Failed}], ` + pods + `}]`,
			`spec.replicatedJobs[1].dependsOn[0].status: Unsupported value: "Failed": supported values: "Ready", "Complete"`,
		},
		"two groups of a name": {
			`replicatedJobs: [{name: a, ` + pods + `}, {name: a, ` + pods + `}]`,
			`spec.replicatedJobs[1]: Duplicate value: {"name":"a"}`,
		},
		"replicas below nothing": {
			`replicatedJobs: [{name: a, replicas: -1, ` + pods + `}]`,
			`spec.replicatedJobs[0].replicas: Invalid value: -1: should be greater than or equal to 0`,
		},
		"more Jobs than fit": {
			`replicatedJobs: [{name: a, replicas: 9999, ` + pods + `}, {name: b, replicas: 2, ` + pods + `}]`,
			`spec.replicatedJobs: Invalid value: 10001: the groups may have no more than 10000 Jobs in all`,
		},
		"more pods than can be counted": {
			`replicatedJobs: [{name: a, replicas: 10000, template: {spec: {parallelism: 1000000, completionMode: NonIndexed, template: {spec: {containers: [{name: c, image: busybox}]}}}}}]`,
			`the product of replicas and parallelism must not exceed 2147483647 for replicatedJob 'a'`,
		},
		"a group with a name that is none": {
			`replicatedJobs: [{name: a, groupName: A, ` + pods + `}]`,
			`spec.replicatedJobs[0].groupName: Invalid value: "A": a DNS-1035 label`,
		},
		"names of Jobs that are too long": {
			`replicatedJobs: [{name: ` + long + `, template: {spec: {completionMode: NonIndexed, template: {spec: {containers: [{name: c, image: busybox}]}}}}}]`,
			`spec.replicatedJobs[0].name: Invalid value: "train-` + long + `-0": JobSet name is too long, job names generated for this JobSet will exceed 63 characters`,
		},
		"names of pods that are too long": {
			`replicatedJobs: [{name: ` + long[:50] + `, ` + pods + `}]`,
			`spec.replicatedJobs[0].name: Invalid value: "train-` + long[:50] + `-0": JobSet name is too long, pod names generated for this JobSet will exceed 63 characters`,
		},
		"a subdomain that is none": {groups("network: {subdomain: A.B}"), `spec.network.subdomain: Invalid value: "A.B": a lowercase RFC 1123 subdomain`},
		"a manager that is none":   {groups("managedBy: me"), `spec.managedBy: Invalid value: "me": must be a domain-prefixed path`},
		"a target that there is not": {
			groups("successPolicy: {operator: Any, targetReplicatedJobs: [x]}"), `invalid replicatedJob name 'x' does not appear in .spec.ReplicatedJobs`,
		},
		"restarts in place": {
			groups("failurePolicy: {restartStrategy: InPlaceRestart}"),
			`InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled`,
		},
		"restarts of a Job alone": {
			groups("failurePolicy: {rules: [{action: RestartJob}]}"),
			`RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when RestartJob feature gate is disabled`,
		},
		"rules of one name": {
			groups("failurePolicy: {rules: [{name: a, action: FailJobSet}, {name: a, action: RestartJobSet}]}"),
			`rule names are not unique, rules with indices [0 1] all have the same name 'a'`,
		},
		"a reason that there is not": {
			groups("failurePolicy: {rules: [{action: FailJobSet, onJobFailureReasons: [Bored]}]}"),
			`invalid job failure reason 'Bored' in failure policy is not a recognized job failure reason`,
		},
		"a pattern that would take long": {
			groups("failurePolicy: {rules: [{action: FailJobSet, onJobFailureMessagePatterns: ['a{1000}|b{1000}|c{1000}']}]}"),
			`spec.failurePolicy.rules: Invalid value: "onJobFailureMessagePatterns": the patterns of all rules would take`,
		},
		"a coordinator":             {groups("coordinator: {replicatedJob: workers, jobIndex: 2, podIndex: 1}"), ""},
		"a coordinator of no group": {groups("coordinator: {replicatedJob: x}"), `coordinator replicatedJob x does not exist`},
		"a coordinator with too high a Job": {
			groups("coordinator: {replicatedJob: leader, jobIndex: 1}"),
			`coordinator job index 1 is invalid for replicatedJob leader`,
		},
		"a coordinator with too high a pod": {
			groups("coordinator: {replicatedJob: leader, podIndex: 2}"),
			`coordinator pod index 2 is invalid for replicatedJob leader job index 0`,
		},
		"a claim that nobody mounts": {
			groups("volumeClaimPolicies: [{templates: [{metadata: {name: data}}]}]"),
			`replicatedJob containers don't have a matching volumeMount: data`,
		},
		"Jobs that choose their pods": {
			`replicatedJobs: [{name: a, template: {spec: {completionMode: NonIndexed, manualSelector: true, selector: {matchLabels: {a: b}},
				template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: busybox}]}}}}}]`,
			`spec.replicatedJobs[0].template.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"`,
		},
		"a time to live below nothing": {
			groups("ttlSecondsAfterFinished: -1"),
			`spec.ttlSecondsAfterFinished: Invalid value: -1: should be greater than or equal to 0`,
		},
		"a template of Jobs that are refused": {
			`replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}]`,
			`spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: Required value`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := strings.Join(say(jobset.Kind().Strategy.Validate(t.Context(), read(t, c.spec))), "\n")
			if c.want == "" && said != "" || !strings.Contains(said, c.want) {
				t.Errorf("it says\n%s\nand not\n%s", said, c.want)
			}
		})
	}
}

func TestWhatMayChange(t *testing.T) {
	const fixed = `spec.replicatedJobs: Invalid value: "object": field is immutable`
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":     {groups(""), groups(""), ""},
		"suspend":     {groups(""), groups("suspend: true"), ""},
		"the ttl":     {groups(""), groups("ttlSecondsAfterFinished: 3"), ""},
		"the network": {groups(""), groups("network: {subdomain: x}"), `spec.network: Invalid value: "object": Value is immutable`},
		"success":     {groups(""), groups("successPolicy: {operator: Any}"), `spec.successPolicy: Invalid value: "object": Value is immutable`},
		"failure":     {groups(""), groups("failurePolicy: {maxRestarts: 1}"), `spec.failurePolicy: Invalid value: "object": Value is immutable`},
		"startup":     {groups(""), groups("startupPolicy: {startupPolicyOrder: InOrder}"), `spec.startupPolicy: Invalid value: "object": Value is immutable`},
		"the manager": {groups(""), groups("managedBy: a.b/c"), `spec.managedBy: Invalid value: "a.b/c": field is immutable`},
		"the replicas": {
			groups(""), strings.Replace(groups(""), "replicas: 3", "replicas: 4", 1), fixed,
		},
		"the parallelism": {
			groups(""), strings.Replace(groups(""), "parallelism: 2", "parallelism: 1", 1),
			`spec.replicatedJobs: Invalid value: "object": field is immutable: parallelism and completions cannot be changed when ElasticJobSet feature gate is disabled`,
		},
		"the node selector while it runs": {
			groups(""), strings.Replace(groups(""), "containers", "nodeSelector: {a: b}, containers", 1), fixed,
		},
		"the node selector while it is suspended": {
			groups("suspend: true"), strings.Replace(groups(""), "containers", "nodeSelector: {a: b}, containers", 1), "",
		},
		"the image while it is suspended": {
			groups("suspend: true"), strings.Replace(groups("suspend: true"), "busybox", "other", 1), fixed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			was, now := read(t, c.before), read(t, c.after)
			was.ResourceVersion, now.ResourceVersion = "1", "1"
			said := strings.Join(say(jobset.Kind().Strategy.ValidateUpdate(t.Context(), now, was)), "\n")
			if c.want == "" && said != "" || !strings.Contains(said, c.want) {
				t.Errorf("it says\n%s\nand not\n%s", said, c.want)
			}
		})
	}
}

// The labels of a Job, which are annotations too, and those of its pods.
func TestAJobOfASet(t *testing.T) {
	js := read(t, `{coordinator: {replicatedJob: leader}, replicatedJobs: [{name: leader, `+pods+`}, {name: data, groupName: other, replicas: 2, `+pods+
		`}, {name: workers, replicas: 3, `+pods+`}]}`)
	js.Status.Restarts = 4
	job := jobset.NewJob(js, &js.Spec.ReplicatedJobs[2], 1)
	want := map[string]string{
		"jobset-name": "train", "jobset-uid": "u", "replicatedjob-name": "workers", "replicatedjob-replicas": "3", "global-replicas": "6",
		"job-index": "1", "job-global-index": "4", "group-name": "default", "group-replicas": "4", "job-group-index": "2", "restart-attempt": "4",
		"coordinator": "train-leader-0-0.train", "job-key": "1b9e1f7a", // begins with
	}
	for of, labels := range map[string]map[string]string{
		"labels of the Job": job.Labels, "annotations of the Job": job.Annotations,
		"labels of pods": job.Spec.Template.Labels, "annotations of pods": job.Spec.Template.Annotations,
	} {
		got := map[string]string{}
		for key, value := range labels {
			got[strings.TrimPrefix(key, "jobset.sigs.k8s.io/")] = value
		}
		if len(got["job-key"]) != 40 {
			t.Errorf("job-key %q", got["job-key"])
		}
		got["job-key"] = want["job-key"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", of, diff)
		}
	}
	if owner := job.OwnerReferences[0]; job.Name != "train-workers-1" || owner.Name != "train" || !*owner.Controller || !*owner.BlockOwnerDeletion ||
		job.Spec.Template.Spec.Subdomain != "train" || *job.Spec.Suspend {
		t.Errorf("%+v", job)
	}
	if name, uid := jobset.Of(job); name != "train" || uid != "u" {
		t.Errorf("it is of %q, %q", name, uid)
	}
}

func TestTable(t *testing.T) {
	js := read(t, groups("suspend: false"))
	js.Status.Restarts = 2
	js.Status.TerminalState = "Completed"
	k := jobset.Kind()
	var names []string
	for _, c := range k.Columns {
		names = append(names, c.Name)
	}
	if got, want := fmt.Sprint(names, k.Cells(js, time.Unix(0, 0))), "[Name TerminalState Restarts Completed Suspended Age] [train Completed 2  false <unknown>]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
