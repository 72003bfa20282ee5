package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// fieldCase shows what one field of a pod's spec does, or a few that only mean something together. The tables are in
// the files fields_*_test.go. Of a field that works, a case has one of run, check and test; a field that is refused,
// or accepted with a warning, needs only a spec that has it.
type fieldCase struct {
	// fields are rows of PODFIELDS.md, as "Container.workingDir EnvVar.name": the type, and the field's name.
	fields string
	// pod is the name of the pod that this case shares with others. A case without a name has a pod to itself.
	pod string
	// spec is what the case adds to the pod's spec, merged as by `kubectl patch`. What it leaves out is filled in: there
	// is a container c; containers are of busybox, and sleep if they have neither a command nor arguments. The words
	// in capitals that fieldWorld.words lists are replaced.
	spec string
	// run is a shell script that prints want in the container `in`, or c, while the pod runs. If it is empty, that is
	// what the container itself has printed when the pod has ended.
	in, run, want string
	// check looks at the pod, by itself or after run.
	check func(t *testing.T, p *fieldPod)
	// test is the name of the test in this package that shows it instead.
	test string
	// needs returns why this host cannot show it, or "".
	needs func(d *daemon) string
}

const (
	fieldWorks   = "works"
	fieldWarns   = "warns"
	fieldRefused = "refused"
)

// fieldSupport is what a row of PODFIELDS.md says: works, warns or refused, and the reason.
type fieldSupport struct{ effect, reason string }

// podFields reads PODFIELDS.md.
func podFields(t *testing.T) map[string]fieldSupport {
	t.Helper()
	file, err := os.Open("../../api/core/PODFIELDS.md")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, section := map[string]fieldSupport{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if heading, ok := strings.CutPrefix(lines.Text(), "## "); ok {
			section = heading
		}
		cells := strings.Split(strings.Trim(lines.Text(), "|"), "|")
		if len(cells) < 3 {
			continue
		}
		switch effect := strings.TrimSpace(cells[1]); effect {
		case fieldWorks, fieldWarns, fieldRefused:
			reason, _, _ := strings.Cut(strings.TrimSpace(cells[2]), "; except for `")
			rows[section+"."+strings.TrimSpace(cells[0])] = fieldSupport{effect, reason}
		}
	}
	if len(rows) < 200 {
		t.Fatalf("PODFIELDS.md has %d rows that can be read", len(rows))
	}
	return rows
}

func fieldCases() []fieldCase {
	return slices.Concat(podFieldCases, securityFieldCases, containerFieldCases, volumeFieldCases, probeFieldCases, debugFieldCases)
}

// names returns the rows that a case is for.
func (c fieldCase) names() []string { return strings.Fields(c.fields) }

// title is the case's name in the output of a test.
func (c fieldCase) title() string { return c.names()[0] }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// podName is the name of the pod that a case is about.
func (c fieldCase) podName() string {
	if c.pod != "" {
		return c.pod
	}
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(c.title()), "-"), "-")
}

// TestEveryFieldOfAPodHasACase fails for a row of PODFIELDS.md that no case of the tables is about. It needs nothing of
// the host.
func TestEveryFieldOfAPodHasACase(t *testing.T) {
	rows, tests := podFields(t), testsOfThisPackage(t)
	known := map[string]bool{}
	pods := map[string][]fieldCase{}
	for _, c := range fieldCases() {
		for _, name := range c.names() {
			row, ok := rows[name]
			if !ok {
				t.Errorf("%s has a case, and PODFIELDS.md has no such row", name)
			}
			known[name] = true
			shown := c.run != "" || c.want != "" || c.check != nil
			switch {
			case row.effect == fieldWorks && shown == (c.test != ""):
				t.Errorf("%s works: its case needs one of run, want and check, or a test that shows it", name)
			case row.effect != fieldWorks && c.spec == "":
				t.Errorf("%s is not honoured: its case needs a spec that has it", name)
			case row.effect == fieldRefused && c.check == nil && (shown || c.test != "" || c.pod != ""):
				t.Errorf("%s is refused: its case has a spec, and no pod unless it has a check", name)
			case c.test != "" && !tests[c.test]:
				t.Errorf("%s is shown by %s, and there is no such test", name, c.test)
			}
			if (row.effect != fieldRefused || c.check != nil) && c.test == "" {
				pods[c.podName()] = append(pods[c.podName()], c)
			}
		}
	}
	for name := range rows {
		if !known[name] {
			t.Errorf("%s %s, and no case in fields_*_test.go shows it", name, rows[name].effect)
		}
	}
	for name, cases := range pods {
		spec := podOf(t, name, cases)
		for _, c := range cases {
			if !within(fromYAML(t, c.spec), spec["spec"]) {
				t.Errorf("pod %s: what %s adds does not agree with another case's", name, c.title())
			}
		}
		asJSON, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		asJSON = portWord.ReplaceAll(asJSON, []byte("1"))
		if err := yaml.UnmarshalStrict(asJSON, &corev1.Pod{}); err != nil {
			t.Errorf("pod %s: %v", name, err)
		}
	}
}

