package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/testdata/images"
)

// debianPython is Debian's, which has Debian's modules.
const debianPython = "/usr/bin/python3"

// A launcher is a program that launches batch work, or a replay of the calls that one makes.
type launcher struct {
	// file is what it runs, in testdata/clients.
	file string
	// long is true of one that only `make e2e-clients` runs.
	long bool
	// rights is true of one that needs rights beyond its namespace; others have the role admin there, and no more.
	rights bool
	run    func(d *daemon, namespace, file string)
}

// launchers are those of docs/programs.md, by the names that they have there.
var launchers = map[string]launcher{
	"Airflow":                      {file: "airflow.py", run: replayed},
	"Ansible":                      {file: "ansible.yml", run: ansible, long: true, rights: true},
	"Argo's pods":                  {file: "argo.py", run: replayed},
	"Dagster":                      {file: "dagster.py", run: replayed},
	"GitHub Actions":               {file: "github.mjs", run: javaScript},
	"GitLab Runner":                {file: "gitlab.py", run: replayed},
	"Jenkins":                      {file: "jenkins.py", run: replayed},
	"JavaScript":                   {file: "client-node.mjs", run: javaScript},
	"k9s":                          {run: k9s, long: true, rights: true},
	"kube-burner":                  {file: "kube_burner.py", run: replayed, rights: true},
	"kubetail":                     {run: kubetail, long: true},
	"OpenTofu":                     {file: "main.tf", run: openTofu, long: true},
	"Prefect":                      {file: "prefect.py", run: replayed, rights: true},
	"Spark":                        {file: "spark.py", run: replayed},
	"Terraform's provider":         {file: "terraform.py", run: replayed, rights: true},
	"Terraform's provider of 2021": {file: "provider.tf", run: terraformProvider, long: true},
	"Toil":                         {file: "toil_squares.py", run: toil, long: true},
}

// TestClients runs them against one daemon, each in a namespace of its own.
func TestClients(t *testing.T) {
	needContainers(t)
	d := start(t, "--listen", freePort(t))
	d.importImage(images.Python("docker.io/library/python:3"))
	t.Run("all", func(t *testing.T) { // which returns when those that run at once have ended
		for name, launcher := range launchers {
			t.Run(name, func(t *testing.T) {
				if launcher.long && os.Getenv("JOBD_E2E_CLIENTS") == "" {
					t.Skip("make e2e-clients runs it")
				}
				t.Parallel()
				here := *d
				here.t = t
				namespace := strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(name))
				here.jobctl("create", "namespace", namespace)
				if !launcher.rights {
					here.access = filepath.Join(t.TempDir(), "kubeconfig")
					here.jobctl("kubeconfig", "--role", "admin", "--namespace", namespace, "-o", here.access)
				}
				launcher.run(&here, namespace, here.asset(launcher.file))
			})
		}
	})
	for name, why := range map[string]string{
		"GitHub's container hooks, themselves": "the npm registry does not have actions/runner-container-hooks",
		"GitLab Runner, itself":                "beside it it needs a coordinator and an image with its helper",
		"kube-burner, itself":                  "the module proxy does not serve github.com/kube-burner/kube-burner",
		"Snakemake":                            "its pods need an object store for their files, and there is none here",
		"Terraform's provider, the youngest":   "the module proxy serves none that is younger than v1.13.4, of 2021",
		"Woodpecker":                           "the module proxy does not serve go.woodpecker-ci.org/woodpecker",
	} {
		t.Run(name, func(t *testing.T) { t.Skip(why) })
	}
}

// asset is a file of testdata/clients.
func (d *daemon) asset(name string) string {
	d.t.Helper()
	path, err := filepath.Abs("../../testdata/clients/" + name)
	if err != nil {
		d.t.Fatal(err)
	}
	return path
}

// copied is a copy of a file in a directory of its own.
func (d *daemon) copied(file string) string {
	d.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.file(filepath.Base(file), string(content))
}

// kubeconfig is by which a program finds the daemon, over TLS.
func (d *daemon) kubeconfig() string {
	if d.access != "" {
		return d.access
	}
	return filepath.Join(d.root, "kubeconfig")
}

// environment is that of a program that finds the daemon by itself.
func (d *daemon) environment(more ...string) []string {
	return append(append(os.Environ(), "KUBECONFIG="+d.kubeconfig(), "HOME="+d.t.TempDir(), "NO_PROXY=127.0.0.1"), more...)
}

