// Package jobset compares JobSets with upstream's: what is decided with what its controller decides, and what jobd does with what its
// end-to-end specs expect. It is a module of its own: jobd links neither controller-runtime nor lets it decide its dependencies.
//
// The decisions are compared on the same facts, in memory, and not two controllers on one API: there each would be waited for, so
// that what lies between two steps was not seen, and ours would have to be switched off by spec.managedBy, with which theirs does
// nothing either. Thus each step of a case is compared whole, and thousands of cases that nobody has thought of take seconds.
package jobset

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

// cases are JobSets, each with what happens to it, a step a line: what words mean is in steps. After each step, all objects and the
// events are to be the same on both sides.
var cases = map[string]struct{ spec, steps string }{
	"a group that depends on another's readiness": {`
replicatedJobs: [{name: a, replicas: 2}, {name: b, dependsOn: [{name: a, status: Ready}]}]`, `
s-a-0 starts
s-a-0 is ready
s-a-1 succeeds
s-b-0 is ready
s-a-0 succeeds
s-b-0 succeeds`},
	"a group that depends on another's success": {`
replicatedJobs: [{name: a, replicas: 2}, {name: b}, {name: c, dependsOn: [{name: a, status: Complete}, {name: b, status: Complete}]}]`, `
s-a-0 is ready
s-a-1 is ready
s-a-0 succeeds
s-b-0 succeeds
s-a-1 succeeds
s-c-0 succeeds`},
	"a failure lets what depends on readiness begin": {`
failurePolicy: {maxRestarts: 0}
replicatedJobs: [{name: a}, {name: b, dependsOn: [{name: a, status: Ready}]}]`, `
s-a-0 fails`},
	"in order": {`
startupPolicy: {startupPolicyOrder: InOrder}
replicatedJobs: [{name: a, replicas: 2}, {name: b}, {name: c}]`, `
s-a-0 is ready
s-a-1 is ready
s-b-0 starts
s-b-0 succeeds
s-c-0 is ready
s-a-0 succeeds
s-a-1 succeeds
s-c-0 succeeds`},
	"in order, suspended and resumed": {`
suspend: true
startupPolicy: {startupPolicyOrder: InOrder}
replicatedJobs: [{name: a}, {name: b, replicas: 2}]`, `
resume
s-a-0 is ready
s-b-0 is ready
suspend
all lose their pods
resume
s-a-0 is ready
s-b-0 is ready
s-b-1 is ready`},
	"in order, begun anew": {`
startupPolicy: {startupPolicyOrder: InOrder}
failurePolicy: {maxRestarts: 2}
replicatedJobs: [{name: a}, {name: b}]`, `
s-a-0 is ready
s-b-0 is ready
s-b-0 fails
s-b-0 is gone
s-a-0 is gone
s-a-0 is ready
s-b-0 is ready`},
	"all have to succeed": {`
successPolicy: {operator: All}
replicatedJobs: [{name: a, replicas: 2}, {name: b}]`, `
s-a-0 succeeds
s-a-1 succeeds
s-b-0 succeeds`},
	"all of some groups": {`
successPolicy: {operator: All, targetReplicatedJobs: [b]}
replicatedJobs: [{name: a, replicas: 2}, {name: b, replicas: 2}]`, `
s-a-0 succeeds
s-b-0 succeeds
s-b-1 succeeds
all that is deleted is gone`},
	"any": {`
successPolicy: {operator: Any}
replicatedJobs: [{name: a, replicas: 2}, {name: b}]`, `
s-b-0 succeeds
all that is deleted is gone`},
	"any of a group": {`
successPolicy: {operator: Any, targetReplicatedJobs: [a]}
replicatedJobs: [{name: a, replicas: 2}, {name: b}]`, `
s-b-0 succeeds
s-a-1 succeeds`},
	"no failure policy": {`
replicatedJobs: [{name: a, replicas: 3}]`, `
s-a-0 is ready
s-a-2 succeeds
s-a-1 fails
all that is deleted is gone`},
	"as many restarts as there may be": {`
failurePolicy: {maxRestarts: 2}
replicatedJobs: [{name: a, replicas: 2}]`, `
s-a-0 is ready
s-a-1 is ready
s-a-1 fails
s-a-0 is gone
s-a-1 is gone
s-a-0 is ready
s-a-1 is ready
s-a-0 fails
all that is deleted is gone
s-a-0 fails
all that is deleted is gone`},
	"made anew when all are gone": {`
failurePolicy: {maxRestarts: 1, restartStrategy: BlockingRecreate}
replicatedJobs: [{name: a, replicas: 2}, {name: b}]`, `
s-a-0 fails
s-a-0 is gone
s-b-0 is gone
s-a-1 is gone
s-a-0 succeeds
s-a-1 succeeds
s-b-0 succeeds`},
	"rules": {`
failurePolicy:
  maxRestarts: 1
  rules:
  - {action: FailJobSet, onJobFailureReasons: [PodFailurePolicy]}
  - {name: free, action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureMessagePatterns: ["exit code 4[0-9]$", "host .*"]}
  - {name: counted, action: RestartJobSet, targetReplicatedJobs: [b], onJobFailureReasons: [DeadlineExceeded, BackoffLimitExceeded]}
  - {action: FailJobSet, targetReplicatedJobs: [c]}
replicatedJobs: [{name: a}, {name: b}, {name: c}]`, `
s-a-0 fails with DeadlineExceeded: a container had exit code 42
all that is deleted is gone
s-a-0 fails with DeadlineExceeded: the host is gone
all that is deleted is gone
s-b-0 fails with DeadlineExceeded: it took too long
all that is deleted is gone
s-b-0 fails with BackoffLimitExceeded: exit code 40
all that is deleted is gone
s-c-0 fails with FailedIndexes: too many`},
	"the rule that comes first": {`
failurePolicy:
  maxRestarts: 1
  rules: [{action: RestartJobSet, onJobFailureReasons: [DeadlineExceeded]}, {action: FailJobSet}]
replicatedJobs: [{name: a, replicas: 3}]`, `
s-a-2 fails, and s-a-0 with DeadlineExceeded
all that is deleted is gone
s-a-1 fails with FailedIndexes: some`},
	"suspended and resumed elsewhere": {`
suspend: true
replicatedJobs:
- name: a
  replicas: 2
  template: {spec: {template: {metadata: {labels: {one: a}, annotations: {two: b}}, spec: {tolerations: [{key: k, operator: Exists}]}}}}
- {name: b, dependsOn: [{name: a, status: Complete}]}`, `
node selector east
resume
s-a-0 is ready
s-a-1 succeeds
suspend
all lose their pods
node selector west
toleration t
gate example.com/g
label l
resume
s-a-0 succeeds
s-b-0 is ready`},
	"a toleration of some seconds, resumed twice": {`
suspend: true
replicatedJobs: [{name: a, template: {spec: {template: {spec: {tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 9}]}}}}}]`, `
resume
suspend
resume`},
	"suspended while it begins anew": {`
failurePolicy: {maxRestarts: 3}
replicatedJobs: [{name: a, replicas: 2}]`, `
s-a-0 is ready
s-a-0 fails
suspend
s-a-1 is gone
s-a-0 is gone
resume
s-a-0 is ready
s-a-1 is ready`},
	"gone after a while": {`
ttlSecondsAfterFinished: 60
replicatedJobs: [{name: a, replicas: 2}]`, `
s-a-0 succeeds
s-a-1 succeeds
after 50s
after 20s`},
	"gone at once": {`
ttlSecondsAfterFinished: 0
replicatedJobs: [{name: a}]`, `
s-a-0 fails`},
	"another's": {`
managedBy: example.com/other
replicatedJobs: [{name: a}]`, `
suspend
resume`},
	"upstream's": {`
managedBy: jobset.sigs.k8s.io/jobset-controller
replicatedJobs: [{name: a}]`, `
s-a-0 succeeds`},
	"names, groups, a coordinator": {`
network: {subdomain: net, publishNotReadyAddresses: false}
coordinator: {replicatedJob: b, jobIndex: 1, podIndex: 0}
replicatedJobs:
- {name: a, replicas: 2, groupName: left, template: {metadata: {labels: {x: y}, annotations: {v: w}}}}
- {name: b, replicas: 2, groupName: right, template: {spec: {completions: 2, parallelism: 2}}}
- {name: c, replicas: 3, groupName: left}`, `
s-c-2 is ready
the Service is gone
s-a-0 succeeds`},
	"no names": {`
network: {enableDNSHostnames: false}
replicatedJobs: [{name: a, template: {spec: {completionMode: NonIndexed, template: {spec: {restartPolicy: Never}}}}}]`, `
s-a-0 succeeds`},
	"claims": {`
volumeClaimPolicies:
- templates:
  - {metadata: {name: kept, labels: {l: m}, annotations: {x: y}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  retentionPolicy: {whenDeleted: Retain}
- templates:
  - {metadata: {name: passing}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
replicatedJobs:
- name: a
  template: {spec: {template: {spec: {containers: [{name: c, image: i, volumeMounts: [{name: kept, mountPath: /k}]}]}}}}
- name: b
  template: {spec: {template: {spec: {
    initContainers: [{name: i, image: i, volumeMounts: [{name: kept, mountPath: /k}]}],
    containers: [{name: c, image: i, volumeMounts: [{name: passing, mountPath: /p}]}]}}}}`, `
s-a-0 succeeds
s-b-0 succeeds`},
	"a place for each Job alone": {`
replicatedJobs:
- {name: a, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack, alpha.jobset.sigs.k8s.io/node-selector: "true"}}}}
- {name: b, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}}}`, `
s-a-0 is ready`},
	"Jobs that somebody deletes": {`
replicatedJobs: [{name: a, replicas: 3}]`, `
s-a-0 is ready
s-a-0 is deleted
s-a-0 is gone
s-a-1 succeeds
s-a-1 is gone
s-a-2 is deleted
suspend
s-a-2 is gone
resume`},
}

