package job

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/batch"
)

// TestCases plays the files of testdata/cases: what happens to a Job and its pods, and what is decided for that. With
// -rewrite it writes down what is decided now. CONTRIBUTING.md says how a case is written.
func TestCases(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		var p *play
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "job":
				p = newPlay(t, d)
			case "then":
				p.t = t
				for line := range strings.Lines(d.Input) {
					if line = strings.TrimSpace(line); line != "" {
						p.line(line)
					}
				}
			default:
				d.Fatalf(t, "%s is neither job nor then", d.Cmd)
			}
			return p.end()
		})
	})
}

// play is a case that is being played.
type play struct {
	*world
	t       *testing.T
	start   time.Time
	told    time.Time // the time of what was said last
	said    []string
	status  string
	letters int
	pending bool // its pods do not run before a case says so
}

// newPlay makes the Job that a case begins with. Its spec is the input, with the defaults of the API; its pods never restart
// their one container, c, unless that says otherwise. Pods run as soon as they are created, but those of "job pending". With
// "job pods=(x:Running)" these are there already, and nobody controls them.
func newPlay(t *testing.T, d *datadriven.TestData) *play {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "11111111-0000-4000-8000-000000000000"}}
	p := &play{t: t, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	p.read(d.Input, &job.Spec)
	template := &job.Spec.Template
	if template.Spec.RestartPolicy == "" {
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if len(template.Spec.Containers) == 0 {
		template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox"}}
	}
	template.Labels = map[string]string{"job": "j"}
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": "j"}}
	job.Spec.ManualSelector = ptr.To(true)
	batch.SetJobDefaults(job)
	for _, arg := range d.CmdArgs {
		if arg.Key == "label" {
			key, value, _ := strings.Cut(arg.Vals[0], ":")
			job.Labels = map[string]string{key: value}
		}
	}
	p.world, p.told = newWorld(p.start, job), p.start
	p.name = func(NewPod) string {
		p.letters++
		return string(rune('a' + p.letters - 1))
	}
	p.pending = d.HasArg("pending")
	p.after = p.tell
	for _, arg := range d.CmdArgs {
		if arg.Key == "pods" {
			for _, pod := range arg.Vals {
				name, phase, _ := strings.Cut(pod, ":")
				p.orphan(name, corev1.PodPhase(phase), nil)
			}
		}
	}
	return p
}

func (p *play) read(manifest string, into any) {
	p.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
		p.t.Fatalf("%s: %v", manifest, err)
	}
}

// sentences are what may happen.
var sentences = []struct {
	form *regexp.Regexp
	do   func(p *play, words []string)
}{
	// Of the time: "after" decides whenever a decision has asked for that, "later" only at the end.
	{form(`after (\S+)`), func(p *play, w []string) { p.decide(); p.pass(p.duration(w[0])) }},
	{form(`later (\S+)`), func(p *play, w []string) { p.now = p.now.Add(p.duration(w[0])) }},
	// Of the Job.
	{form(`edit (.*)`), func(p *play, w []string) { p.edit(func(j *batchv1.Job) { p.read(w[0], &j.Spec) }) }},
	{form(`the Job is deleted`), func(p *play, _ []string) {
		p.edit(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: p.now} })
	}},
	{form(`(\d+) creations? will be refused`), func(p *play, w []string) { p.refuse = p.number(w[0]) }},
	{form(`jobd restarts`), func(p *play, _ []string) { p.record = p.rebuilt() }},
	// Of pods, by their letters.
	{form(`(.+) starts?`), func(p *play, w []string) { p.each(w[0], p.world.start) }},
	{form(`(.+) succeeds?`), func(p *play, w []string) { p.each(w[0], func(name string) { p.world.end(name, 0) }) }},
	{form(`(.+) fails?(?: with (\d+))?`), func(p *play, w []string) {
		code := 1
		if w[1] != "" {
			code = p.number(w[1])
		}
		p.each(w[0], func(name string) { p.world.end(name, int32(code)) })
	}},
	{form(`(.+) (?:is|are) deleted`), func(p *play, w []string) { p.each(w[0], p.deletePod) }},
	{form(`(.+) (?:is|are) gone`), func(p *play, w []string) { p.each(w[0], p.drop) }},
	{form(`(.+) (?:has|have) the condition (\w+)`), func(p *play, w []string) {
		p.each(w[0], func(name string) {
			p.set(name, func(pod *corev1.Pod) {
				c := corev1.PodCondition{Type: corev1.PodConditionType(w[1]), Status: corev1.ConditionTrue}
				pod.Status.Conditions = append(pod.Status.Conditions, c)
			})
		})
	}},
	{form(`(.+) (?:is|are) not ready`), func(p *play, w []string) {
		p.each(w[0], func(name string) { p.set(name, func(pod *corev1.Pod) { pod.Status.Conditions = nil }) })
	}},
	{form(`(.+) (?:has|have) restarted (\d+) times`), func(p *play, w []string) {
		p.each(w[0], func(name string) {
			p.set(name, func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: int32(p.number(w[1]))}}
			})
		})
	}},
	{form(`(.+) has the index (\d+)`), func(p *play, w []string) {
		p.each(w[0], func(name string) {
			p.set(name, func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: w[1]}
			})
		})
	}},
	{form(`(.+) (?:has|have) lost (?:its|their) finalizers?`), func(p *play, w []string) {
		p.each(w[0], func(name string) { p.set(name, func(pod *corev1.Pod) { Untrack(pod) }) })
	}},
	{form(`(.+) (?:is|are) labeled (\w+)=(\w+)`), func(p *play, w []string) {
		p.each(w[0], func(name string) {
			p.set(name, func(pod *corev1.Pod) { pod.Labels = map[string]string{w[1]: w[2]} })
		})
	}},
}

