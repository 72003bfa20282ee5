package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A manifest is a file of testdata/manifests, or of testdata/field, with what its header expects of it. Each line of the header is a word, a
// colon, and the rest; the lines without a known word are prose.
type manifest struct {
	file string
	// namespace is that of its objects where they name one themselves; the others are applied to one of the file's name.
	namespace string
	own       bool
	// with is the program that applies it: jobctl, or kubectl.
	with string
	// command is apply, with its flags, or what else people do with the file: create.
	command string
	// refuses and warns are what lines of the output contain; every other line reports that an object was created.
	refuses, warns []string
	// outcomes are what becomes of its objects.
	outcomes []expectation
}

type expectation struct{ verb, kind, name, text string }

var (
	headerLine  = regexp.MustCompile(`^# (\w+): (.*)$`)
	outcomeLine = regexp.MustCompile(`^(\w+)/(\S+)(?: "(.*)")?$`)
	appliedLine = regexp.MustCompile(`^[a-z.0-9/-]+/\S+ (created|configured|unchanged|serverside-applied)$`)
)

func readManifest(t *testing.T, file string) manifest {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest{file: file, with: "jobctl", command: "apply"}
	m.namespace = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(line, "#") {
			break
		}
		found := headerLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		switch verb, rest := found[1], found[2]; verb {
		case "source": // of a report in testdata/field
		case "namespace":
			m.namespace, m.own = rest, true
		case "with":
			m.with = rest
		case "command":
			m.command = rest
		case "refuses":
			m.refuses = append(m.refuses, rest)
		case "warns":
			m.warns = append(m.warns, rest)
		case "completes", "fails", "waits", "suspended", "succeeds", "bound", "why", "has":
			what := outcomeLine.FindStringSubmatch(rest)
			if what == nil {
				t.Fatalf("%s: %q names no object", file, line)
			}
			m.outcomes = append(m.outcomes, expectation{verb, what[1], what[2], what[3]})
		default:
			t.Fatalf("%s: what does %q mean?", file, line)
		}
	}
	if len(m.refuses)+len(m.outcomes) == 0 {
		t.Fatalf("%s does not say what becomes of it", file)
	}
	return m
}

// TestManifests applies manifests as people write them, and those of public reports of what went wrong somewhere, all at once,
// and looks at what becomes of each: it runs to its end, or one sentence says what to do.
func TestManifests(t *testing.T) {
	t.Parallel()
	kubectl := needKubectl(t)
	var files []string
	for _, dir := range []string{"manifests", "field"} {
		found, err := filepath.Glob("../../testdata/" + dir + "/*.yaml")
		if err != nil || len(found) == 0 {
			t.Fatal("there are no manifests", err)
		}
		files = append(files, found...)
	}
	hosts := standInRegistry(t, kubectl)
	d := start(t, "--listen", freePort(t), "--registry-hosts", hosts, "--allocatable", "cpu=96,memory=512Gi,nvidia.com/gpu=8")

	run := func(m manifest, args ...string) (string, error) {
		if m.with == "jobctl" {
			return d.try("jobctl", nil, args...)
		}
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(d.root, "kubeconfig"), "HOME="+t.TempDir(), "NO_PROXY=127.0.0.1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	all := make([]manifest, len(files))
	said := make([]func(t *testing.T), len(files))
	var applying errgroup.Group
	applying.SetLimit(4)
	for i, file := range files {
		m := readManifest(t, file)
		all[i] = m
		if !m.own {
			if _, err := d.CoreV1().Namespaces().Create(
				t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}}, metav1.CreateOptions{},
			); err != nil {
				t.Fatal(err)
			}
		}
		applying.Go(func() error {
			args := append(strings.Fields(m.command), "-f", file)
			if !m.own {
				args = append(args, "-n", m.namespace)
			}
			out, err := run(m, args...)
			said[i] = func(t *testing.T) { m.answered(t, out, err) }
			for _, o := range m.outcomes {
				if o.kind == "cronjob" && o.verb != "why" { // now, instead of at the time of its schedule
					if out, err := run(m, "create", "job", o.name, "--from=cronjob/"+o.name, "-n", m.namespace); err != nil {
						said[i] = func(t *testing.T) { t.Fatalf("%v: %s", err, out) }
					}
				}
			}
			return nil
		})
	}
	if err := applying.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		t.Run(m.namespace, func(t *testing.T) {
			said[i](t)
			here := *d
			here.t = t
			for _, o := range m.outcomes {
				here.becomes(m.namespace, o)
			}
		})
	}
}