// runs runs a program that must succeed, and returns what it prints.
func (d *daemon) runs(cmd *exec.Cmd, environment ...string) string {
	d.t.Helper()
	cmd.Env = d.environment(environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// needProgram skips a test where a program of a Debian package is not there.
func needProgram(t *testing.T, program, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs %s: apt install %s", program, debianPackage)
	}
	return path
}

// replayed runs one that is written in Python.
func replayed(d *daemon, namespace, file string) {
	if out, err := exec.Command(debianPython, "-c", "import kubernetes").CombinedOutput(); err != nil {
		d.t.Skipf("needs python3-kubernetes: %s", out)
	}
	d.runs(exec.CommandContext(d.t.Context(), debianPython, "-B", file, namespace))
}

// javaScript runs a module that uses @kubernetes/client-node.
func javaScript(d *daemon, namespace, file string) {
	node, err := exec.LookPath("node")
	if err != nil {
		d.t.Skip("needs node")
	}
	modules := os.Getenv("NODE_PATH")
	if _, err := os.Stat(filepath.Join(modules, "@kubernetes/client-node")); modules == "" || err != nil {
		d.t.Skip("needs @kubernetes/client-node in NODE_PATH: npm install @kubernetes/client-node@1")
	}
	module := d.copied(file)
	// Node does not look into NODE_PATH for what is imported.
	if err := os.Symlink(modules, filepath.Join(filepath.Dir(module), "node_modules")); err != nil {
		d.t.Fatal(err)
	}
	d.runs(exec.CommandContext(d.t.Context(), node, module, namespace))
}

func ansible(d *daemon, namespace, file string) {
	program := needProgram(d.t, "ansible-playbook", "ansible")
	playbook := d.copied(file)
	upload := filepath.Join(filepath.Dir(playbook), "up")
	if err := os.WriteFile(upload, []byte(strings.Repeat("half a megabyte\n", 32<<10)), 0o600); err != nil {
		d.t.Fatal(err)
	}
	node := strings.TrimSpace(d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	d.runs(exec.CommandContext(d.t.Context(), program, "-i", "localhost,", "-e", "namespace="+namespace, "-e", "node="+node,
		playbook), "ANSIBLE_NOCOLOR=1")
}

func kubetail(d *daemon, namespace, _ string) {
	program := needProgram(d.t, "kubetail", "kubetail")
	kubectl := needKubectl(d.t)
	inNamespace := d.must(kubectl, namespace)
	inNamespace("apply", "-f", d.file("job.yaml", greeter))
	inNamespace("wait", "--for=jsonpath={.status.ready}=1", "job/greeter", patiently)
	cmd := exec.CommandContext(d.t.Context(), program,
		"--selector", "app=greeter", "--namespace", namespace, "--since", "1h", "--colored-output", "pod")
	cmd.Env = d.environment("TERM=xterm", "KUBECTL_BIN="+kubectl)
	follows := talk(d.t, onTerminal(d.t, cmd)) // elsewhere it keeps lines back
	follows.cmd.WaitDelay = time.Second        // its children may hold the output open
	follows.hears(" hello\r\n")
	inNamespace("exec", "job/greeter", "--", "touch", "/tmp/go")
	follows.hears(" bye\r\n")
}

// toil runs a workflow whose workers are pods with Toil in their image. They share its job store, a directory of the host.
func toil(d *daemon, _, file string) {
	needProgram(d.t, "toil", "toil")
	ciphers, err := filepath.Glob("/usr/lib/*/ossl-modules")
	if err != nil {
		d.t.Fatal(err)
	}
	modules := []string{"toil.worker", "toil.batchSystems.contained_executor", "toil.jobStores.fileJobStore", "kubernetes"}
	files := append(ciphers, "/usr/bin/_toil_contained_executor", "/usr/bin/_toil_worker", "/usr/share/zoneinfo")
	d.importImage(images.PythonWith(modules, files, "docker.io/library/toil:5.9"))
	shared := d.t.TempDir()
	out := d.runs(exec.CommandContext(d.t.Context(), debianPython, "-B", file, filepath.Join(shared, "store"),
		"--batchSystem=kubernetes", "--kubernetesHostPath="+shared, "--workDir="+shared, "--disableCaching", "--defaultDisk=10M"),
		"TOIL_APPLIANCE_SELF=docker.io/library/toil:5.9")
	if !strings.Contains(out, "The sum is 14") {
		d.t.Errorf("it prints %s", out)
	}
}

// changes is the exit code of a plan with -detailed-exitcode that has some.
const changes = 2

// tofu returns a function that runs OpenTofu in a directory, which must end with an exit code.
func (d *daemon) tofu(dir string, environment ...string) func(exit int, args ...string) string {
	program := tool(d.t, "tofu", "tofu")
	return func(exit int, args ...string) string {
		d.t.Helper()
		cmd := exec.CommandContext(d.t.Context(), program, append([]string{"-chdir=" + dir}, args...)...)
		cmd.Env = d.environment(append(environment, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exit {
			d.t.Fatalf("tofu %q exits with %d, not %d: %s", args, code, exit, out)
		}
		return string(out)
	}
}

// terraformProvider plans, applies, plans nothing, changes and destroys a Job with what it needs, by the provider itself.
func terraformProvider(d *daemon, namespace, file string) {
	provider := tool(d.t, "terraform-provider-kubernetes", "")
	inNamespace := d.must(needKubectl(d.t), namespace)
	settings := d.file("tofu.rc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"hashicorp/kubernetes\" = %q\n  }\n  direct {}\n}\n",
		filepath.Dir(provider)))
	tofu := d.tofu(filepath.Dir(d.copied(file)), "TF_CLI_CONFIG_FILE="+settings, "TF_VAR_namespace="+namespace)
	tofu(changes, "plan", "-detailed-exitcode", "-input=false")
	tofu(0, "apply", "-auto-approve", "-input=false")
	if logs := inNamespace("logs", "job/greeting"); logs != "hello, jobd\n" {
		d.t.Errorf("the Job prints %q", logs)
	}
	tofu(0, "plan", "-detailed-exitcode", "-input=false")
	tofu(changes, "plan", "-detailed-exitcode", "-input=false", "-var", "greeting=good evening")
	tofu(0, "apply", "-auto-approve", "-input=false", "-var", "greeting=good evening")
	if logs := inNamespace("logs", "job/greeting"); logs != "good evening, jobd\n" {
		d.t.Errorf("the Job prints %q after the change", logs)
	}
	tofu(0, "destroy", "-auto-approve", "-input=false")
	left := func() error {
		if left := inNamespace("get", "jobs,pods,services,pvc,roles,rolebindings", "-o", "name"); left != "" {
			return fmt.Errorf("it leaves %s", left)
		}
		return nil
	}
	d.eventually("all is gone", left)
}

// openTofu plans, applies, plans nothing, changes and destroys a Job, and keeps its state and its lock in jobd.
func openTofu(d *daemon, namespace, file string) {
	inNamespace := d.must(needKubectl(d.t), namespace)
	tofu := d.tofu(filepath.Dir(d.copied(file)), "KUBE_CONFIG_PATH="+d.kubeconfig(), "KUBE_NAMESPACE="+namespace, "NAMESPACE="+namespace)
	tofu(0, "init", "-input=false", "-no-color")
	tofu(changes, "plan", "-detailed-exitcode", "-input=false")
	tofu(0, "apply", "-auto-approve", "-input=false")
	if logs := inNamespace("logs", "job/greeting"); logs != "hello\n" {
		d.t.Errorf("the Job prints %q", logs)
	}
	tofu(0, "plan", "-detailed-exitcode", "-input=false")
	tofu(changes, "plan", "-detailed-exitcode", "-input=false", "-var", "greeting=good evening")
	tofu(0, "apply", "-auto-approve", "-input=false", "-var", "greeting=good evening")
	if logs := inNamespace("logs", "job/greeting"); logs != "good evening\n" {
		d.t.Errorf("the Job prints %q after the change", logs)
	}
	if state := inNamespace("get", "secrets", "-l", "tfstate=true", "-o", "name"); state != "secret/tfstate-default-greeting\n" {
		d.t.Errorf("the state is in %q", state)
	}
	hold := func(lock string) {
		inNamespace("patch", "lease", "lock-tfstate-default-greeting", "--type=merge", "-p", `{"spec": {"holderIdentity": `+lock+`}}`)
	}
	hold(`"another"`)
	out := tofu(1, "apply", "-auto-approve", "-input=false", "-no-color")
	if !strings.Contains(out, "Error acquiring the state lock") {
		d.t.Errorf("with the lock of another: %s", out)
	}
	hold("null")
	tofu(0, "destroy", "-auto-approve", "-input=false")
	if left := inNamespace("get", "jobs,pods", "-o", "name"); left != "" {
		d.t.Errorf("it leaves %s", left)
	}
}

// k9s looks at Jobs, their pods and their logs, and deletes a Job.
func k9s(d *daemon, namespace, _ string) {
	program := tool(d.t, "k9s", "k9s")
	inNamespace := d.must(needKubectl(d.t), namespace)
	inNamespace("apply", "-f", d.file("job.yaml", greeter))
	inNamespace("wait", "--for=jsonpath={.status.ready}=1", "job/greeter", patiently)
	terminal := openTmux(d.t, d, 160, 40)
	terminal.types("env KUBECONFIG="+d.kubeconfig()+" HOME="+d.t.TempDir()+" NO_PROXY=127.0.0.1 "+
		program+" --namespace "+namespace+" --command jobs --splashless --refresh 1", "Enter")
	terminal.shows("greeter")
	terminal.types("Enter") // its pods
	terminal.shows("greeter-")
	terminal.shows("Running")
	terminal.types("l") // their logs
	terminal.shows("hello")
	inNamespace("exec", "job/greeter", "--", "touch", "/tmp/go")
	terminal.shows("bye")
	terminal.types("Escape")
	terminal.shows("Completed")
	terminal.types("Escape")
	terminal.shows("1/1")
	terminal.types("C-d")
	terminal.shows("Delete")
	terminal.types("Tab", "Enter")
	inNamespace("wait", "--for=delete", "job/greeter", patiently)
	terminal.types(":", "q", "Enter")
}