// portWord matches a number that only the test knows.
var portWord = regexp.MustCompile(`"[A-Z]+PORT"`)

// testsOfThisPackage finds the names of the test functions beside this file.
func testsOfThisPackage(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no sources are here: ", err)
	}
	declared, tests := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range declared.FindAllStringSubmatch(string(content), -1) {
			tests[found[1]] = true
		}
	}
	return tests
}

// podOf merges what the cases of a pod add to its spec into a manifest.
func podOf(t *testing.T, name string, cases []fieldCase) map[string]any {
	t.Helper()
	spec := []byte(`{"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c"}]}`)
	for _, c := range cases {
		patch, err := json.Marshal(fromYAML(t, c.spec))
		if err == nil {
			spec, err = strategicpatch.StrategicMergePatch(spec, patch, corev1.PodSpec{})
		}
		if err != nil {
			t.Fatalf("%s: merge %s: %v", c.title(), c.spec, err)
		}
	}
	whole := fromYAML(t, string(spec))
	for _, kind := range []string{"initContainers", "containers"} {
		containers, _ := whole[kind].([]any)
		for _, c := range containers {
			c := c.(map[string]any)
			if _, ok := c["image"]; !ok {
				c["image"] = "busybox:1.36"
			}
			if _, ok := c["command"]; !ok && c["args"] == nil {
				c["command"] = []any{"sleep", "1000000"}
			}
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": whole, "metadata": map[string]any{
			"name": name, "labels": map[string]any{"pod": name}, "annotations": map[string]any{"note": "of " + name},
		},
	}
}

func fromYAML(t *testing.T, text string) (tree map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return tree
}

// within reports whether a tree has all that a part of it has. Lists may be in another order.
func within(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		whole, ok := whole.(map[string]any)
		for key, value := range part {
			ok = ok && within(value, whole[key])
		}
		return ok
	case []any:
		whole, ok := whole.([]any)
		for _, value := range part {
			ok = ok && slices.ContainsFunc(whole, func(w any) bool { return within(value, w) })
		}
		return ok
	}
	return part == whole
}

// TestFieldsOfAPod runs each field of a pod's spec once, and looks from inside the container, from the host or through
// the API that it takes effect, that its warning names it, or that it is refused with its reason.
func TestFieldsOfAPod(t *testing.T) {
	w := startFields(t)
	rows := podFields(t)
	pods := map[string][]fieldCase{}
	for _, c := range fieldCases() {
		switch effect := rows[c.title()].effect; {
		case c.test != "":
		case effect == fieldRefused && c.check == nil:
			t.Run(c.title(), func(t *testing.T) { w.refuses(t, c, rows) })
		default:
			pods[c.podName()] = append(pods[c.podName()], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		t.Run(name, func(t *testing.T) {
			cases := slices.DeleteFunc(slices.Clone(pods[name]), func(c fieldCase) bool {
				if c.needs != nil {
					if why := c.needs(w.daemon); why != "" {
						t.Logf("%s is not shown here: needs %s", c.fields, why)
						return true
					}
				}
				return false
			})
			if len(cases) == 0 {
				t.Skip("nothing of it can be shown on this host")
			}
			p := w.create(t, name, cases, rows)
			t.Parallel() // all pods have been created before the first is looked at
			p.show(cases)
		})
	}
}

// refuses checks that a pod with a field is refused with the reason that PODFIELDS.md has.
func (w *fieldWorld) refuses(t *testing.T, c fieldCase, rows map[string]fieldSupport) {
	_, err := w.post(t, podOf(t, c.podName(), []fieldCase{c}), "All")
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		t.Fatalf("%s is accepted, or not well refused: %v", c.fields, err)
	}
	for _, name := range c.names() {
		_, field, _ := strings.Cut(name, ".")
		if !slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
			return strings.HasSuffix(cause.Field, "."+field) && strings.HasSuffix(cause.Message, rows[name].reason)
		}) {
			t.Errorf("%s: no cause is about it and says %q: %v", name, rows[name].reason, err)
		}
	}
}

// create creates a pod that has all that the cases add, and checks the warnings.
func (w *fieldWorld) create(t *testing.T, name string, cases []fieldCase, rows map[string]fieldSupport) *fieldPod {
	warned, err := w.post(t, podOf(t, name, cases), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		for _, name := range c.names() {
			_, field, _ := strings.Cut(name, ".")
			if row := rows[name]; row.effect == fieldWarns && !slices.ContainsFunc(warned, func(text string) bool {
				return strings.Contains(text, "."+field+": ") && strings.HasSuffix(text, row.reason)
			}) {
				t.Errorf("%s: no warning is about it and says %q: %q", name, row.reason, warned)
			}
		}
	}
	d := *w.daemon
	d.t = t
	return &fieldPod{daemon: &d, name: name, world: w, dir: w.dirOf(name)}
}

