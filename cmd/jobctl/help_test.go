package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// tree makes the commands as they are for a command line.
func tree(t testing.TB, args ...string) *cobra.Command {
	t.Helper()
	root, err := newCommand(append([]string{"jobctl"}, args...), func(string) string { return "" },
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func each(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		each(sub, fn)
	}
}

// isOwn reports whether a command is not kubectl's.
func isOwn(c *cobra.Command) bool {
	for ; c.HasParent(); c = c.Parent() {
		if slices.Contains(ownVerbs, c.Name()) && !c.Parent().HasParent() {
			return true
		}
	}
	return false
}

// TestTheHelpLeadsWithJobs reads the help of jobctl as a new user does.
func TestTheHelpLeadsWithJobs(t *testing.T) {
	d := startDaemon(t)
	out, code := d.jobctl(t, "", "help")
	if code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if short, _ := d.jobctl(t, ""); short != out {
		t.Error("without a command the help is another one")
	}
	first := strings.Index(out, "Jobs:")
	if first < 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out[first:]) {
		if strings.Contains(strings.Replace(line, "cluster-info", "", 1), "cluster") {
			t.Errorf("the help says %q", line)
		}
	}
	var verbs []string
	for line := range strings.Lines(out[first:]) {
		if name := strings.Fields(line); strings.HasPrefix(line, "  ") && len(name) > 1 {
			verbs = append(verbs, name[0])
		}
	}
	if len(verbs) < 4 || verbs[0] != "submit" || verbs[1] != "follow" || verbs[2] != "logs" || verbs[3] != "why" {
		t.Errorf("the help begins with %v", verbs)
	}
	for _, verb := range slices.DeleteFunc(slices.Clone(ownVerbs), func(v string) bool { return v == "man" }) { // for packagers
		if !slices.Contains(verbs, verb) {
			t.Errorf("%s is not listed", verb)
		}
	}
	for _, verb := range []string{"scale", "autoscale", "rollout", "expose", "certificate"} {
		if slices.Contains(verbs, verb) {
			t.Errorf("%s is listed", verb)
		}
		if text, code := d.jobctl(t, "", verb, "--help"); code != 0 && !strings.Contains(text, "jobd does not have") {
			t.Errorf("%s --help: %d %s", verb, code, text)
		}
	}
	if out, _ := d.jobctl(t, "", "create", "--help"); strings.Contains(out, "Create a deployment") || !strings.Contains(out, "cronjob") {
		t.Errorf("create --help: %s", out)
	}
	if out, _ := d.jobctl(t, "", "help", "--kubeconfig", d.kubeconfig); !strings.Contains(out, "  rollout ") {
		t.Errorf("against a cluster kubectl's commands are missing: %s", out)
	}
}

// TestExamplesCanBePasted takes every example of our own commands through the parsing of arguments.
func TestExamplesCanBePasted(t *testing.T) {
	each(tree(t), func(c *cobra.Command) {
		if !isOwn(c) || c.HasSubCommands() || c.Hidden || c.Name() == "man" || !c.Runnable() {
			return
		}
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no example, or no words", c.CommandPath())
		}
		found := 0
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			at := strings.Index(line, "jobctl ")
			if at < 0 {
				continue // another program, before or after
			}
			command, _, _ := strings.Cut(line[at:], " | ")
			command, _, _ = strings.Cut(command, "; ")
			command, _, _ = strings.Cut(command, " > ")
			args := split(command)[1:]
			got, rest, err := tree(t, args...).Find(args)
			if err != nil || got.CommandPath() == "jobctl" {
				t.Errorf("%s: %q is no command: %v", c.CommandPath(), line, err)
				continue
			}
			if got.CommandPath() == c.CommandPath() {
				found++
			}
			if err := got.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			} else if err := got.ValidateArgs(got.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", c.CommandPath(), line, err)
			}
		}
		if found == 0 {
			t.Errorf("no example of %s runs it", c.CommandPath())
		}
	})
}