// difference is something that jobd does in another way than upstream's controller, on purpose. apply brings what upstream's has made
// into our form, and reports whether there was something to bring.
type difference struct {
	why   string
	apply func(ours, theirs *objects) bool
	seen  bool
}

var differences = []*difference{
	{
		why: "exclusive placement means nothing on one node: no node has the labels that it would select",
		apply: func(_, theirs *objects) (any bool) {
			for _, j := range theirs.Jobs {
				spec := &j.Spec.Template.Spec
				if _, ok := spec.NodeSelector[jobsetv1.NamespacedJobKey]; !ok {
					continue
				}
				any = true
				delete(spec.NodeSelector, jobsetv1.NamespacedJobKey)
				spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == jobsetv1.NoScheduleTaintKey })
			}
			return any
		},
	},
	{
		why: "a toleration of some seconds is not added again at each resumption: upstream compares where the number stands in memory",
		apply: func(_, theirs *objects) (any bool) {
			for _, j := range theirs.Jobs {
				var once []corev1.Toleration
				for _, t := range j.Spec.Template.Spec.Tolerations {
					if !slices.ContainsFunc(once, func(has corev1.Toleration) bool { return cmp.Equal(has, t) }) {
						once = append(once, t)
					}
				}
				any = any || len(once) < len(j.Spec.Template.Spec.Tolerations)
				j.Spec.Template.Spec.Tolerations = once
			}
			return any
		},
	},
	{
		why: "a Job that is being deleted is neither suspended nor resumed: its pods end anyway",
		apply: func(ours, theirs *objects) (any bool) {
			for name, j := range theirs.Jobs {
				mine := ours.Jobs[name]
				if mine == nil || j.DeletionTimestamp == nil || ptr.Equal(j.Spec.Suspend, mine.Spec.Suspend) {
					continue
				}
				any = true
				by := int32(1)
				if *j.Spec.Suspend {
					by = -1
				}
				j.Spec.Suspend, j.Status.StartTime = mine.Spec.Suspend, mine.Status.StartTime
				for i := range theirs.Set.Status.ReplicatedJobsStatus {
					if group := &theirs.Set.Status.ReplicatedJobsStatus[i]; group.Name == j.Labels[jobsetv1.ReplicatedJobNameKey] && !finished(j) {
						group.Suspended += by
					}
				}
			}
			return any
		},
	},
}