func form(s string) *regexp.Regexp { return regexp.MustCompile("^" + s + "$") }

func (p *play) line(line string) {
	for _, s := range sentences {
		if words := s.form.FindStringSubmatch(line); words != nil {
			s.do(p, words[1:])
			return
		}
	}
	p.t.Fatalf("what is %q?", line)
}

func (p *play) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *play) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// each does something to the pods of "a" or "a and b".
func (p *play) each(letters string, do func(name string)) {
	for letter := range strings.SplitSeq(letters, " and ") {
		at := slices.IndexFunc(p.created, func(c timed[*corev1.Pod]) bool { return strings.HasSuffix(c.v.Name, "-"+letter) })
		name := letter
		if at >= 0 {
			name = p.created[at].v.Name
		}
		if p.pods[name] == nil {
			p.t.Fatalf("there is no pod %s", letter)
		}
		do(name)
	}
}

// decide carries out what is decided now, and lets the new pods run.
func (p *play) decide() {
	if p.settle(); !p.pending {
		p.startAll()
	}
}

// end decides for the last time in a block, and returns what was said in it.
func (p *play) end() string {
	p.decide()
	if !p.wake.IsZero() {
		p.say("look again in %s", p.wake.Sub(p.now))
	}
	if len(p.said) == 0 {
		p.say("nothing")
	}
	said := strings.Join(p.said, "\n") + "\n"
	p.said = nil
	return said
}

func (p *play) say(format string, args ...any) {
	if !p.now.Equal(p.told) {
		p.told = p.now
		p.said = append(p.said, fmt.Sprintf("at %s:", p.now.Sub(p.start)))
	}
	p.said = append(p.said, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// letter returns what a case calls a pod.
func letter(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// tell says what a decision was, after it has been carried out.
func (p *play) tell(d Decision) {
	for _, ref := range d.Adopt {
		p.say("adopt %s", letter(ref.Name))
	}
	for _, ref := range d.Orphan {
		p.say("let go of %s", letter(ref.Name))
	}
	if p.refused {
		p.say("a creation is refused")
		return
	}
	for i, n := range d.Create {
		what := "create " + letter(p.created[len(p.created)-len(d.Create)+i].v.Name)
		if n.Index >= 0 {
			what += fmt.Sprintf(" for index %d", n.Index)
		}
		if n.PerIndex && n.Failures > 0 {
			what += fmt.Sprintf(", which has failed %d times", n.Failures)
		}
		if n.IgnoredFailures > 0 {
			what += fmt.Sprintf(" (and %d that are ignored)", n.IgnoredFailures)
		}
		p.say("%s", what)
	}
	for _, ref := range d.Delete {
		p.say("delete %s", letter(ref.Name))
	}
	for _, r := range d.Release {
		said := "do not count " + letter(r.Name)
		if r.Outcome != neither {
			said = fmt.Sprintf("count %s as %s", letter(r.Name), map[Outcome]string{Succeeded: "succeeded", Failed: "failed"}[r.Outcome])
		}
		if r.Action != "" {
			said += fmt.Sprintf(", by a rule %s", r.Action)
		}
		p.say("%s", said)
	}
	for i := range d.Status {
		p.tellStatus(&d.Status[i], map[bool]string{true: "then "}[i > 0])
	}
	for _, e := range d.Events {
		if e.Reason != "SuccessfulDelete" {
			p.say("event %s %s: %s", e.Type, e.Reason, e.Message)
		}
	}
}

// tellStatus says what a revision of the status has changed, but for how many pods are ready. "then" is the second revision.
func (p *play) tellStatus(s *batchv1.JobStatus, revision string) {
	counts := []string{fmt.Sprintf("active %d", s.Active)}
	for _, c := range []struct {
		name string
		n    int32
	}{{"terminating", ptr.Deref(s.Terminating, 0)}, {"succeeded", s.Succeeded}, {"failed", s.Failed}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", c.name, c.n))
		}
	}
	if s.CompletedIndexes != "" {
		counts = append(counts, "completed indexes "+s.CompletedIndexes)
	}
	if s.FailedIndexes != nil && *s.FailedIndexes != "" {
		counts = append(counts, "failed indexes "+*s.FailedIndexes)
	}
	lines := []string{strings.Join(counts, ", ")}
	switch {
	case s.StartTime == nil:
		lines = append(lines, "not started")
	default:
		lines = append(lines, "started at "+s.StartTime.Sub(p.start).String())
	}
	if s.CompletionTime != nil {
		lines = append(lines, "completed at "+s.CompletionTime.Sub(p.start).String())
	}
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, line := range lines {
		if !slices.Contains(strings.Split(p.status, "\n"), line) {
			p.say("%sstatus %s", revision, line)
		}
	}
	p.status = strings.Join(lines, "\n")
}
