package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// greeter is a Job that says hello and waits until a file is there.
const greeter = `
apiVersion: batch/v1
kind: Job
metadata: {name: greeter, labels: {app: greeter}}
spec:
  template:
    metadata: {labels: {app: greeter}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, "echo hello; until [ -e /tmp/go ]; do sleep 0.1; done; echo bye"]}
`

// tools are those of docs/programs.md, beside the launchers.
var tools = map[string]func(d *daemon, namespace string){
	"kubectl two minors older": olderKubectl,
	"kustomize":                kustomize,
	"stern":                    stern,
	"python3-kubernetes":       pythonClient,
	"cdk8s":                    cdk8s,
}

// TestTools runs other people's programs against one daemon, each in a namespace of its own. Those that `make e2e-tools`
// builds and that are not there are skipped by name.
func TestTools(t *testing.T) {
	t.Parallel()
	needContainers(t)
	d := start(t, "--listen", freePort(t))
	for name, test := range tools {
		t.Run(name, func(t *testing.T) {
			here := *d
			here.t = t
			namespace := strings.ReplaceAll(name, " ", "-")
			here.jobctl("create", "namespace", namespace)
			test(&here, namespace)
		})
	}
	for name, why := range map[string]string{
		"kubectl one and two minors newer": "k8s.io/kubectl v0.38 needs Go 1.27, and there is none after it yet",
		"kube-state-metrics":               "the module proxy does not serve k8s.io/kube-state-metrics; TestWhoRanWhat reads the metrics of its names",
	} {
		t.Run(name, func(t *testing.T) { t.Skip(why) })
	}
}

// file writes a file for a tool and returns its path.
func (d *daemon) file(name, content string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// must returns a function that runs a tool in a namespace; the tool must succeed.
func (d *daemon) must(path, namespace string) func(args ...string) string {
	run := d.clientOf(path)
	return func(args ...string) string {
		d.t.Helper()
		out, err := run(append([]string{"--namespace", namespace}, args...)...)
		if err != nil {
			d.t.Fatalf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
		}
		return out
	}
}

func olderKubectl(d *daemon, namespace string) {
	run := d.must(tool(d.t, "kubectl-older", ""), namespace)
	has := func(out string, words ...string) {
		d.t.Helper()
		for _, want := range words {
			if !strings.Contains(out, want) {
				d.t.Errorf("it does not say %q: %s", want, out)
			}
		}
	}
	file := d.file("job.yaml", greeter)
	has(run("version"), "Client Version: v1.35.", "Server Version: ", "+jobd")
	has(run("apply", "-f", file), "job.batch/greeter created")
	run("wait", "--for=jsonpath={.status.ready}=1", "job/greeter", patiently)
	has(run("get", "jobs,pods", "-o", "wide"), "job.batch/greeter", "Running")
	run("exec", "job/greeter", "--", "touch", "/tmp/go")
	run("wait", "--for=condition=complete", "job/greeter", patiently)
	has(run("logs", "job/greeter"), "hello\nbye\n")
	has(run("describe", "job/greeter"), "1 Succeeded", "Created pod: greeter-")
	has(run("events", "--for", "job/greeter"), "Completed")
	has(run("auth", "can-i", "create", "jobs"), "yes")
	has(run("explain", "cronjob.spec.schedule"), "schedule <string>")
	has(run("apply", "--server-side", "--force-conflicts", "-f", file), "serverside-applied")
	has(run("delete", "-f", file, "--wait=true"), `job.batch "greeter" deleted`)
}

// kustomize builds an overlay with what overlays are used for, and kubectl applies it.
func kustomize(d *daemon, namespace string) {
	program := tool(d.t, "kustomize", "kustomize")
	kubectl := d.must(needKubectl(d.t), namespace)
	base := d.file("job.yaml", `
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: acme/tool, command: [sh, -c, "echo $GREETING"], envFrom: [{configMapRef: {name: settings}}]}
`)
	if err := os.WriteFile(filepath.Join(filepath.Dir(base), "kustomization.yaml"), []byte(`
resources: [job.yaml]
namePrefix: prod-
namespace: `+namespace+`
labels: [{pairs: {env: prod}, includeTemplates: true}]
images: [{name: acme/tool, newName: busybox, newTag: "1.36"}]
configMapGenerator: [{name: settings, literals: [GREETING=kustomized]}]
patches:
- target: {kind: Job}
  patch: '[{"op": "add", "path": "/spec/backoffLimit", "value": 1}]'
`), 0o600); err != nil {
		d.t.Fatal(err)
	}
	out, err := exec.CommandContext(d.t.Context(), program, "build", filepath.Dir(base)).Output()
	if err != nil {
		d.t.Fatalf("kustomize build: %v\n%s", err, out)
	}
	kubectl("apply", "-f", d.file("built.yaml", string(out)))
	kubectl("wait", "--for=condition=complete", "job/prod-job", patiently)
	if logs := kubectl("logs", "job/prod-job"); logs != "kustomized\n" {
		d.t.Errorf("logs %q", logs)
	}
	// What kubectl carries of it makes the same.
	if diff := kubectl("diff", "-k", filepath.Dir(base)); diff != "" {
		d.t.Error(diff)
	}
}

func stern(d *daemon, namespace string) {
	program := tool(d.t, "stern", "stern")
	kubectl := d.must(needKubectl(d.t), namespace)
	kubectl("apply", "-f", d.file("job.yaml", greeter))
	kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/greeter", patiently)
	cmd := exec.CommandContext(d.t.Context(), program, "job/greeter", "--namespace", namespace, "--color=never", "--output=raw")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(d.root, "kubeconfig"), "HOME="+d.t.TempDir(), "NO_PROXY=127.0.0.1")
	follows := talk(d.t, cmd)
	follows.hears("hello\n")
	kubectl("exec", "job/greeter", "--", "touch", "/tmp/go")
	follows.hears("bye\n")
}

