package jobset

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchapi "github.com/jobd/jobd/api/batch"
)

// TestCases plays the files of testdata/cases: what happens to a JobSet and its Jobs, and what is decided for that. With -rewrite it
// writes down what is decided now. CONTRIBUTING.md says how a case is written; one begins with "jobset", whose name is s.
func TestCases(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		var w *world
		var said []string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			said = nil
			switch d.Cmd {
			case "jobset":
				w = newWorld(t, d.Input, func(text string) { said = append(said, text) })
			case "then":
				w.t = t
				for line := range strings.Lines(d.Input) {
					if line = strings.TrimSpace(line); line != "" {
						w.line(line)
					}
				}
				w.settle()
			default:
				d.Fatalf(t, "%s is neither jobset nor then", d.Cmd)
			}
			if len(said) == 0 {
				return "nothing\n"
			}
			return strings.Join(said, "\n") + "\n"
		})
	})
}

// sentences are what may happen.
var sentences = []struct {
	form *regexp.Regexp
	do   func(w *world, words []string)
}{
	{form(`(\S+) (?:is|are) ready`), func(w *world, s []string) { w.each(s[0], w.ready) }},
	{form(`(\S+) (?:starts|start)`), func(w *world, s []string) {
		w.each(s[0], func(j *batchv1.Job) { j.Status.Active = *j.Spec.Parallelism })
	}},
	{form(`(\S+) (?:succeeds|succeed)`), func(w *world, s []string) {
		w.each(s[0], func(j *batchv1.Job) { w.end(j, batchv1.JobComplete, "CompletionsReached", "") })
	}},
	{form(`(\S+) (?:fails|fail)`), func(w *world, s []string) {
		w.each(s[0], func(j *batchv1.Job) {
			w.end(j, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		})
	}},
	{form(`(\S+) (?:fails|fail) with (\S+): (.*)`), func(w *world, s []string) {
		w.each(s[0], func(j *batchv1.Job) { w.end(j, batchv1.JobFailed, s[1], s[2]) })
	}},
	{form(`(\S+) (?:is|are) gone`), func(w *world, s []string) {
		for _, name := range strings.Split(s[0], ",") {
			w.leave(name)
		}
	}},
	{form(`all that is deleted is gone`), func(w *world, _ []string) {
		for name, j := range w.jobs {
			if j.DeletionTimestamp != nil {
				w.leave(name)
			}
		}
	}},
	{form(`suspend`), func(w *world, _ []string) { w.js.Spec.Suspend = ptr.To(true) }},
	{form(`resume`), func(w *world, _ []string) { w.js.Spec.Suspend = ptr.To(false) }},
	{form(`pause`), func(w *world, _ []string) {
		metav1.SetMetaDataAnnotation(&w.js.ObjectMeta, batchapi.PausedAnnotation, "2026-01-01T00:00:00Z")
	}},
	{form(`continue`), func(w *world, _ []string) { delete(w.js.Annotations, batchapi.PausedAnnotation) }},
	{form(`node selector (\S+)`), func(w *world, s []string) {
		for i := range w.js.Spec.ReplicatedJobs {
			w.js.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.NodeSelector = map[string]string{"where": s[0]}
		}
	}},
	{form(`pods of (\S+) go to (\S+)`), func(w *world, s []string) {
		if got := w.jobs[s[0]].Spec.Template.Spec.NodeSelector["where"]; got != s[1] {
			w.t.Errorf("pods of %s go to %q", s[0], got)
		}
	}},
	{form(`after (\S+)`), func(w *world, s []string) {
		wait, err := time.ParseDuration(s[0])
		if err != nil {
			w.t.Fatal(err)
		}
		w.now = w.now.Add(wait)
	}},
	{form(`the daemon starts again`), func(w *world, _ []string) { w.restart() }},
	{form(`a decision is about (\d) Jobs?`), func(w *world, s []string) { w.batch = int(s[0][0] - '0') }},
}

func form(pattern string) *regexp.Regexp { return regexp.MustCompile("^" + pattern + "$") }

func (w *world) line(line string) {
	i := slices.IndexFunc(sentences, func(s struct {
		form *regexp.Regexp
		do   func(w *world, words []string)
	}) bool {
		return s.form.MatchString(line)
	})
	if i < 0 {
		w.t.Fatalf("nobody knows what this means: %s", line)
	}
	sentences[i].do(w, sentences[i].form.FindStringSubmatch(line)[1:])
}

// each changes Jobs, whose names have commas between them.
func (w *world) each(names string, change func(*batchv1.Job)) {
	for _, name := range strings.Split(names, ",") {
		w.change(name, change)
	}
}
