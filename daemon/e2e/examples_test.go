package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
)

// examples is a daemon that runs testdata/examples, and a kubectl to inspect it with.
type examples struct {
	*daemon
	program, kubeconfig string
}

func (e *examples) in(t *testing.T) *examples {
	d := *e.daemon
	d.t = t
	return &examples{&d, e.program, e.kubeconfig}
}

// kubectl runs the real kubectl and returns what it prints; it must succeed.
func (e *examples) kubectl(args ...string) string {
	e.t.Helper()
	return e.kubectlWith("", args...)
}

func (e *examples) kubectlWith(input string, args ...string) string {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), e.program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.kubeconfig, "HOME="+e.t.TempDir(), "NO_PROXY=127.0.0.1")
	cmd.Stdin = strings.NewReader(input)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, &complaints)
	}
	return string(out)
}

// example returns a manifest of testdata/examples, with parts of it replaced.
func (e *examples) example(file string, replace ...string) string {
	e.t.Helper()
	data, err := os.ReadFile(filepath.Join("../../testdata/examples", file))
	if err != nil {
		e.t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			e.t.Fatalf("%s has no %q", file, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

func (e *examples) create(file string, replace ...string) {
	e.t.Helper()
	e.kubectlWith(e.example(file, replace...), "apply", "-f", "-")
}

// gone waits until a Job is gone.
func (e *examples) gone(job string) {
	e.t.Helper()
	e.eventually("job "+job+" is gone", func() error {
		_, err := e.BatchV1().Jobs("default").Get(e.t.Context(), job, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func (e *examples) noPods(job string) {
	e.t.Helper()
	e.eventually("the pods of "+job+" are gone", func() error {
		if n := len(e.pods(job)); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

// logs returns the lines of the logs of all pods of a Job, sorted.
func (e *examples) logs(job string) (lines []string) {
	e.t.Helper()
	for _, p := range e.pods(job) {
		lines = append(lines, strings.Split(strings.TrimSuffix(e.kubectl("logs", p.Name), "\n"), "\n")...)
	}
	slices.Sort(lines)
	return lines
}

func (e *examples) wantLogs(job string, want ...string) {
	e.t.Helper()
	if got := e.logs(job); !slices.Equal(got, want) {
		e.t.Errorf("logs of %s: %q, want %q", job, got, want)
	}
}

func (e *examples) contains(what, text string, parts ...string) {
	e.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			e.t.Errorf("%s does not say %q:\n%s", what, part, text)
		}
	}
}

// indexesOf returns the completion indexes of pods, in order.
func indexesOf(pods []corev1.Pod) (indexes []string) {
	for _, p := range pods {
		indexes = append(indexes, p.Annotations[batchv1.JobCompletionIndexAnnotation])
	}
	slices.Sort(indexes)
	return indexes
}

const (
	slowPi     = `"print bpi(2000)"`
	quickPi    = `"print bpi(50)"`
	piCommand  = `["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"]`
	neverEnds  = `["sh", "-c", "trap exit TERM; sleep 3600 & wait"]`
	fiftyOfPi  = "3.1415926535897932384626433832795028841971693993751"
	longSleep  = "sleep 20"
	shortSleep = "sleep 2"
	// With lastRunSleeps the last run sleeps until it is ended, however late that is.
	lastRunSleeps = "echo >>/runs/n && mapfile n </runs/n && sleep $((${#n[@]} > 3 ? 600 : 1))"
)

// TestExamples runs every manifest of testdata/examples and checks for what its documentation says. Long waits are
// shortened: sleeps, and the back-off.
func TestExamples(t *testing.T) {
	program := needKubectl(t)
	d := start(t, "--listen", freePort(t), "--pod-backoff-base", "2s")
	all := &examples{d, program, filepath.Join(d.root, "kubeconfig")}
	d.importImage(images.Busybox("busybox:1.36", "busybox:1.28"))
	d.importImage(images.Perl("perl:5.34.0"))
	d.importImage(images.Python("python:3.13"))
	d.importImage(images.Bash("bash:5"))
	d.importImage(images.Ubuntu("ubuntu:24.04"))

	// What takes longest begins first, and ends while the others are checked.
	all.create("retry-onfailure.yaml", longSleep, lastRunSleeps, "        image:", "        volumeMounts: [{name: runs, mountPath: /runs}]\n        image:",
		"      containers:", "      volumes: [{name: runs, emptyDir: {}}]\n      containers:")
	all.hold("retry-onfailure")
	all.create("retry-never.yaml", longSleep, shortSleep)
	all.create("pi.yaml")
	all.create("pod-to-pod.yaml", "sleep 5", "sleep 20") // the other pods must still find it, however late they start
	all.create("backoff-limit-per-index.yaml")
	began := time.Now()
	all.create("pi-with-ttl.yaml", slowPi, quickPi, "ttlSecondsAfterFinished: 100", "ttlSecondsAfterFinished: 2")
	for _, row := range []struct {
		name string
		run  func(*examples)
	}{
		{"work queue", workQueue},
		{"job-pod-failure-policy-example", podFailurePolicy},
		{"job-success-policy", successPolicy},
		{"myjob suspended", suspended},
		{"old and new", oldAndNew},
		{"podReplacementPolicy Failed", replacementPolicy},
		{"elastic", elastic},
		{"training with checkpoints", checkpoints},
		{"indexed static assignment", staticAssignment},
		{"template expansion", templateExpansion},
		{"controller pod", controllerPod},
		{"pi-with-timeout", timeout},
		{"pi-with-ttl", func(e *examples) {
			e.gone("pi-with-ttl")
			e.noPods("pi-with-ttl")
			if took := time.Since(began); took < 2*time.Second {
				e.t.Errorf("gone after %v already", took)
			}
		}},
		{"pod-to-pod", podToPod},
		{"pi", pi},
		{"job-backoff-limit-per-index-example", backoffLimitPerIndex},
		{"retry study, Never", retryNever},
		{"retry study, OnFailure", retryOnFailure},
	} {
		t.Run(row.name, func(t *testing.T) { row.run(all.in(t)) })
	}
	t.Run("distributed-training waits for GPUs", func(t *testing.T) { waitsForGPUs(all.in(t)) })
	d.kill()
	d.flags = append(d.flags, "--allocatable", "nvidia.com/gpu=8")
	d.serve()
	t.Run("distributed-training runs with GPUs", func(t *testing.T) { all.in(t).complete("distributed-training") })
}

func waitsForGPUs(e *examples) {
	e.create("distributed-training.yaml")
	e.eventually("its pods say what they wait for", func() error {
		if got := e.kubectl("describe", "pods", "--show-events", "-l", "job-name=distributed-training"); strings.Count(got, "Insufficient nvidia.com/gpu") < 8 {
			return errors.New(got)
		}
		return nil
	})
	for _, p := range e.pods("distributed-training") {
		if p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "" {
			e.t.Errorf("%s: %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
}

func controllerPod(e *examples) {
	e.needBridge()
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Program(e.program)
	if e.program != "/usr/bin/kubectl" {
		tree.Link("/bin/kubectl", e.program)
	}
	e.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin:/usr/bin", "HOME=/"}}, "registry.k8s.io/kubectl:v1.37.1"))
	e.create("controller-pod.yaml")
	e.complete("controller")
	for n := range 3 {
		name := fmt.Sprintf("child-%d", n+1)
		e.complete(name)
		e.wantLogs(name, fmt.Sprintf("child %d", n+1))
	}
}

func pi(e *examples) {
	e.complete("pi")
	digits, err := os.ReadFile("../../testdata/demo/pi.txt")
	if err != nil {
		e.t.Fatal(err)
	}
	if got := e.kubectl("logs", "jobs/pi"); strings.TrimSpace(got) != strings.TrimSpace(string(digits)) {
		e.t.Errorf("logs jobs/pi: %s", got)
	}
	if got, want := e.kubectl("get", "pods", "--selector=batch.kubernetes.io/job-name=pi", "--output=jsonpath={.items[*].metadata.name}"), e.pods("pi")[0].Name; got != want {
		e.t.Errorf("pods: %q, want %q", got, want)
	}
	e.contains("describe", e.kubectl("describe", "job", "pi"), "Parallelism:", "Completions:", "Start Time:", "Completed At:", "Duration:",
		"0 Active (0 Ready) / 1 Succeeded / 0 Failed", "SuccessfulCreate", "Created pod: pi-", "Completed", "Job completed")
}

func timeout(e *examples) {
	e.create("pi-with-timeout.yaml", slowPi, quickPi, "activeDeadlineSeconds: 100", "activeDeadlineSeconds: 1000")
	e.create("pi-with-timeout.yaml", piCommand, neverEnds, "name: pi-with-timeout", "name: too-late", "activeDeadlineSeconds: 100", "activeDeadlineSeconds: 1")
	e.complete("pi-with-timeout")
	e.wantLogs("pi-with-timeout", fiftyOfPi)
	e.failed("too-late", batchv1.JobReasonDeadlineExceeded)
	e.noPods("too-late")
}

func backoffLimitPerIndex(e *examples) {
	s := e.failed("job-backoff-limit-per-index-example", batchv1.JobReasonFailedIndexes).Status
	if s.CompletedIndexes != "1,3,5,7,9" || s.FailedIndexes == nil || *s.FailedIndexes != "0,2,4,6,8" || s.Succeeded != 5 || s.Failed != 10 {
		e.t.Errorf("%+v", s)
	}
	if c := s.Conditions; len(c) != 2 || c[0].Type != batchv1.JobFailureTarget || c[0].Reason != batchv1.JobReasonFailedIndexes || c[1].Type != batchv1.JobFailed {
		e.t.Errorf("conditions %+v", c)
	}
}

func podFailurePolicy(e *examples) {
	const name, evicted = "job-pod-failure-policy-example", "evicted"
	e.create("pod-failure-policy.yaml")
	e.create("pod-failure-policy.yaml", "name: "+name, "name: "+evicted, "sleep 5", "trap 'exit 3' TERM && { sleep 3600 & wait; }")
	victim := e.running(evicted, 3)[0].Name
	e.eventually("it is ready for the signal", func() error {
		if got := e.kubectl("logs", victim); got != "Hello world!\n" {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	})
	e.kubectlWith(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+victim+`"}}`,
		"create", "--raw", "/api/v1/namespaces/default/pods/"+victim+"/eviction", "-f", "-")
	e.eventually("another pod runs in its place", func() error {
		for _, p := range e.running(evicted, 3) {
			if p.Name == victim {
				return errors.New("it is still there")
			}
		}
		return nil
	})
	if s := e.until(evicted, "three are active", func(j *batchv1.Job) bool { return j.Status.Active == 3 }).Status; s.Failed != 0 {
		e.t.Errorf("the evicted pod was counted: %+v", s)
	}
	e.kubectl("delete", "job", evicted, "--wait=false")

	job := e.failed(name, batchv1.JobReasonPodFailurePolicy)
	if c := condition(job, batchv1.JobFailed); !strings.Contains(c.Message, "failed with exit code 42 matching FailJob rule at index 0") {
		e.t.Errorf("message %q", c.Message)
	}
	if job.Status.Failed != 3 || job.Status.Active != 0 || *job.Status.Terminating != 0 {
		e.t.Errorf("%+v", job.Status)
	}
	e.running(name, 0)
}

func successPolicy(e *examples) {
	e.create("success-policy.yaml")
	job := e.complete("job-success-policy")
	c := condition(job, batchv1.JobSuccessCriteriaMet)
	if c == nil || c.Reason != batchv1.JobReasonSuccessPolicy || c.Message != "Matched rules at index 0" || condition(job, batchv1.JobComplete).Reason != batchv1.JobReasonSuccessPolicy {
		e.t.Errorf("conditions %+v", job.Status.Conditions)
	}
	if s := job.Status; s.Active != 0 || *s.Terminating != 0 || s.CompletedIndexes != "2" && s.CompletedIndexes != "3" && s.CompletedIndexes != "2,3" {
		e.t.Errorf("%+v", s)
	}
	e.running("job-success-policy", 0)
}

func suspended(e *examples) {
	e.create("suspended.yaml")
	suspended := func(j *batchv1.Job) bool {
		return condition(j, batchv1.JobSuspended) != nil && j.Status.StartTime == nil && *j.Status.Terminating == 0
	}
	e.until("myjob", "suspended from the start", suspended)
	if pods := e.pods("myjob"); len(pods) > 0 {
		e.t.Errorf("%d pods were made", len(pods))
	}
	e.kubectl("patch", "job/myjob", "--type=strategic", "--patch", `{"spec":{"suspend":false}}`)
	e.running("myjob", 1)
	job := e.until("myjob", "resumed", func(j *batchv1.Job) bool {
		return j.Status.StartTime != nil && condition(j, batchv1.JobSuspended) == nil
	})
	if c := job.Status.Conditions; len(c) != 1 || c[0].Type != batchv1.JobSuspended || c[0].Status != corev1.ConditionFalse || c[0].Reason != "JobResumed" {
		e.t.Errorf("conditions %+v", c)
	}
	e.kubectl("patch", "job/myjob", "--type=strategic", "--patch", `{"spec":{"suspend":true}}`)
	job = e.until("myjob", "suspended again", suspended)
	if s := job.Status; s.Active != 0 || s.Failed != 0 || s.Succeeded != 0 {
		e.t.Errorf("%+v", s)
	}
	e.noPods("myjob")
	e.contains("describe", e.kubectl("describe", "job", "myjob"), "Suspended", "Job suspended", "SuccessfulCreate", "SuccessfulDelete", "Resumed", "Job resumed")
}

func checkpoints(e *examples) {
	e.create("training-with-checkpoints.yaml")
	pod := e.running("training", 1)[0].Name
	e.eventually("the first epoch is finished", func() error {
		if got := e.kubectl("logs", pod); !strings.Contains(got, "finished epoch 1\n") {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	})
	e.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
	e.complete("training")
	if got := e.kubectl("logs", "job/training"); strings.Contains(got, "going on after epoch 0\n") || !strings.HasSuffix(got, "finished epoch 5\n") {
		e.t.Errorf("after the first pod was deleted: %q", got)
	}
	e.contains("get", e.kubectl("get", "pvc,pv"), "checkpoints", "Bound", "1Gi", "RWO", "local", "Delete", "default/checkpoints")
	e.contains("describe", e.kubectl("describe", "pvc", "checkpoints"), "ProvisioningSucceeded", "kubernetes.io/pvc-protection", "Used By:")
	e.kubectl("delete", "job", "training", "--wait")
	e.kubectl("delete", "pvc", "checkpoints", "--wait")
}

func oldAndNew(e *examples) {
	e.create("old.yaml")
	pods := e.running("old", 2)
	uid := e.kubectl("get", "job", "old", "-o", "jsonpath={.metadata.uid}")
	e.kubectl("delete", "jobs/old", "--cascade=orphan")
	e.gone("old")
	e.create("new.yaml", "controller-uid: UID", "controller-uid: "+uid)
	job := e.until("new", "has the pods", func(j *batchv1.Job) bool { return j.Status.Active == 2 && *j.Status.Ready == 2 })
	for _, p := range pods {
		p, err := e.CoreV1().Pods("default").Get(e.t.Context(), p.Name, metav1.GetOptions{})
		if err != nil || !metav1.IsControlledBy(p, job) || !slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			e.t.Errorf("pod of old: %v, %+v", err, p.ObjectMeta)
		}
	}
	e.kubectl("delete", "job", "new", "--wait")
	for _, p := range pods {
		e.kubectl("wait", "--for=delete", "pod/"+p.Name, patiently)
	}
}

func replacementPolicy(e *examples) {
	const name = "replace-when-failed"
	e.create("pod-replacement-policy.yaml", "sleep 3;", "until [ -e /tmp/seen ]; do sleep 0.1; done;")
	pod := e.running(name, 1)[0].Name
	e.eventually("it is ready for the signal", func() error {
		if got := e.kubectl("logs", pod); got != "ready\n" {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	})
	e.kubectl("delete", "pod", pod, "--wait=false")
	e.until(name, "terminating, and no replacement", func(j *batchv1.Job) bool {
		return *j.Status.Terminating == 1 && j.Status.Active == 0 && j.Status.Failed == 0
	})
	if pods := e.pods(name); len(pods) != 1 {
		e.t.Errorf("%d pods while it ends", len(pods))
	}
	e.kubectl("exec", pod, "--", "touch", "/tmp/seen")
	e.until(name, "replaced", func(j *batchv1.Job) bool {
		return *j.Status.Terminating == 0 && j.Status.Active == 1 && j.Status.Failed == 1
	})
	e.kubectl("delete", "job", name, "--wait=false")
}

func elastic(e *examples) {
	scale := func(n int) {
		e.kubectl("patch", "job/elastic", "-p", fmt.Sprintf(`{"spec":{"parallelism":%d,"completions":%d}}`, n, n))
	}
	e.create("elastic.yaml")
	e.running("elastic", 3)
	scale(5)
	if got := indexesOf(e.running("elastic", 5)); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
		e.t.Errorf("scaled up, there are %v", got)
	}
	scale(2)
	job := e.until("elastic", "scaled down", func(j *batchv1.Job) bool { return j.Status.Active == 2 && *j.Status.Terminating == 0 })
	if got := indexesOf(e.running("elastic", 2)); !slices.Equal(got, []string{"0", "1"}) || job.Status.Failed != 0 {
		e.t.Errorf("scaled down, there are %v; failed %d", got, job.Status.Failed)
	}
	e.kubectl("delete", "job", "elastic", "--wait=false")
}

func workQueue(e *examples) {
	e.needBridge()
	redis, err := images.Redis("redis:7")
	if err != nil {
		e.t.Skip("needs redis: ", err)
	}
	e.importImage(redis, nil)
	e.create("redis.yaml")
	e.kubectl("wait", "--for=condition=Ready", "pod/redis-master", patiently)
	queue := func(args ...string) string {
		return e.kubectl(append([]string{"exec", "redis-master", "--", "redis-cli"}, args...)...)
	}
	e.eventually("redis answers", func() error {
		if got, err := e.try("jobctl", nil, "exec", "redis-master", "--", "redis-cli", "PING"); err != nil || !strings.Contains(got, "PONG") {
			return fmt.Errorf("%v: %s", err, got)
		}
		return nil
	})
	fruits := []string{"apple", "banana", "cherry", "date", "fig", "grape", "lemon", "melon"}
	queue(append([]string{"RPUSH", "fine"}, fruits...)...)
	queue(append([]string{"RPUSH", "coarse"}, fruits...)...)
	e.create("work-queue-fine.yaml")
	e.create("work-queue-coarse.yaml")
	if s := e.complete("job-wq-fine").Status; s.Succeeded != 2 {
		e.t.Errorf("fine: %+v", s)
	}
	if s := e.complete("job-wq-coarse").Status; s.Succeeded != 8 {
		e.t.Errorf("coarse: %+v", s)
	}
	for _, list := range []string{"fine-done", "coarse-done"} {
		done := strings.Fields(queue("--raw", "LRANGE", list, "0", "-1"))
		if slices.Sort(done); !slices.Equal(done, fruits) {
			e.t.Errorf("%s: %v, want %v", list, done, fruits)
		}
	}
	e.kubectl("delete", "pod", "redis-master", "--wait=false")
}

func staticAssignment(e *examples) {
	e.create("indexed-init-container.yaml")
	e.create("indexed-downward-api.yaml")
	e.complete("indexed-job")
	e.wantLogs("indexed-job", "oof", "rab", "xuq", "zab", "zyx")
	e.complete("indexed-downward")
	e.wantLogs("indexed-downward", "0", "1", "2", "3", "4")
}

func podToPod(e *examples) {
	e.needBridge()
	e.complete("example-job")
	var want []string
	for i := range 3 {
		for range 3 {
			want = append(want, fmt.Sprintf("Successfully pinged pod: example-job-%d.headless-svc", i))
		}
	}
	e.wantLogs("example-job", want...)
}

func templateExpansion(e *examples) {
	items := []string{"apple", "banana", "cherry"}
	for _, item := range items {
		e.create("template-expansion.yaml.in", "$ITEM", item)
	}
	for _, item := range items {
		e.complete("process-item-" + item)
	}
	if got := strings.Fields(e.kubectl("get", "jobs", "-l", "jobgroup=jobexample", "-o", "jsonpath={.items[*].metadata.name}")); len(got) != 3 {
		e.t.Errorf("jobs: %v", got)
	}
	got := strings.Split(strings.TrimSpace(e.kubectl("logs", "-f", "-l", "jobgroup=jobexample")), "\n")
	if slices.Sort(got); !slices.Equal(got, []string{"Processing item apple", "Processing item banana", "Processing item cherry"}) {
		e.t.Errorf("logs: %q", got)
	}
	e.kubectl("delete", "job", "-l", "jobgroup=jobexample")
	for _, item := range items {
		e.gone("process-item-" + item)
	}
}

func retryNever(e *examples) {
	job := e.failed("retry-never", batchv1.JobReasonBackoffLimitExceeded)
	pods := e.pods("retry-never")
	if job.Status.Failed != 4 || len(pods) != 4 {
		e.t.Errorf("failed %d, %d pods; want 4", job.Status.Failed, len(pods))
	}
	for _, p := range pods {
		if got := e.kubectl("logs", p.Name); got != "Hello world!\ncompleted\n" {
			e.t.Errorf("%s said %q", p.Name, got)
		}
	}
	if got := e.kubectl("get", "pods", "-l", "job-name=retry-never", "--no-headers"); strings.Count(got, "Error") != 4 {
		e.t.Errorf("get pods:\n%s", got)
	}
}

// holder is a finalizer that keeps a pod so that it can be looked at after its end.
const holder = "example.com/look"

func (e *examples) hold(job string) {
	e.t.Helper()
	e.eventually("a pod of "+job, func() error {
		if len(e.pods(job)) == 0 {
			return errors.New("none")
		}
		return nil
	})
	for _, p := range e.pods(job) {
		e.kubectl("patch", "pod", p.Name, "--type=json", "-p", `[{"op":"add","path":"/metadata/finalizers/-","value":"`+holder+`"}]`)
	}
}

func retryOnFailure(e *examples) {
	job := e.failed("retry-onfailure", batchv1.JobReasonBackoffLimitExceeded)
	pods := e.pods("retry-onfailure")
	if job.Status.Failed != 1 || len(pods) != 1 {
		e.t.Fatalf("failed %d, %d pods; want 1", job.Status.Failed, len(pods))
	}
	p := pods[0]
	if s := p.Status.ContainerStatuses[0]; s.RestartCount != 3 || s.State.Terminated == nil || s.State.Terminated.ExitCode != 137 {
		e.t.Errorf("%+v", s)
	}
	if got := e.kubectl("logs", "--previous", p.Name); got != "Hello world!\ncompleted\n" {
		e.t.Errorf("the run before the last said %q", got)
	}
	if got := e.kubectl("logs", p.Name); strings.Contains(got, "completed") {
		e.t.Errorf("the last run was not cut short: %q", got)
	}
	e.kubectl("patch", "pod", p.Name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	e.kubectl("wait", "--for=delete", "pod/"+p.Name, patiently)
}