// pythonClient goes beyond the example in docs/api.md: options that the client always sends, a command in a pod, a patch.
func pythonClient(d *daemon, namespace string) {
	if out, err := exec.Command(debianPython, "-c", "import kubernetes").CombinedOutput(); err != nil {
		d.t.Skipf("needs python3-kubernetes: %s", out)
	}
	script := d.file("client.py", `
import sys
from kubernetes import client, config, stream, utils, watch

namespace, manifest = sys.argv[1:]
config.load_kube_config()
batch, core = client.BatchV1Api(), client.CoreV1Api()
utils.create_from_yaml(client.ApiClient(), manifest, namespace=namespace)
for event in watch.Watch().stream(core.list_namespaced_pod, namespace, label_selector="app=greeter"):
    pod = event["object"]
    if any(c.ready for c in pod.status.container_statuses or []):
        break
name = pod.metadata.name
assert stream.stream(core.connect_get_namespaced_pod_exec, name, namespace, command=["sh", "-c", "test -t 0 || echo plain"],
    stdin=False, stdout=True, stderr=True, tty=False) == "plain\n"
batch.patch_namespaced_job("greeter", namespace, {"metadata": {"annotations": {"seen": "yes"}}})
stream.stream(core.connect_get_namespaced_pod_exec, name, namespace, command=["touch", "/tmp/go"], stdout=True, stderr=True)
for event in watch.Watch().stream(batch.list_namespaced_job, namespace):
    if event["object"].status.succeeded:
        break
assert core.read_namespaced_pod_log(name, namespace, follow=False, tail_lines=1) == "bye\n"
assert batch.read_namespaced_job_status("greeter", namespace).metadata.annotations["seen"] == "yes"
before = batch.list_namespaced_job(namespace).metadata.resource_version
batch.delete_namespaced_job("greeter", namespace, propagation_policy="Foreground")
# From there, since it may be gone before the watch begins.
for event in watch.Watch().stream(batch.list_namespaced_job, namespace, resource_version=before, timeout_seconds=600):
    if event["type"] == "DELETED":
        break
try:
    batch.read_namespaced_job("greeter", namespace)
    sys.exit("it is still there")
except client.ApiException as e:
    assert e.status == 404, e
`)
	if out, err := d.clientOf(debianPython)(script, namespace, d.file("job.yaml", greeter)); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
}

// cdk8s applies what a program with the Cloud Development Kit for Kubernetes writes.
func cdk8s(d *daemon, namespace string) {
	node, err := exec.LookPath("node")
	if err != nil {
		d.t.Skip("needs node")
	}
	program := d.file("app.js", `
const {App, Chart, ApiObject} = require('cdk8s');
const chart = new Chart(new App(), 'etl', {namespace: process.argv[2], labels: {team: 'data'}});
new ApiObject(chart, 'job', {apiVersion: 'batch/v1', kind: 'Job', metadata: {name: 'etl'}, spec: {template: {spec: {
  restartPolicy: 'Never', containers: [{name: 'c', image: 'busybox:1.36', command: ['echo', 'from a construct']}],
}}}});
console.log(chart.toJson().map(o => JSON.stringify(o)).join('\n---\n'));
`)
	cmd := exec.Command(node, program, namespace)
	cmd.Env = append(os.Environ(), "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1")
	var failed strings.Builder
	cmd.Stderr = &failed
	manifest, err := cmd.Output()
	if strings.Contains(failed.String(), "Cannot find module 'cdk8s'") {
		d.t.Skip("needs cdk8s in NODE_PATH: npm install cdk8s constructs")
	}
	if err != nil {
		d.t.Fatalf("%v: %s", err, &failed)
	}
	d.apply(string(manifest))
	d.jobctl("wait", "--namespace", namespace, "--for=condition=Complete", "jobs/etl", "--timeout=10m")
	if got := d.jobctl("logs", "--namespace", namespace, "jobs/etl"); got != "from a construct\n" {
		d.t.Errorf("it prints %q", got)
	}
}
