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
	t.Parallel()
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
	if got, want := e.kubectl(
		"get", "pods", "--selector=batch.kubernetes.io/job-name=pi", "--output=jsonpath={.items[*].metadata.name}",
	), e.pods("pi")[0].Name; got != want {
		e.t.Errorf("pods: %q, want %q", got, want)
	}
	e.contains("describe", e.kubectl("describe", "job", "pi"), "Parallelism:", "Completions:", "Start Time:", "Completed At:", "Duration:",
		"0 Active (0 Ready) / 1 Succeeded / 0 Failed", "SuccessfulCreate", "Created pod: pi-", "Completed", "Job completed")
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
