package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/store"
)

// TestMain lets the test's own binary act as jobctl.
func TestMain(m *testing.M) {
	if os.Getenv("JOBCTL_TEST_RUN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// daemon is the API of jobd without a daemon behind it.
type daemon struct {
	store              *store.Store
	socket, kubeconfig string
	home               string
}

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{socket: filepath.Join(dir, "s"), kubeconfig: filepath.Join(dir, "kubeconfig"), home: t.TempDir()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	d.store, err = store.Open(filepath.Join(dir, "db"), store.Options{NoSync: true})
	must(err)
	t.Cleanup(func() { _ = d.store.Close() })
	authority, err := listen.OpenAuthority(filepath.Join(dir, "tls"))
	must(err)
	s, err := server.New(server.Config{Store: d.store, Authority: authority, Logs: logs{}, JobLogs: logs{}, Containers: containers{}, Version: "test"})
	must(err)
	local, err := listen.Unix(d.socket, "jobd")
	must(err)
	network, err := listen.TLS("127.0.0.1:0", authority, false)
	must(err)
	must(authority.WriteKubeconfig(d.kubeconfig, network.Addr()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, local, network) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

type logs struct{}

func (logs) Elsewhere(*batchv1.Job) (string, error) { return "", nil }

func (logs) Left(_ context.Context, namespace, name string) (*batchv1.Job, error) {
	if name != "left" {
		return nil, nil
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}, {Name: "sidecar"}}
	return j, nil
}

// OpenJob returns what was requested, as text.
func (logs) OpenJob(_ context.Context, j *batchv1.Job, o *batch.JobLogOptions) (io.ReadCloser, error) {
	var asked []string
	for name, on := range map[string]bool{
		"allRestarts": o.AllRestarts, "allContainers": o.AllContainers, "follow": o.Follow, "prefix": o.Prefix,
		"previous": o.Previous, "timestamps": o.Timestamps, o.Stream: o.Stream != "", "container=" + o.Container: o.Container != "",
	} {
		if on {
			asked = append(asked, name)
		}
	}
	if o.TailLines != nil {
		asked = append(asked, fmt.Sprintf("tail=%d", *o.TailLines))
	}
	if o.LimitBytes != nil {
		asked = append(asked, fmt.Sprintf("limit=%d", *o.LimitBytes))
	}
	if o.SinceTime != nil {
		asked = append(asked, "since="+o.SinceTime.UTC().Format(time.RFC3339))
	}
	slices.Sort(asked)
	text := "words of jobs/" + j.Name + "\n"
	for i, a := range asked {
		text += " " + a
		if i == len(asked)-1 {
			text += "\n"
		}
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (logs) Open(_ context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("words of " + pod.Name + "/" + o.Container + "\n")), nil
}

// program runs jobctl or kubectl; both are to do the same.
type program func(t *testing.T, in string, args ...string) (out string, code int)

func (d *daemon) jobctl(t *testing.T, in string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+d.home, "JOBD_SOCKET="+d.socket,
		// None of this must be read: it would lead to another server.
		"KUBECONFIG="+filepath.Join(d.home, "none"))
	return run(t, cmd, in)
}

func (d *daemon) kubectl(t *testing.T, in string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("kubectl", append([]string{"--kubeconfig", d.kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+d.home)
	return run(t, cmd, in)
}

func run(t *testing.T, cmd *exec.Cmd, in string) (string, int) {
	t.Helper()
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	return raceNotice.ReplaceAllString(string(out), ""), cmd.ProcessState.ExitCode()
}

// raceNotice is what the Kubernetes libraries print when they are built with the race detector.
var raceNotice = regexp.MustCompile(`(?m)^.*[Dd]ata race detection enabled.*\n`)

const pi = `apiVersion: batch/v1
kind: Job
metadata:
  name: pi
spec:
  template:
    spec:
      containers:
      - name: pi
        image: perl:5.34.0
        command: ["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"]
      restartPolicy: Never
  backoffLimit: 4
`

func TestVerbs(t *testing.T) {
	for _, name := range []string{"jobctl", "kubectl"} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			do := program(d.jobctl)
			if name == "kubectl" {
				if _, err := exec.LookPath("kubectl"); err != nil {
					t.Skip("needs kubectl")
				}
				do = d.kubectl
			}
			for _, step := range []struct {
				what string
				in   string
				args string
				code int
				want string // a regular expression
			}{
				{what: "apply creates", in: pi, args: "apply -f -", want: `job.batch/pi created`},
				{what: "apply again changes nothing", in: pi, args: "apply -f -", want: `job.batch/pi unchanged`},
				{what: "diff sees nothing", in: pi, args: "diff -f -", want: `^$`},
				{what: "get", args: "get jobs", want: `(?s)NAME +STATUS +COMPLETIONS +DURATION +AGE\s+pi +Running +0/1`},
				{what: "get wide", args: "get job pi -o wide", want: `IMAGES +SELECTOR`},
				{what: "get a field", args: "get job pi -o jsonpath={.spec.backoffLimit}", want: `^4$`},
				{what: "get yaml", args: "get job/pi -o yaml", want: `(?s)kind: Job.*completionMode: NonIndexed`},
				{what: "describe", args: "describe job pi", want: `(?s)Parallelism: +1.*Backoff Limit: +4.*Pods Statuses: +0 Active`},
				{what: "patch", args: `patch job/pi --type=strategic --patch {"spec":{"suspend":true}}`, want: `job.batch/pi patched`},
				{what: "wait for a field", args: "wait --for=jsonpath={.spec.suspend}=true job/pi --timeout=10s", want: `condition met`},
				{what: "wait in vain", args: "wait --for=condition=Complete job/pi --timeout=1s", code: 1, want: `timed out waiting`},
				{
					what: "apply on the server", in: strings.Replace(pi, "backoffLimit: 4", "backoffLimit: 5", 1),
					args: "apply --server-side --force-conflicts -f -", want: `serverside-applied`,
				},
				{what: "label", args: "label job pi a=b", want: `labeled`},
				{what: "explain", args: "explain job.spec.backoffLimitPerIndex", want: `(?s)FIELD: backoffLimitPerIndex <integer>`},
				{what: "api-resources", args: "api-resources", want: `(?s)jobs +batch/v1 +true +Job`},
				{what: "events", args: "events", want: `No events found`},
				{
					what: "a typing error in a field", in: strings.Replace(pi, "backoffLimit", "backofLimit", 1),
					args: "apply -f -", code: 1, want: `unknown field "spec.backofLimit"`,
				},
				{
					what: "a missing template", in: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {}\n",
					args: "apply -f -", code: 1, want: `spec.template.spec.containers: Required value`,
				},
				{
					what: "a wrong type",
					in:   strings.NewReplacer("backoffLimit: 4", "backoffLimit: many", "name: pi", "name: new").Replace(pi),
					args: "apply -f -", code: 1,
					want: `cannot unmarshal string into Go struct field JobSpec.spec.backoffLimit of type int32`,
				},
				{what: "create from a command line", args: "create job hello --image=busybox -- echo hello", want: `job.batch/hello created`},
				{what: "a dry run", args: "create job other --image=busybox --dry-run=server -o name", want: `^job.batch/other`},
				{what: "no such object", args: "get job other", code: 1, want: `Error from server \(NotFound\): jobs.batch "other" not found`},
				{what: "no such kind", args: "get httproutes", code: 1, want: `the server doesn't have a resource type "httproutes"`},
				{what: "a kind that jobd does not have", args: "get statefulsets", want: `No resources found in default namespace`},
				{what: "logs of a pod that is not there", args: "logs nobody", code: 1, want: `pods "nobody" not found`},
				{what: "version", args: "get --raw /version", want: `jobd-test`},
				{what: "delete", args: "delete job pi hello", want: `(?s)"pi" deleted.*"hello" deleted`},
				{what: "nothing is left", args: "get jobs", want: `No resources found in default namespace`},
			} {
				out, code := do(t, step.in, strings.Fields(step.args)...)
				if code != step.code || !regexp.MustCompile(step.want).MatchString(out) {
					t.Errorf("%s: %s\nexit code %d, not %d, or this does not match %s:\n%s", step.what, step.args, code, step.code, step.want, out)
				}
			}
		})
	}
}

func TestLogsOfAJobAndOfAllContainers(t *testing.T) {
	d := startDaemon(t)
	if out, code := d.jobctl(t, pi, "apply", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	two := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: two}\nspec: {template: {spec: {restartPolicy: Never, containers: " +
		"[{name: a, image: x}, {name: b, image: x}]}}}\n"
	if out, code := d.jobctl(t, two, "apply", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	d.addPod(t, "pi-abcde", "pi", "side")
	for _, tc := range []struct{ args, want string }{
		{"logs pi-abcde -c side", "words of pi-abcde/side\n"},
		{"logs jobs/pi", "words of jobs/pi\n container=pi\n"},
		{"logs jobs/two", "Defaulted container \"a\" out of: a, b\nwords of jobs/two\n container=a\n"},
		{"logs job.batch/pi --all-containers --all-restarts --tail=3", "words of jobs/pi\n allContainers allRestarts tail=3\n"},
		{"logs jobs/pi --all-pods -f -p --stream stdout --limit-bytes=9", "words of jobs/pi\n Stdout container=pi follow limit=9 prefix previous\n"},
		{"logs jobs/pi -c pi --since-time=2026-01-02T15:00:00Z --timestamps", "words of jobs/pi\n container=pi since=2026-01-02T15:00:00Z timestamps\n"},
		{"logs jobs/left --tail=3", "Warning: job left is gone; this is what it has left (jobd.dev/keep-logs)\nwords of jobs/left\n tail=3\n"},
		{"logs left -c sidecar", " container=sidecar\nWarning: job left is gone; this is what it has left (jobd.dev/keep-logs)\nwords of jobs/left\n"},
		{
			"logs -l batch.kubernetes.io/job-name=pi --all-containers --prefix",
			"[pod/pi-abcde/pi] words of pi-abcde/pi\n[pod/pi-abcde/side] words of pi-abcde/side\n",
		},
	} {
		out, code := d.jobctl(t, "", strings.Fields(tc.args)...)
		lines := strings.SplitAfter(out, "\n")
		slices.Sort(lines)                          // several logs are read side by side
		if strings.HasPrefix(tc.args, "logs job") { // one log, and options that it was asked for with
			lines = []string{out}
		}
		if code != 0 || strings.Join(lines, "") != tc.want {
			t.Errorf("%s: %d\n%s", tc.args, code, out)
		}
	}
}

// addPod does what the controller and the node would do: it makes a running pod of the Job.
func (d *daemon) addPod(t *testing.T, name string, containers ...string) {
	t.Helper()
	uid, code := d.jobctl(t, "", "get", "job", "pi", "-o", "jsonpath={.metadata.uid}")
	if code != 0 {
		t.Fatal(uid)
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.UID = name, "default", "pod-uid"
	pod.Labels = map[string]string{"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "pi"}
	pod.Spec.NodeName = "here"
	pod.Status.Phase = corev1.PodRunning
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	value, err := scheme.Encode(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.store.Update(t.Context(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: store.Key("pods", "default", name), UID: "pod-uid", Value: value})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestWhomItSpeaksTo(t *testing.T) {
	d := startDaemon(t)
	elsewhere := filepath.Join(t.TempDir(), "nobody.sock")

	t.Run("the user's kubeconfig is not read, nor its namespace", func(t *testing.T) {
		if err := os.MkdirAll(filepath.Join(d.home, ".kube"), 0o700); err != nil {
			t.Fatal(err)
		}
		config := "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, namespace: " +
			"theirs}}]\nclusters: [{name: x, cluster: {server: https://127.0.0.1:1}}]\n"
		if err := os.WriteFile(filepath.Join(d.home, ".kube", "config"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := d.jobctl(t, "", "get", "pods"); code != 0 || !strings.Contains(out, "in default namespace") {
			t.Error(out)
		}
	})
	t.Run("--socket is stronger than the environment", func(t *testing.T) {
		out, code := d.jobctl(t, "", "get", "pods", "--socket", elsewhere)
		if code != 1 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "jobd does not answer on "+elsewhere) || !strings.Contains(out, "jobd serve") {
			t.Errorf("%d: %s", code, out)
		}
	})
	t.Run("without a daemon, submit and follow end as what could not be run", func(t *testing.T) {
		for _, args := range []string{"submit --image x", "submit --image x --detach", "-ndefault follow jobs/x", "follow cronjobs/x"} {
			out, code := d.jobctl(t, "", append(strings.Fields(args), "--socket", elsewhere)...)
			if code != 125 || !strings.Contains(out, "jobd does not answer on "+elsewhere) {
				t.Errorf("%s: %d %s", args, code, out)
			}
		}
	})
	t.Run("its own version is told without a daemon", func(t *testing.T) {
		out, code := d.jobctl(t, "", "version", "--socket", elsewhere)
		if code != 1 || !strings.HasPrefix(out, "Client Version: ") || !strings.Contains(out, "jobd does not answer on "+elsewhere) {
			t.Errorf("%d: %s", code, out)
		}
	})
	t.Run("--kubeconfig speaks to that cluster", func(t *testing.T) {
		if out, code := d.jobctl(t, "", "--kubeconfig", d.kubeconfig, "get", "ns", "-o", "name"); code != 0 || !strings.Contains(out, "namespace/kube-system") {
			t.Error(out)
		}
	})
	t.Run("both is an error", func(t *testing.T) {
		if out, code := d.jobctl(t, "", "--kubeconfig", d.kubeconfig, "--socket", d.socket, "get", "ns"); code != 1 ||
			!strings.Contains(out, "one or the other") {
			t.Error(out)
		}
	})
	t.Run("what only the socket answers is refused elsewhere", func(t *testing.T) {
		for _, args := range []string{"image list", "image remove x", "image pull x", "image import", "kubeconfig"} {
			for _, to := range [][]string{{"--kubeconfig", d.kubeconfig}, {"--context", "x"}, {"--server", "https://127.0.0.1:1"}} {
				if args == "kubeconfig" && to[0] == "--server" {
					continue // its own flag: what is printed
				}
				out, code := d.jobctl(t, "", append(to, strings.Fields(args)...)...)
				if code != 1 || !strings.Contains(out, "error: jobctl "+args[:5]) || !strings.Contains(out, "works on jobd's socket only") {
					t.Errorf("%s %s: %d %s", to, args, code, out)
				}
			}
		}
	})
	t.Run("kubeconfig prints what leads back to it", func(t *testing.T) {
		want, err := os.ReadFile(d.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if out, code := d.jobctl(t, "", "kubeconfig"); code != 0 || out != string(want) {
			t.Error(out)
		}
	})
	t.Run("completion and help name jobctl", func(t *testing.T) {
		for _, args := range []string{"completion bash", "help", "get --help"} {
			if out, code := d.jobctl(t, "", strings.Fields(args)...); code != 0 || !strings.Contains(out, "jobctl") {
				t.Errorf("%s: %d %.300s", args, code, out)
			}
		}
		if out, code := d.jobctl(t, "", "__complete", "get", "namespaces", "kube-s"); code != 0 || !strings.Contains(out, "kube-system") {
			t.Error(out)
		}
	})
}

func TestWhatToDoAboutASocketThatCannotBeReached(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want []string
	}{
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.EACCES)}, []string{"/s", "group jobd", "usermod"}},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ENOENT)}, []string{"/s", "jobd serve", "--socket", "$JOBD_SOCKET"}},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, []string{"/s", "jobd serve", "--socket"}},
	} {
		for _, want := range tc.want {
			if got := unreachable(tc.err, "/s").Error(); !strings.Contains(got, want) {
				t.Errorf("%s is not in: %s", want, got)
			}
		}
	}
}

func TestOwnCommandsAreFoundBehindFlags(t *testing.T) {
	for _, args := range []string{
		"image list", "--socket /x image list", "--socket=/x -n default image list", "-ndefault image list", "--socket /x kubeconfig",
	} {
		root, err := newCommand(
			append([]string{"jobctl"}, strings.Split(args, " ")...), func(string) string { return "" },
			genericiooptions.NewTestIOStreamsDiscard(),
		)
		if err != nil {
			t.Fatal(err)
		}
		if c, _, err := root.Find(strings.Split(args, " ")); err != nil || c == root {
			t.Errorf("jobctl %s: found %s, %v", args, c.Name(), err)
		}
	}
}