// post sends a manifest to the API and returns the warnings of the answer.
func (w *fieldWorld) post(t *testing.T, manifest map[string]any, dryRun string) (warnings []string, err error) {
	t.Helper()
	name := manifest["metadata"].(map[string]any)["name"].(string)
	if err := os.MkdirAll(w.dirOf(name), 0o777); err != nil {
		t.Fatal(err)
	}
	body, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	request := w.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").
		SetHeader("Content-Type", "application/yaml").Param("fieldValidation", "Strict").
		Body([]byte(w.words(name).Replace(string(body))))
	if dryRun != "" {
		request.Param("dryRun", dryRun)
	}
	answer := request.Do(t.Context())
	for _, warning := range answer.Warnings() {
		warnings = append(warnings, warning.Text)
	}
	return warnings, answer.Error()
}

// fieldPod is a pod of the tables, in a test of its own.
type fieldPod struct {
	*daemon
	name  string
	world *fieldWorld
	dir   string // HOSTDIR, a directory of the host
}

// show runs the cases of a pod: what they run in its containers, then what they check.
func (p *fieldPod) show(cases []fieldCase) {
	scripts := map[string][]fieldCase{}
	for _, c := range cases {
		switch {
		case c.run != "":
			scripts[c.container()] = append(scripts[c.container()], c)
		case c.want != "":
			p.until("has ended", ended)
		}
	}
	printed := map[string]string{}
	for container, cases := range scripts {
		p.until(container+" runs", func(pod *corev1.Pod) bool { return p.status(pod, container).State.Running != nil })
		// One command for all of them: to start one takes long on an emulated machine.
		var script strings.Builder
		script.WriteString("exec 2>&1\n")
		for _, c := range cases {
			fmt.Fprintf(&script, "echo '#### %s'; (\n%s\n); echo\n", c.fields, c.run)
		}
		for part := range strings.SplitSeq(p.sh(container, p.world.words(p.name).Replace(script.String())), "#### ") {
			fields, text, _ := strings.Cut(part, "\n")
			printed[fields] = text
		}
	}
	for _, c := range cases {
		p.daemon.t.Run(c.title(), func(t *testing.T) {
			d := *p.daemon
			d.t = t
			p := &fieldPod{&d, p.name, p.world, p.dir}
			if c.want != "" {
				got := printed[c.fields]
				if c.run == "" {
					got = p.jobctl("logs", p.name, "-c", c.container())
				}
				if want := p.world.words(p.name).Replace(c.want); strings.TrimSpace(got) != want {
					t.Errorf("%s: got\n%s\nwant\n%s", c.fields, strings.TrimSpace(got), want)
				}
			}
			if c.check != nil {
				c.check(t, p)
			}
			if c.want == "" && c.check == nil { // of no effect
				p.until("runs", runs)
			}
		})
	}
}

// container is the container that a case looks into.
func (c fieldCase) container() string {
	if c.in == "" {
		return "c"
	}
	return c.in
}

// sh runs a script in a container and returns what it prints.
func (p *fieldPod) sh(container, script string) string {
	p.t.Helper()
	return p.jobctl("exec", p.name, "-c", container, "--", "sh", "-c", script)
}

// until waits until the pod is as a case wants it, and returns it.
func (p *fieldPod) until(what string, is func(*corev1.Pod) bool) *corev1.Pod {
	p.t.Helper()
	return p.podUntil(p.name, what, is)
}

// status returns the status of a container, which is empty before there is one.
func (p *fieldPod) status(pod *corev1.Pod, container string) (found corev1.ContainerStatus) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.Name == container {
			return s
		}
	}
	return found
}

// restarted waits until a container has been started again, and returns how it ended the last time.
func (p *fieldPod) restarted(container string) *corev1.ContainerStateTerminated {
	p.t.Helper()
	pod := p.until(container+" is started again", func(pod *corev1.Pod) bool {
		s := p.status(pod, container)
		return s.RestartCount > 0 && s.LastTerminationState.Terminated != nil
	})
	return p.status(pod, container).LastTerminationState.Terminated
}

// says waits for an event about the pod with this reason, and these words in its message.
func (p *fieldPod) says(reason, words string) {
	p.t.Helper()
	p.eventually("an event of pod "+p.name+" says "+words, func() error {
		events, err := p.CoreV1().Events("default").List(p.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.name})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
			all = append(all, e.Reason+": "+e.Message)
		}
		return errText(strings.Join(all, "\n"))
	})
}

// written waits until a file of HOSTDIR has content, and returns it.
func (p *fieldPod) written(name string) (content string) {
	p.t.Helper()
	p.eventually(name+" is written", func() error {
		read, err := os.ReadFile(filepath.Join(p.dir, name))
		if content = string(read); err == nil && content == "" {
			err = errText("it is empty")
		}
		return err
	})
	return content
}

// remove deletes the pod as its spec says, and waits until it is gone.
func (p *fieldPod) remove() {
	p.t.Helper()
	pods := p.CoreV1().Pods("default")
	if err := pods.Delete(p.t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		p.t.Fatal(err)
	}
	p.eventually("pod "+p.name+" is gone", func() error {
		pod, err := pods.Get(p.t.Context(), p.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%w: %+v", err, pod.Status)
	})
}
