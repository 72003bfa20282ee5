package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var update = flag.Bool("update", false, "write what the commands of testdata/kubectl/script print into those files")

// TestKubectlScript runs the transcripts in testdata/kubectl/script: every verb on every kind, errors included, with
// what a cluster prints. Each file has a namespace of its own.
func TestKubectlScript(t *testing.T) {
	needContainers(t)
	tools := t.TempDir()
	// The output is that of one version of kubectl.
	build := exec.Command(
		"go", "build", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2", "-o", tools+"/kubectl",
		"github.com/jobd/jobd/testdata/kubectl",
	)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	playScripts(t, tools, kubectlPrints, "*")
}

// TestJobctlIsKubectl runs those transcripts again whose commands jobctl has changed or added to, with jobctl for
// kubectl: what they print is the same, or what a transcript says that jobctl prints.
func TestJobctlIsKubectl(t *testing.T) {
	needContainers(t)
	tools := t.TempDir()
	// Without the flag jobctl uses the socket, and no kubeconfig that names a namespace.
	// The answer to an unknown command has the name of the program in it.
	wrapper := fmt.Sprintf(`#!/bin/sh
if [ "$1" = convert ]; then
  echo 'error: unknown command "convert" for "kubectl"'
  exit 1
fi
exec %s --kubeconfig "$KUBECONFIG" "$@"
`, filepath.Join(bin, "jobctl"))
	if err := os.WriteFile(filepath.Join(tools, "kubectl"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	playScripts(t, tools, jobctlPrints, "apply", "container", "cronjob", "delete", "job")
}

// playScripts runs transcripts with the kubectl in a directory.
func playScripts(t *testing.T, tools string, prints printer, names ...string) {
	// first prints that many lines of a command, which need not end by itself.
	if err := os.WriteFile(filepath.Join(tools, "first"), []byte(`#!/bin/sh
n=$1 lines=$(mktemp -u) && shift && mkfifo "$lines" || exit
"$@" >"$lines" 2>&1 &
head -n "$n" "$lines"
kill $!
wait
`), 0o755); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		found, err := filepath.Glob("../../testdata/kubectl/script/" + name + ".txt")
		if err != nil || len(found) == 0 {
			t.Fatal("no transcripts ", name, err)
		}
		files = append(files, found...)
	}
	d := start(t, "--listen", freePort(t))
	admin, err := os.ReadFile(filepath.Join(d.root, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cache, nodeName := t.TempDir(), node(d)
	t.Run("all", func(t *testing.T) {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txt")
			t.Run(name, func(t *testing.T) {
				if !strings.HasPrefix(name, "node") { // what happens to the node affects all
					t.Parallel()
				}
				home := t.TempDir()
				config := filepath.Join(home, "kubeconfig")
				if err := os.WriteFile(config, admin, 0o600); err != nil {
					t.Fatal(err)
				}
				s := &script{dir: home, node: nodeName, prints: prints, env: append(os.Environ(),
					"PATH="+tools+":"+os.Getenv("PATH"), "HOME="+home, "TMPDIR="+home, "KUBECONFIG="+config, "KUBECACHEDIR="+cache,
					"NO_PROXY=127.0.0.1", "NODE="+nodeName, "JOBD_SOCKET="+d.socket(),
				)}
				// The ConfigMap of each namespace comes with the account. Told to wait for two that are both missing,
				// kubectl waits for neither.
				if out := s.do("{ kubectl create namespace " + name + " && kubectl config set-context --current --namespace=" + name +
					" && kubectl wait --for=create " + patiently + " serviceaccount/default; } >/dev/null"); out != "" {
					t.Fatal(out)
				}
				s.play(t, file)
			})
		}
	})
}

func node(d *daemon) string {
	return strings.TrimSpace(d.jobctl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
}

// script runs the commands of one transcript.
type script struct {
	dir, node string
	prints    printer
	env       []string
}

// printer is the program whose output is looked at: the place in step.output.
type printer int

const (
	kubectlPrints printer = iota
	jobctlPrints
)

// jobctlLine begins what jobctl prints where kubectl prints something else.
const jobctlLine = "--- jobctl"

// step is a command of a transcript, the comment before it, and what kubectl and jobctl print.
type step struct {
	comment, command string
	output           [2]string
}

// play runs a transcript. A line that begins with "$ " is a command for the shell, lines that begin with "> " after it
// continue it, lines that begin with "## " before it are a comment, and the rest is the output, with [n] for an exit
// code; after the line "--- jobctl" it is that of jobctl. With -update the output is written to the file, to be checked against what a cluster prints.
func (s *script) play(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps, same := parse(string(data)), true
	for i := range steps {
		step := &steps[i]
		got := s.do(step.command)
		wanted := &step.output[s.prints]
		if got == *wanted {
			continue
		}
		same = false
		if !*update {
			t.Errorf("%s$ %s\n--- printed:\n%s\n--- wanted:\n%s", step.comment, step.command, got, *wanted)
		}
		if s.prints == kubectlPrints && step.output[jobctlPrints] == *wanted {
			step.output[jobctlPrints] = got
		}
		*wanted = got
	}
	if *update && !same {
		if err := os.WriteFile(file, []byte(format(steps)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func parse(text string) (steps []step) {
	var comment strings.Builder
	var prints printer
	last := func() *step { return &steps[len(steps)-1] }
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "## "):
			comment.WriteString(line)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{comment: comment.String(), command: strings.TrimSuffix(line[2:], "\n")})
			comment.Reset()
			prints = kubectlPrints
		case strings.HasPrefix(line, "> ") && last().output[kubectlPrints] == "":
			last().command += "\n" + strings.TrimSuffix(line[2:], "\n")
		case line == jobctlLine+"\n":
			prints = jobctlPrints
		case len(steps) > 0:
			last().output[prints] += line
		}
	}
	for i := range steps {
		of := &steps[i].output
		of[kubectlPrints], of[jobctlPrints] = strings.TrimSpace(of[kubectlPrints]), strings.TrimSpace(of[jobctlPrints])
		if of[jobctlPrints] == "" {
			of[jobctlPrints] = of[kubectlPrints]
		}
	}
	return steps
}

func format(steps []step) string {
	var out strings.Builder
	for i, s := range steps {
		if i > 0 && s.comment != "" {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s$ %s\n", s.comment, strings.ReplaceAll(s.command, "\n", "\n> "))
		if s.output[kubectlPrints] != "" {
			out.WriteString(s.output[kubectlPrints] + "\n")
		}
		if s.output[jobctlPrints] != s.output[kubectlPrints] {
			out.WriteString(jobctlLine + "\n" + s.output[jobctlPrints] + "\n")
		}
	}
	return out.String()
}

// do runs a command and returns what it prints, without what differs from run to run.
func (s *script) do(command string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	printed, err := cmd.CombinedOutput()
	out := strings.ReplaceAll(string(printed), s.dir, "DIR")
	out = regexp.MustCompile(`\b`+regexp.QuoteMeta(s.node)+`\b`).ReplaceAllString(out, "NODE")
	for _, v := range varying {
		out = v.pattern.ReplaceAllString(out, v.as)
	}
	out = strings.TrimSpace(out)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		out += fmt.Sprintf("\n[%d]", exit.ExitCode())
	} else if err != nil {
		out += "\n" + err.Error()
	}
	return strings.TrimSpace(out)
}

// varying is what is different from one run to the next, or from one machine to another.
var varying = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`(resourceVersion\\?"?: ?\\?)"\d+\\?"`), `$1"N"`},
	{regexp.MustCompile(`(Resource Version: +)\d+`), `${1}N`},
	{regexp.MustCompile(`(sha256:|containerd://)\S+`), `${1}DIGEST`},
	{regexp.MustCompile(`DIR/\S*\d{6,}[^/\s"]*`), "DIR/FILE"},
	{regexp.MustCompile(`https://127\.0\.0\.1:\d+`), "SERVER"},
	{regexp.MustCompile(`NODE/[0-9.]+`), "NODE/IP"},
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "IP"},
	{regexp.MustCompile(`\b(\d+):3\d{4}/(TCP|UDP)\b`), "$1:NODEPORT/$2"},
	// What runc says, in crun's words.
	{
		regexp.MustCompile(`exec failed: unable to start container process: exec: "(\w+)": executable file not found in \$PATH`),
		"executable file `$1` not found in $$PATH: No such file or directory",
	},
	// The letters of generated names have no vowels.
	{regexp.MustCompile(`\b([a-z][a-z0-9-]*)-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "$1-RANDOM"},
	{regexp.MustCompile(`\.[0-9a-f]{16}\b`), ".HEX"},
	{regexp.MustCompile(`(?m)(^|[ (])(\d+[smhd]){1,2}( ago\)|$|[ )])`), "${1}AGE$3"},
	// Columns are as wide as their widest cell, which may be one of the above.
	{regexp.MustCompile(`(\S)   +`), "$1   "},
	{regexp.MustCompile(`(?m) +$`), ""},
}
