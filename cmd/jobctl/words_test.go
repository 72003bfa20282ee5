package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/internal/systemd"
)

const mixed = `
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: reader}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: strange}
`

// TestKindsThatAreNotServed takes a file as charts have it through the commands that read files.
func TestKindsThatAreNotServed(t *testing.T) {
	d := startDaemon(t)
	file := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(file, []byte(mixed), 0o600); err != nil {
		t.Fatal(err)
	}
	only := filepath.Join(t.TempDir(), "request.yaml")
	if err := os.WriteFile(only, []byte(strings.SplitN(mixed, "---", 2)[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	request := `CertificateSigningRequest "reader": jobd runs Jobs and does not have the kind CertificateSigningRequest (certificates.k8s.io): jobctl kubeconfig makes certificates for people`
	deployment := `Deployment "web": jobd runs Jobs and does not have the kind Deployment (apps): make it a Job`
	widget := `Widget "strange": jobd runs Jobs and does not have the kind Widget (example.com)` + "\n"
	for _, tc := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		says  []string
	}{
		{"apply", []string{"apply", "-f", file}, "", 1, []string{"configmap/settings created", "error: " + file + ": " + request, deployment, widget}},
		{
			"apply again, and skip", []string{"apply", "--skip-unknown", "-f", file}, "", 0,
			[]string{"configmap/settings unchanged", "skipped: " + file + ": " + request, deployment, widget},
		},
		{
			"apply on the server", []string{"apply", "--server-side", "--force-conflicts", "--skip-unknown", "-f", file}, "", 0,
			[]string{"configmap/settings serverside-applied", request, deployment, widget},
		},
		{"from the standard input", []string{"apply", "-f", "-"}, mixed, 1, []string{"standard input: " + request, deployment}},
		{"a single one", []string{"apply", "-f", only}, "", 1, []string{"error: " + only + ": " + request}},
		{"a single one is skipped", []string{"apply", "--skip-unknown", "-f", only}, "", 0, []string{"skipped: " + only + ": " + request}},
		{
			"another failure stays one", []string{"create", "--skip-unknown", "-f", file}, "", 1,
			[]string{"skipped: ", request, deployment, `configmaps "settings" already exists`},
		},
		{"an old version", []string{"apply", "-f", "-"}, `{"apiVersion":"batch/v1beta1","kind":"CronJob","metadata":{"name":"old"}}`, 1, []string{
			`standard input: CronJob "old": there is no CronJob in batch/v1beta1: write apiVersion: batch/v1` + "\n"}},
		{"a kind in the plural", []string{"apply", "-f", "-"}, `{"apiVersion":"batch/v1","kind":"Jobs","metadata":{"name":"many"}}`, 1, []string{
			`error: standard input: Jobs "many": there is no kind Jobs: write kind: Job` + "\n"}},
		{"a kind in small letters", []string{"apply", "-f", "-"}, strings.Replace(pi, "kind: Job", "kind: job", 1), 1, []string{"\nWrite kind: Job\n"}},
		{"a field elsewhere", []string{"apply", "-f", "-"}, strings.Replace(pi, "spec:", "spec:\n  restartPolicy: Never", 1), 1, []string{
			"\nspec.restartPolicy: in a Job it is spec.template.spec.restartPolicy.\n"}},
		{"an old version is not skipped", []string{
			"apply", "--skip-unknown", "-f", "-",
		}, `{"apiVersion":"rbac.authorization.k8s.io/v1beta1","kind":"Role","metadata":{"name":"old"}}`, 1, []string{
			"error: ", "write apiVersion: rbac.authorization.k8s.io/v1\n"}},
		{"another's Job", []string{"apply", "-f", "-"}, `{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"v"}}`, 1, []string{
			"jobd runs Jobs and does not have the kind Job (batch.volcano.sh)"}},
		{"submit with an old version", []string{
			"submit", "-f", "-", "--detach",
		}, pi + "---\n" + `{"apiVersion":"rbac.authorization.k8s.io/v1beta1","kind":"Role","metadata":{"name":"old"}}`, 125, []string{
			"Role old: there is no Role in rbac.authorization.k8s.io/v1beta1: write apiVersion: rbac.authorization.k8s.io/v1"}},
		{"diff", []string{"diff", "-f", file}, "", 2, []string{"does not have the kind"}},
		{"delete", []string{"delete", "-f", file}, "", 1, []string{`configmap "settings" deleted`, request, widget}},
		{"submit with two namespaces", []string{"-n", "kube-system", "submit", "-f", "-", "--detach"},
			strings.Replace(pi, "name: pi", "name: pi\n  namespace: default", 1), 1, []string{
				"error: Job pi: its namespace is default in the file, and kube-system by --namespace"}},
		{
			"submit", []string{"submit", "-f", "-", "--detach"}, pi + "---\n" + strings.SplitN(mixed, "---", 2)[0], 125,
			[]string{"CertificateSigningRequest reader: jobd runs Jobs and does not have the kind CertificateSigningRequest"},
		},
		{"create", []string{"create", "-f", file, "--skip-unknown"}, "", 0, []string{"configmap/settings created", deployment}},
		{"delete, and skip", []string{"delete", "-f", file, "--skip-unknown"}, "", 0, []string{`configmap "settings" deleted`, request}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, code := d.jobctl(t, tc.stdin, tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d", code)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			for _, not := range []string{"CRD", "mapping", "MethodNotAllowed", "[", "cluster"} {
				if strings.Contains(out, not) {
					t.Errorf("it says %q", not)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestStartsIsWhatTheMachineHas(t *testing.T) {
	if with, without := starts(true), starts(false); !strings.Contains(with, "systemctl start jobd") ||
		strings.Contains(without, "systemctl") || !strings.Contains(without, "sudo jobd serve") {
		t.Errorf("with systemd %s, without %s", with, without)
	}
}

// TestWordsOfFailures provokes what goes wrong for everybody once.
func TestWordsOfFailures(t *testing.T) {
	d := startDaemon(t)
	away := filepath.Join(t.TempDir(), "none.sock")
	for _, tc := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{
			"no daemon", []string{"--socket", away, "get", "jobs"}, 1,
			[]string{"jobd does not answer on " + away, "start it with " + starts(systemd.Runs()), "jobd run"},
		},
		{
			"a context that does not exist", []string{"--kubeconfig", d.kubeconfig, "--context", "nosuch", "get", "jobs"}, 1,
			[]string{"context: nosuch", "config get-contexts", "speaks to jobd"},
		},
		{"a priority", []string{"submit", "--image", "x", "--priority", "high"}, 1, []string{"unknown flag: --priority", "priorityClassName"}},
		{"a path that the server does not have", []string{"get", "--raw", "/apis/batch/v1/nosuch"}, 1, []string{"jobctl version"}},
		{"a resource that there is not", []string{"get", "widgets"}, 1, []string{"doesn't have a resource type"}},
		{"scale", []string{"scale", "--replicas=3", "jobs/pi"}, 1, []string{"jobctl scale: jobd does not have Deployments", "spec.parallelism"}},
		{"autoscale", []string{"autoscale", "deployment", "x", "--max=3"}, 1, []string{"does not have HorizontalPodAutoscalers"}},
		{"rollout", []string{"rollout", "restart", "deploy/x"}, 1, []string{"does not have Deployments", "jobctl retry"}},
		{"certificate", []string{"certificate", "approve", "x"}, 1, []string{"does not have CertificateSigningRequests"}},
		{"expose", []string{"expose", "deployment", "web"}, 1, []string{"does not have Deployments"}},
		{
			"run as docker is", []string{"run", "busybox:1.36", "--", "ls", "-l"}, 1,
			[]string{"jobctl submit --image busybox:1.36 -- ls -l", "jobctl run NAME --image busybox:1.36 -- ls -l"},
		},
		{"run a file", []string{"run", "-f", "job.yaml"}, 1, []string{"a file is run by jobctl submit -f FILE"}},
		{"run with a terminal", []string{"run", "-it", "busybox:1.36", "sh"}, 1, []string{"jobctl run NAME --image busybox:1.36 -- sh"}},
		{"run with a volume", []string{"run", "-v", ".:/d", "busybox:1.36"}, 1, []string{"-v says how much is logged", "jobctl submit --image IMAGE --volume"}},
		{"submit with a volume", []string{"submit", "-v", ".:/d", "--image", "busybox:1.36"}, 1, []string{"-v says how much is logged", "--volume .:/d"}},
		{
			"submit with a terminal, and without one here", []string{"submit", "-it", "--image", "busybox:1.36"}, 1,
			[]string{"-t: the standard input is no terminal: leave -t out"},
		},
		{"submit to be removed", []string{"submit", "--rm", "--image", "busybox:1.36"}, 1, []string{"unknown flag: --rm", "--ttl"}},
		{"submit with GPUs", []string{"submit", "--gpus", "all", "--image", "busybox:1.36"}, 1, []string{`invalid argument "all" for "--gpus" flag`}},
		{"submit with what nobody has", []string{"submit", "--gpusy", "--image", "busybox:1.36"}, 1, []string{"unknown flag: --gpusy"}},
		{"submit an image", []string{"submit", "busybox:1.36", "ls", "/"}, 1, []string{"jobctl submit --image busybox:1.36 -- ls /"}},
		{"submit a file", []string{"submit", "nosuch.yaml"}, 1, []string{"jobctl submit -f nosuch.yaml"}},
		{"submit an image and a command without --", []string{"submit", "--image", "busybox:1.36", "echo", "hi"}, 1, []string{
			"the command follows --: jobctl submit --image busybox:1.36 -- echo hi\n"}},
		{"submit a script that is not there", []string{"submit", "--image", "busybox:1.36", "nosuch.sh"}, 1, []string{"there is no file nosuch.sh here"}},
		{
			"submit with a flag that is almost one", []string{"submit", "--paralelism", "3", "--image", "x"}, 1,
			[]string{"unknown flag: --paralelism: is --parallelism meant?"},
		},
		{"submit with a number and no unit", []string{"submit", "--deadline", "3", "--image", "x"}, 1, []string{"it takes a length of time such as 90s"}},
		{"submit with no number", []string{"submit", "--completions", "x", "--image", "x"}, 1, []string{"flag: it takes a whole number\n"}},
		{"submit as a user", []string{"submit", "--user", "1000", "--image", "x", "--", "id"}, 1, []string{"runAsUser"}},
		{"squeue", []string{"squeue"}, 1, []string{`unknown command "squeue" for "jobctl": "jobctl get jobs" lists Jobs`}},
		{"scancel", []string{"scancel", "7"}, 1, []string{`"jobctl delete jobs/NAME" ends a Job`}},
		{"ps", []string{"ps"}, 1, []string{`unknown command "ps" for "jobctl": "jobctl get jobs"`}},
		{"what nobody has", []string{"frobnicate"}, 1, []string{`unknown command "frobnicate" for "jobctl"`}},
		{"exec by the name of a Job", []string{"exec", "nosuch", "--", "ls"}, 1, []string{"A pod of the Job nosuch is named jobs/nosuch here."}},
		{"cp by kind and name", []string{"cp", "pod/nosuch:/a", filepath.Join(t.TempDir(), "a")}, 1, []string{`pods "nosuch" not found`}},
		{"a Job that is not there", []string{"why", "jobs/nosuch"}, 1, []string{`jobs.batch "nosuch" not found` + "\n"}},
		{
			"submit a directory that is not there", []string{"submit", "--image", "busybox:1.36", "--volume", "/nosuch:/d"}, 1,
			[]string{"/nosuch does not exist on this machine", "mkdir -p /nosuch"},
		},
		{"expose a pod", []string{"expose", "pod", "nosuch", "--port=80"}, 1, []string{`pods "nosuch" not found`}},
		{
			"create deployment", []string{"create", "deployment", "web", "--image=x"}, 1,
			[]string{"jobctl create deployment: jobd does not have Deployments", "jobctl submit"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, code := d.jobctl(t, "", tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d", code)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if strings.Contains(strings.ToLower(out), "cluster") {
				t.Error("it speaks of clusters")
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// Against a cluster, kubectl's commands and words are as they are.
func TestWordsOfACluster(t *testing.T) {
	d := startDaemon(t)
	out, code := d.jobctl(t, strings.SplitN(mixed, "---", 2)[0], "--kubeconfig", d.kubeconfig, "apply", "-f", "-")
	if code != 1 || !strings.Contains(out, "ensure CRDs are installed first") {
		t.Errorf("%d %s", code, out)
	}
	out, code = d.jobctl(t, "", "--kubeconfig", d.kubeconfig, "scale", "--replicas=3", "deployment/x")
	if code != 1 || strings.Contains(out, "does not have") {
		t.Errorf("%d %s", code, out)
	}
}

// TestWhatWasSentIsNamed: whichever command sends it, the field of a wrong value and the namespace that is missing are named, and
// an object that is changed is not printed as a whole.
func TestWhatWasSentIsNamed(t *testing.T) {
	d := startDaemon(t)
	if out, code := d.jobctl(t, pi, "apply", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	amount := strings.Replace(pi, "containers:", "volumes: [{name: v, emptyDir: {sizeLimit: 64MB}}]\n      containers:", 1)
	mistyped := strings.Replace(pi, "name: pi\n", "name: pi\n  labels: {a: 1}\n", 1)
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		says  string
	}{
		"apply":                           {amount, []string{"apply", "-f", "-"}, `spec.template.spec.volumes[0].emptyDir.sizeLimit has "64MB"`},
		"apply on the server":             {amount, []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, `sizeLimit has "64MB"`},
		"replace":                         {amount, []string{"replace", "-f", "-"}, `sizeLimit has "64MB"`},
		"submit":                          {amount, []string{"submit", "--replace", "-f", "-"}, `sizeLimit has "64MB"`},
		"apply what is there":             {mistyped, []string{"apply", "-f", "-"}, "\nmetadata.labels takes text"},
		"create in no namespace":          {pi, []string{"create", "-n", "team", "-f", "-"}, "jobctl create namespace team"},
		"apply in no namespace":           {pi, []string{"apply", "-n", "team", "-f", "-"}, "jobctl create namespace team"},
		"apply in none, on the server":    {pi, []string{"apply", "--server-side", "-n", "team", "-f", "-"}, "jobctl create namespace team"},
		"submit in no namespace":          {pi, []string{"submit", "-n", "team", "-f", "-"}, "jobctl create namespace team"},
		"create in none of a jobd by TLS": {pi, []string{"--kubeconfig", d.kubeconfig, "create", "-n", "team", "-f", "-"}, "jobctl create namespace team"},
	} {
		if out, code := d.jobctl(t, tc.stdin, tc.args...); code == 0 || !strings.Contains(out, tc.says) || strings.Contains(out, "map[") {
			t.Errorf("%s: %d\n%s", name, code, out)
		}
	}
	if out, _ := d.jobctl(t, "", "get", "namespace", "team"); strings.Contains(out, "create namespace") {
		t.Errorf("who looks for a namespace is told to create it: %s", out)
	}
}

// TestAValueOfTheWrongType sees the line that helps come with each command that sends a manifest.
func TestAValueOfTheWrongType(t *testing.T) {
	d := startDaemon(t)
	mistyped := strings.Replace(pi, "name: pi\n", "name: mistyped\n  annotations: {a: true}\n", 1)
	for _, args := range [][]string{
		{"apply", "-f", "-"}, {"apply", "--server-side", "-f", "-"}, {"create", "-f", "-"}, {"replace", "--force", "-f", "-"},
		{"submit", "-f", "-"}, {"--kubeconfig", d.kubeconfig, "apply", "-f", "-"},
	} {
		out, code := d.jobctl(t, mistyped, args...)
		if code == 0 || strings.Count(out, "annotations") < 2 || !strings.Contains(out, "\nmetadata.annotations") ||
			!strings.Contains(out, "put quotes around") {
			t.Errorf("%v: %d\n%s", args, code, out)
		}
	}
}

// What others have written, and a server quotes, does not act on the terminal of whoever reads why a command failed.
func TestErrorsArePrintable(t *testing.T) {
	var said bytes.Buffer
	w := newWords(&said)
	w.exit = func(int) {}
	w.fatal("error: pull x: the registry answers\n\t\x1b]0;title\x07\u009b2J\u202egnp.exe", 1)
	if want := "error: pull x: the registry answers\n\t\uFFFD]0;title\uFFFD\uFFFD2J\uFFFDgnp.exe\n"; said.String() != want {
		t.Errorf("got %q, want %q", said.String(), want)
	}
}

// TestAJobInAnotherNamespace: who has left out -n is told it, by whatever command.
func TestAJobInAnotherNamespace(t *testing.T) {
	d := startDaemon(t)
	for _, args := range []string{"create namespace lab", "create job sim --image=x -n lab"} {
		if out, code := d.jobctl(t, "", strings.Fields(args)...); code != 0 {
			t.Fatal(out)
		}
	}
	for _, args := range []string{"why jobs/sim", "retry jobs/sim", "describe job sim", "get jobs/sim", "logs jobs/sim", "follow sim", "suspend jobs/sim"} {
		out, code := d.jobctl(t, "", strings.Fields(args)...)
		if code == 0 || !strings.Contains(out, "Another namespace has a Job of this name: -n lab") {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
	if out, _ := d.jobctl(t, "", "get", "jobs/other"); strings.Contains(out, "namespace has") || strings.Contains(out, "made from") {
		t.Error(out)
	}
	if out, code := d.jobctl(t, "", "submit", "--detach", "--image", "train:1", "-o", "name"); code != 0 {
		t.Fatal(out)
	}
	if out, code := d.jobctl(t, "", "logs", "jobs/train"); code == 0 || !strings.Contains(out, "made from this one: jobs/train-") {
		t.Errorf("%d %s", code, out)
	}
}

// TestOfContainers: what was typed is in errors of a command in a container, not the names of what it was typed for.
func TestOfContainers(t *testing.T) {
	const begins, ends = "error: exec in container 1-2.main.0: start container 1-2.main.0: ", " It is looked for as one word, with its blanks: a program and " +
		"its arguments are words of their own, as in [ls, -l, /], and a shell takes a whole line, as in [sh, -c, 'ls -l /']."
	for name, said := range map[string]string{
		"crun": "executable file `ls -l /` not found in $PATH: No such file or directory",
		"runc": `exec failed: unable to start container process: exec: "ls -l /": executable file not found in $PATH`,
	} {
		if got := (&words{verb: "exec"}).ofContainers(begins + said); got != "error: "+said+"."+ends {
			t.Errorf("%s: %s", name, got)
		}
		if got := (&words{verb: "get"}).ofContainers(begins + said); got != begins+said {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestOtherEnd: kubectl would wait until its time is over for an end that does not come.
func TestOtherEnd(t *testing.T) {
	for conditions, want := range map[string]string{
		"condition=Complete": "Failed", "condition=complete=true": "Failed", "condition=Failed": "Complete",
		"condition=Complete=false": "", "condition=Suspended": "", "delete": "", "condition=Complete condition=Failed": "", "": "",
	} {
		if got := otherEnd(strings.Fields(conditions)); string(got) != want {
			t.Errorf("%s: %s", conditions, got)
		}
	}
}