// alike are what is compared: all but times, and what an API server counts.
var alike = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "Generation", "CreationTimestamp", "ManagedFields"),
	cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime"),
	cmpopts.IgnoreFields(metav1.TypeMeta{}, "Kind", "APIVersion"),
	cmp.Comparer(func(a, b *metav1.Time) bool { return (a == nil) == (b == nil) }),
	cmp.Comparer(func(a, b metav1.Time) bool { return a.Unix() == b.Unix() }),
	cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }),
	cmpopts.SortSlices(func(a, b corev1.Toleration) bool { return a.String() < b.String() }),
	cmpopts.SortSlices(func(a, b corev1.PodSchedulingGate) bool { return a.Name < b.Name }),
}

// compare reports whether the sides have the same objects and have said the same.
func (b *both) compare(after string) bool {
	b.t.Helper()
	ours, theirs := b.ours.objects(b.t), b.theirs.objects(b.t)
	for _, d := range differences {
		d.seen = d.apply(ours, theirs) || d.seen
	}
	diff := cmp.Diff(ours, theirs, alike)
	if said := cmp.Diff(b.ours.said(), b.theirs.said(), cmpopts.EquateEmpty()); said != "" {
		diff += "events: " + said
	}
	if diff != "" {
		b.t.Errorf("after %s: jobd's (-) and upstream's (+):\n%s", after, diff)
	}
	return diff == ""
}