// split splits a command line at spaces that are not in quotes.
func split(line string) (words []string) {
	word, quote, open := "", rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			if word != "" || open {
				words = append(words, word)
			}
			word, open = "", false
		default:
			word += string(r)
		}
	}
	if word != "" || open {
		words = append(words, word)
	}
	return words
}

// TestCompletion asks what a shell asks when the tab key is pressed.
func TestCompletion(t *testing.T) {
	d := startDaemon(t)
	if out, code := d.jobctl(t, pi, "apply", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	cron := strings.NewReplacer("kind: Job", "kind: CronJob").Replace(
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: nightly}\nspec:\n  schedule: '@daily'\n  jobTemplate: {spec: " +
			"{template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}\n",
	)
	if out, code := d.jobctl(t, cron, "apply", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	set := "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: train}\nspec: {replicatedJobs: [{name: workers, " +
		"template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}]}\n"
	if out, code := d.jobctl(t, set, "apply", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, code := d.jobctl(t, "", "completion", shell); code != 0 || !strings.Contains(out, "__complete") || strings.Contains(out, "kubectl") {
			t.Errorf("completion %s: %d %.200s", shell, code, out)
		}
	}
	indexed := filepath.Join(t.TempDir(), "indexed.yaml")
	if err := os.WriteFile(indexed, []byte(simulatedJob), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ line, want string }{
		{"wh", "why"},
		{"sub", "submit"},
		{"follow ", "pi"},
		{"follow jobs/", "jobs/pi"},
		{"follow cronjobs/", "cronjobs/nightly"},
		{"follow jobs", "jobsets/"},
		{"follow jobset/", "jobset/train"},
		{"logs jobsets/", "jobsets/train"},
		{"wait jobsets/", "jobsets/train"},
		{"why jobsets/", "jobsets/train"},
		{"create job now --from ", "cronjob/"},
		{"create job now --from cronjob/", "cronjob/nightly"},
		{"submit --after ", "pi"},
		{"why ", "jobs"},
		{"why jobs/", "jobs/pi"},
		{"why cronjobs/", "cronjobs/nightly"},
		{"retry ", "jobs"},
		{"retry jobs/", "jobs/pi"},
		{"suspend cronjobs/", "cronjobs/nightly"},
		{"resume jobs/", "jobs/pi"},
		{"prioritize jobs/", "jobs/pi"},
		{"simulate --from ", "jobs/pi"},
		{"simulate --pod i", "index="},
		{"simulate -f " + indexed + " --pod index=", "index=3"},
		{"simulate -f " + indexed + " --pod container=", "container=c"},
		{"simulate --pod index=3:e", "index=3:exit="},
		{"wait ", "jobs.batch"},
		{"wait jobs/", "jobs/pi"},
		{"wait --for=", "finished"},
		{"logs jobs/", "jobs/pi"},
		{"logs ", "cronjobs/"},
		{"logs cr", "cronjobs/"},
		{"logs cronjobs/", "cronjobs/nightly"},
		{"logs cj/n", "cj/nightly"},
		{"logs ", "jobs/"},
		{"get jobs ", "pi"},
		{"delete cronjobs ", "nightly"},
		{"kubeconfig --role ", "submit"},
		{"kubeconfig --namespace ", "default"},
		{"submit --progress ", "plain"},
		{"submit --on-interrupt ", "detach"},
		{"why jobs/pi -o ", "json"},
		{"get jobs -n ", "kube-system"},
		{"exec ", "jobs/"},
		{"--kubeconfig " + d.kubeconfig + " get jobs --context ", "jobd"},
	} {
		args := strings.Split(tc.line, " ")
		out, code := d.jobctl(t, "", append([]string{"__complete"}, args...)...)
		found := false
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			found = found || name == tc.want
		}
		if code != 0 || !found || strings.Contains(out, "deployments/") || strings.HasPrefix(tc.line, "exec") && strings.Contains(out, "cronjobs/") {
			t.Errorf("%q: %d\n%s", tc.line, code, out)
		}
	}
}