// answered checks what the program has printed when the manifest was applied.
func (m manifest) answered(t *testing.T, out string, err error) {
	t.Helper()
	if (err != nil) != (len(m.refuses) > 0) {
		t.Errorf("%s %s: %v", m.with, m.command, err)
	}
	missing := slices.Concat(m.refuses, m.warns)
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if i := slices.IndexFunc(missing, func(words string) bool { return strings.Contains(line, words) }); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		} else if line != "" && !appliedLine.MatchString(line) {
			t.Errorf("unexpected: %s", line)
		}
	}
	for _, words := range missing {
		t.Errorf("it does not say %q", words)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// becomes waits until an object has become what is expected of it.
func (d *daemon) becomes(namespace string, o expectation) {
	d.t.Helper()
	ctx, core := d.t.Context(), d.CoreV1()
	d.eventually(fmt.Sprintf("%s %s/%s", o.verb, o.kind, o.name), func() error {
		switch o.verb {
		case "why":
			return d.says(o.text, "why", o.kind+"/"+o.name, "-n", namespace)
		case "has":
			path, value, _ := strings.Cut(o.text, "=")
			return d.says(value, "get", o.kind+"/"+o.name, "-n", namespace, "-o", "jsonpath={"+path+"}")
		}
		switch o.kind {
		case "job", "cronjob":
			if o.verb == "waits" {
				return d.waits(namespace, o.text)
			}
			which := metav1.ListOptions{FieldSelector: "metadata.name=" + o.name}
			if strings.Contains(o.name, "=") { // its name is generated
				which = metav1.ListOptions{LabelSelector: o.name}
			}
			jobs, err := d.BatchV1().Jobs(namespace).List(ctx, which)
			if err != nil || len(jobs.Items) != 1 {
				return fmt.Errorf("%w, %d jobs", err, len(jobs.Items))
			}
			job := &jobs.Items[0]
			pods, err := core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
			if err != nil {
				return err
			}
			want := map[string]batchv1.JobConditionType{
				"completes": batchv1.JobComplete, "fails": batchv1.JobFailed, "suspended": batchv1.JobSuspended,
			}[o.verb]
			if ended := cmp.Or(condition(job, batchv1.JobComplete), condition(job, batchv1.JobFailed)); ended != nil && ended.Type != want {
				for _, p := range pods.Items {
					d.t.Logf("%s: %+v", p.Name, p.Status)
				}
				d.t.Fatalf("%s: %+v\n%s", o.name, ended, d.logsOf(namespace, pods.Items))
			}
			c := condition(job, want)
			if c == nil {
				return fmt.Errorf("its status is %+v", job.Status)
			}
			if logs := d.logsOf(namespace, pods.Items); want == batchv1.JobComplete && !strings.Contains(logs, o.text) {
				d.t.Fatalf("%s printed %q, not %q", o.name, logs, o.text)
			}
			if want == batchv1.JobFailed && !strings.Contains(c.Reason, o.text) {
				d.t.Fatalf("%s: %+v, not %s", o.name, c, o.text)
			}
			return nil
		case "pod":
			p, err := core.Pods(namespace).Get(ctx, o.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.Status.Phase == corev1.PodSucceeded {
				return nil
			}
			return fmt.Errorf("its status is %+v", p.Status)
		case "pvc":
			claim, err := core.PersistentVolumeClaims(namespace).Get(ctx, o.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if claim.Status.Phase != corev1.ClaimBound {
				return errors.New(string(claim.Status.Phase))
			}
			return nil
		}
		d.t.Fatalf("there is no test of a %s", o.kind)
		return nil
	})
}

// says returns nil when a command of jobctl prints some words, wherever it breaks its lines.
func (d *daemon) says(words string, args ...string) error {
	out, err := d.try("jobctl", nil, args...)
	if err == nil && !strings.Contains(out, words) && !strings.Contains(strings.Join(strings.Fields(out), " "), words) {
		err = fmt.Errorf("jobctl %s says %q", args[0], out)
	}
	return err
}

// waits returns nil when the status of a pod of a namespace, or an event, says in the given words what is waited for.
func (d *daemon) waits(namespace, words string) error {
	ctx, core := d.t.Context(), d.CoreV1()
	pods, err := core.Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := core.Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var said []string
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			said = append(said, c.Message)
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if w := s.State.Waiting; w != nil {
				said = append(said, w.Reason+": "+w.Message)
			}
		}
	}
	for _, e := range events.Items {
		said = append(said, e.Message)
	}
	if slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, words) }) {
		return nil
	}
	return fmt.Errorf("it says %q", said)
}

func (d *daemon) logsOf(namespace string, pods []corev1.Pod) string {
	var all strings.Builder
	for _, p := range pods {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			logs, err := d.CoreV1().Pods(namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(d.t.Context())
			if err != nil {
				fmt.Fprintln(&all, err)
			}
			all.Write(logs)
		}
	}
	return all.String()
}