func parse(t *testing.T, spec string) *jobsetv1.JobSet {
	t.Helper()
	js := &jobsetv1.JobSet{}
	if err := yaml.UnmarshalStrict([]byte(spec), &js.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return js
}

// TestSameAsUpstream plays the cases on both sides.
func TestSameAsUpstream(t *testing.T) {
	for _, d := range differences {
		d.seen = false
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := begin(t, parse(t, c.spec))
			b.compare("the beginning")
			for line := range strings.Lines(strings.TrimSpace(c.steps)) {
				line = strings.TrimSpace(line)
				b.step(line)
				b.settle()
				if !b.compare(line) {
					return
				}
			}
		})
	}
	for _, d := range differences {
		if !d.seen && !t.Failed() {
			t.Errorf("there is no such difference: %s", d.why)
		}
	}
}

// step lets happen what a line says.
func (b *both) step(line string) {
	b.t.Helper()
	const byLimit, limit = batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	job, words, _ := strings.Cut(line, " ")
	reason, message, _ := strings.Cut(strings.TrimPrefix(words, "fails with "), ": ")
	switch {
	case line == "suspend", line == "resume":
		b.each(func(s side) {
			s.changeSet(b.t, func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(line == "suspend") })
		})
	case line == "all lose their pods":
		for _, name := range b.jobs() {
			if !finished(b.ours.o.Jobs[name]) {
				b.each(func(s side) { s.changeJob(b.t, name, suspended) })
			}
		}
	case line == "all that is deleted is gone":
		for _, name := range b.jobs() {
			if b.ours.o.Jobs[name].DeletionTimestamp != nil {
				b.each(func(s side) { s.removeJob(b.t, name) })
			}
		}
	case line == "the Service is gone":
		b.each(func(s side) { s.removeServices(b.t) })
	case job == "after":
		wait, err := time.ParseDuration(words)
		if err != nil {
			b.t.Fatal(err)
		}
		b.each(func(s side) { s.changeSet(b.t, func(js *jobsetv1.JobSet) { older(js, wait) }) })
	case job == "node", job == "toleration", job == "gate", job == "label":
		b.template(job, line[strings.LastIndexByte(line, ' ')+1:])
	case words == "starts":
		b.begins(job, func(int32) int32 { return 0 })
	case words == "is ready":
		b.begins(job, func(pods int32) int32 { return pods })
	case words == "succeeds":
		b.end(job, batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "")
	case words == "fails":
		b.end(job, batchv1.JobFailed, byLimit, limit)
	case strings.HasPrefix(words, "fails, and "):
		b.end(job, batchv1.JobFailed, byLimit, limit)
		b.end(strings.Fields(words)[2], batchv1.JobFailed, strings.Fields(words)[4], "")
	case strings.HasPrefix(words, "fails with "):
		b.end(job, batchv1.JobFailed, reason, message)
	case words == "is deleted":
		b.each(func(s side) { s.deleteJob(b.t, job) })
	case words == "is gone":
		b.each(func(s side) { s.removeJob(b.t, job) })
	default:
		b.t.Fatalf("nobody knows what this means: %s", line)
	}
}

// template changes what may be changed in the templates of a JobSet that is suspended.
func (b *both) template(what, value string) {
	b.each(func(s side) {
		s.changeSet(b.t, func(js *jobsetv1.JobSet) {
			for i := range js.Spec.ReplicatedJobs {
				pods := &js.Spec.ReplicatedJobs[i].Template.Spec.Template
				switch what {
				case "node":
					pods.Spec.NodeSelector = map[string]string{"where": value}
				case "toleration":
					pods.Spec.Tolerations = []corev1.Toleration{{Key: value, Operator: corev1.TolerationOpExists}}
				case "gate":
					pods.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: value}}
				case "label":
					pods.Labels, pods.Annotations = map[string]string{value: "x"}, map[string]string{value: "y"}
				}
			}
		})
	})
}

func finished(j *batchv1.Job) bool { return len(j.Status.Conditions) > 0 }

// randomSpec returns a JobSet of up to four groups.
func randomSpec(random *rand.Rand) string {
	one := func(of ...string) string { return of[random.Intn(len(of))] }
	var groups []string
	inOrder := random.Intn(4) == 0
	for i := range 1 + random.Intn(4) {
		depends := ""
		if i > 0 && !inOrder && random.Intn(2) == 0 {
			depends = fmt.Sprintf("dependsOn: [{name: g%d, status: %s}], ", random.Intn(i), one("Ready", "Complete"))
		}
		groups = append(groups, fmt.Sprintf("{name: g%d, groupName: %s, %sreplicas: %d, template: {spec: {parallelism: %d%s}}}",
			i, one("one", "two"), depends, 1+random.Intn(3), 1+random.Intn(3), one(", completions: 1", ", completions: 2", ", completions: 4")))
	}
	spec := "replicatedJobs: [" + strings.Join(groups, ", ") + "]\n"
	if inOrder {
		spec += "startupPolicy: {startupPolicyOrder: InOrder}\n"
	}
	if random.Intn(4) > 0 {
		spec += fmt.Sprintf("failurePolicy: {maxRestarts: %d, restartStrategy: %s, rules: [{action: %s, %s}, {action: %s, targetReplicatedJobs: [g0]}]}\n",
			random.Intn(4), one("Recreate", "BlockingRecreate"), one("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"),
			one("onJobFailureReasons: [DeadlineExceeded]", `onJobFailureMessagePatterns: ["limit$", "never"]`),
			one("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"))
	}
	spec += one("", "successPolicy: {operator: Any}\n", "successPolicy: {operator: All, targetReplicatedJobs: [g0]}\n")
	spec += one("", "suspend: true\n")
	spec += one("", "ttlSecondsAfterFinished: 100\n")
	return spec
}

// happening is one of the things that may happen to a JobSet and its Jobs now, as a line.
func (b *both) happening(random *rand.Rand) string {
	names := b.jobs()
	if len(names) == 0 || random.Intn(12) == 0 {
		if random.Intn(20) == 0 {
			return "after 60s"
		}
		lines := []string{"suspend", "resume", "the Service is gone", "all lose their pods"}
		if ptr.Deref(b.ours.o.Set.Spec.Suspend, false) {
			lines = append(lines, "node selector "+string(rune('a'+random.Intn(3))), "toleration "+string(rune('a'+random.Intn(3))), "gate g/"+
				string(rune('a'+random.Intn(3))), "label "+string(rune('a'+random.Intn(3))))
		}
		return lines[random.Intn(len(lines))]
	}
	name := names[random.Intn(len(names))]
	j := b.ours.o.Jobs[name]
	switch n := random.Intn(12); {
	case j.DeletionTimestamp != nil:
		return []string{name + " is gone", "all that is deleted is gone"}[n%2]
	case n == 0:
		return name + " is gone"
	case n == 1:
		return name + " is deleted"
	case finished(j) || *j.Spec.Suspend:
		return "resume"
	case n < 4:
		return name + " starts"
	case n < 7:
		return name + " is ready"
	case n < 10:
		return name + " succeeds"
	case n == 10:
		return name + " fails"
	default:
		return name + " fails with DeadlineExceeded: it took too long"
	}
}

// TestSameAsUpstreamWhateverHappens plays cases that nobody has thought of.
func TestSameAsUpstreamWhateverHappens(t *testing.T) {
	for seed := range int64(*seeds) {
		random := rand.New(rand.NewSource(*firstSeed + seed))
		spec := randomSpec(random)
		b := begin(t, parse(t, spec))
		history := []string{spec}
		for range 30 {
			line := b.happening(random)
			history = append(history, line)
			b.step(line)
			b.settle()
			if !b.compare(line) {
				t.Fatalf("seed %d:\n%s", *firstSeed+seed, strings.Join(history, "\n"))
			}
			if b.ours.o.Set.DeletionTimestamp != nil {
				break
			}
		}
	}
}
