// Package report writes the end of a Job for machines: a summary in JSON, and the XML of JUnit, which CI systems show as
// tests.
//
// What a follower has seen of a Job comes in, with the last lines of each pod's logs; bytes go out. It touches nothing.
package summary

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/internal/printable"
)

// Report is how a command has ended.
type Report struct {
	// Job is its last known state; nil if there was none.
	Job  *batchv1.Job
	Pods []*progress.Pod
	// Values are those of the Job's indexes; nil if it has none.
	Values *batch.IndexValues
	// ExitCode is that of the command.
	ExitCode int32
	// Interrupted says that a signal has ended the command, and Error why the Job could not be followed to its end.
	Interrupted bool
	Error       string
	// Logs has the last lines of each pod; nil if they were not kept.
	Logs *Tails
}

// result returns how it ended, in one word.
func (r *Report) result() string {
	switch {
	case r.Error != "":
		return "error"
	case r.Interrupted:
		return "interrupted"
	case r.Job == nil:
		return "error"
	}
	state, _, _ := progress.JobState(r.Job)
	return state
}

// Summary is the JSON of --summary-json. Times are RFC 3339, durations in seconds.
type Summary struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Result is complete, failed, interrupted or error.
	Result   string `json:"result"`
	ExitCode int32  `json:"exitCode"`
	// Reason and Message are those of the Job's condition; Error says why it could not be followed to its end.
	Reason           string           `json:"reason,omitempty"`
	Message          string           `json:"message,omitempty"`
	Error            string           `json:"error,omitempty"`
	Started          *time.Time       `json:"started,omitempty"`
	Finished         *time.Time       `json:"finished,omitempty"`
	Seconds          float64          `json:"seconds"`
	Counts           *progress.Counts `json:"counts,omitempty"`
	CompletedIndexes string           `json:"completedIndexes,omitempty"`
	FailedIndexes    string           `json:"failedIndexes,omitempty"`
	Pods             []Pod            `json:"pods"`
}

// Pod is a pod of a Summary.
type Pod struct {
	Name  string `json:"name"`
	Index *int   `json:"index,omitempty"`
	// Values are those of the index (jobd.dev/index-env, jobd.dev/array).
	Values   []batch.IndexValue `json:"values,omitempty"`
	State    string             `json:"state"`
	ExitCode *int32             `json:"exitCode,omitempty"`
	Reason   string             `json:"reason,omitempty"`
	Message  string             `json:"message,omitempty"`
	Started  *time.Time         `json:"started,omitempty"`
	Finished *time.Time         `json:"finished,omitempty"`
	Seconds  float64            `json:"seconds"`
	Restarts int32              `json:"restarts,omitempty"`
}

// JSON returns the summary.
func (r *Report) JSON(now time.Time) ([]byte, error) {
	s := Summary{Result: r.result(), ExitCode: r.ExitCode, Error: r.Error, Pods: []Pod{}}
	if j := r.Job; j != nil {
		s.Namespace, s.Name, s.UID = j.Namespace, j.Name, string(j.UID)
		_, s.Reason, s.Message = progress.JobState(j)
		if j.Status.StartTime != nil {
			s.Started = &j.Status.StartTime.Time
			s.Seconds = seconds(j, now)
		}
		if end := batch.End(&j.Status); end != nil {
			s.Finished = &end.LastTransitionTime.Time
		}
		counts := progress.CountsOf(j)
		s.Counts = &counts
		s.CompletedIndexes = j.Status.CompletedIndexes
		if j.Status.FailedIndexes != nil {
			s.FailedIndexes = *j.Status.FailedIndexes
		}
	}
	for _, p := range r.Pods {
		out := Pod{
			Name: p.Name, Index: p.Index, Values: p.Values, State: string(p.State), ExitCode: p.ExitCode, Reason: p.Reason, Message: p.Message,
			Seconds: p.Duration(now).Seconds(), Restarts: p.Restarts,
		}
		if !p.Started.IsZero() {
			out.Started = &p.Started
		}
		if !p.Finished.IsZero() {
			out.Finished = &p.Finished
		}
		s.Pods = append(s.Pods, out)
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	return append(raw, '\n'), err
}

func seconds(j *batchv1.Job, now time.Time) float64 {
	if end := batch.End(&j.Status); end != nil {
		now = end.LastTransitionTime.Time
	}
	return max(0, now.Sub(j.Status.StartTime.Time).Seconds())
}

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suite   suite    `xml:"testsuite"`
}

type suite struct {
	Name     string  `xml:"name,attr"`
	Tests    int     `xml:"tests,attr"`
	Failures int     `xml:"failures,attr"`
	Errors   int     `xml:"errors,attr"`
	Skipped  int     `xml:"skipped,attr"`
	Time     string  `xml:"time,attr"`
	Begun    string  `xml:"timestamp,attr,omitempty"`
	Cases    []*test `xml:"testcase"`
}

type test struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Time    string   `xml:"time,attr"`
	Failure *problem `xml:"failure"`
	Error   *problem `xml:"error"`
	Skipped *problem `xml:"skipped"`
	Output  string   `xml:"system-out,omitempty"`
}

type problem struct {
	Message string `xml:"message,attr,omitempty"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit returns the XML of JUnit: a suite for the Job with a test for each index, or for each pod of a Job without indexes.
// An index has the result of its last pod. A pod whose failure was made good by another is skipped, and so is one that did
// not end, and an index that had none, since only what made the Job fail shall be seen as a failure.
func (r *Report) JUnit(now time.Time) ([]byte, error) {
	out := suites{Suite: suite{Name: "job"}}
	s := &out.Suite
	if j := r.Job; j != nil {
		s.Name = j.Name
		if j.Status.StartTime != nil {
			s.Begun = j.Status.StartTime.UTC().Format("2006-01-02T15:04:05")
			s.Time = inSeconds(seconds(j, now))
		}
	}
	complete := r.result() == "complete"
	for _, o := range r.outcomes() {
		c := &test{Name: o.name, Class: s.Name, Time: inSeconds(0)}
		var tail []string
		if o.pod != nil {
			c.Time = inSeconds(o.pod.Duration(now).Seconds())
			if r.Logs != nil {
				tail = r.Logs.Of(o.pod.Name)
				c.Output = printable.XML(strings.Join(tail, "\n"))
			}
		}
		why := problem{Message: printable.XML(o.reason), Type: printable.XML(o.kind)}
		switch {
		case o.state == progress.Succeeded:
		case o.state == progress.Failed && !complete:
			// GitLab shows the text of a failure, and not what is beside it.
			why.Text = printable.XML(strings.Join(tail[max(0, len(tail)-failureLines):], "\n"))
			c.Failure = &why
		default:
			c.Skipped = &why
		}
		s.Cases = append(s.Cases, c)
	}
	// What no pod shows: a deadline, an image that cannot be had, a Job that was refused.
	failures := slices.ContainsFunc(s.Cases, func(c *test) bool { return c.Failure != nil })
	switch {
	case r.Error != "" || r.Job == nil:
		s.Cases = append(s.Cases, &test{Name: "job", Class: s.Name, Time: s.Time, Error: &problem{Message: printable.XML(r.Error)}})
	case r.Interrupted:
		s.Cases = append(s.Cases, &test{Name: "job", Class: s.Name, Time: s.Time, Error: &problem{Message: "interrupted"}})
	case !complete && !failures:
		_, reason, message := progress.JobState(r.Job)
		s.Cases = append(s.Cases, &test{
			Name: "job", Class: s.Name, Time: s.Time, Failure: &problem{Message: printable.XML(message), Type: printable.XML(reason)},
		})
	}
	for _, c := range s.Cases {
		s.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	raw, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(xml.Header), raw, []byte("\n")), nil
}

// failureLines is how many of the last lines of a pod's log are in the text of its failure.
const failureLines = 20

// outcome is what becomes a test.
type outcome struct {
	name         string
	index        *int          // nil of a pod without one
	pod          *progress.Pod // nil if there was none, or none is known
	state        progress.PodState
	reason, kind string
}

// outcomes returns what has become of each index, in order, and of each pod that has none.
func (r *Report) outcomes() []outcome {
	var out []outcome
	last := map[int]*progress.Pod{} // by index
	for _, p := range r.Pods {
		if p.Index == nil {
			out = append(out, outcome{name: p.Name, pod: p, state: p.State, reason: reason(p), kind: p.Reason})
		} else if known := last[*p.Index]; known == nil || known.State != progress.Succeeded && !p.Created.Before(known.Created) {
			last[*p.Index] = p
		}
	}
	told := r.told()
	for _, i := range slices.Sorted(maps.Keys(told)) {
		o := outcome{name: r.indexName(i), index: &i, pod: last[i], state: told[i], reason: "it did not run"}
		if p := o.pod; p != nil {
			o.reason, o.kind = reason(p), p.Reason
			if o.state == "" {
				o.state = p.State
			}
			if o.state == progress.Failed && p.State == progress.Succeeded {
				_, o.kind, _ = progress.JobState(r.Job)
				o.reason = "it ended without an error, but too late for the Job to count it: " + o.kind
			}
		} else if o.state == progress.Failed {
			o.reason = "failed"
		}
		out = append(out, o)
	}
	if j := r.Job; j != nil && ptr.Deref(j.Spec.Completions, 0) > indexes.Listed {
		out = append(out, outcome{
			name:   fmt.Sprintf("indexes %d to %d", indexes.Listed, *j.Spec.Completions-1),
			reason: "they are too many to be told of one by one, but for those with a pod",
		})
	}
	return out
}

// indexName returns what the test of an index is called: with its values, which are the same in each run.
func (r *Report) indexName(index int) string {
	name := fmt.Sprintf("index %d", index)
	if words := r.Values.Words(index); words != "" {
		name += " (" + printable.XML(words) + ")"
	}
	return name
}

// told returns all indexes, with what the Job says of them; "" where only the pod can say it.
func (r *Report) told() map[int]progress.PodState {
	told := map[int]progress.PodState{}
	for _, p := range r.Pods {
		if p.Index != nil {
			told[*p.Index] = ""
		}
	}
	j := r.Job
	if j == nil || ptr.Deref(j.Spec.CompletionMode, "") != batchv1.IndexedCompletion || j.Spec.Completions == nil {
		return told
	}
	n := *j.Spec.Completions
	for i := range min(n, indexes.Listed) {
		told[int(i)] = ""
	}
	if batch.End(&j.Status) != nil { // before it has ended, it may not have counted a pod that has
		for _, p := range r.Pods {
			if p.Index != nil && p.State == progress.Succeeded {
				told[*p.Index] = progress.Failed
			}
		}
	}
	for state, list := range map[progress.PodState]string{
		progress.Succeeded: j.Status.CompletedIndexes, progress.Failed: ptr.Deref(j.Status.FailedIndexes, ""),
	} {
		in, _ := indexes.Parse(list, n)
		for i := range told {
			if indexes.Has(in, int32(i)) {
				told[i] = state
			}
		}
	}
	return told
}

func reason(p *progress.Pod) string {
	out := string(p.State)
	if p.ExitCode != nil {
		out = fmt.Sprintf("exit code %d", *p.ExitCode)
	}
	if p.Reason != "" && p.Reason != "Error" {
		out += ": " + p.Reason
	}
	if p.Message != "" {
		out += ": " + p.Message
	}
	return out
}

func inSeconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// Tails keeps the last lines of each pod's logs. It may be used by several goroutines at a time.
type Tails struct {
	mu   sync.Mutex
	pods map[string][]string
	part map[string]string // lines that have not ended
}

// The most that is kept of each pod.
const (
	tailLines = 100
	tailLine  = 4 << 10 // bytes
)

// NewTails returns a Tails that has nothing.
func NewTails() *Tails { return &Tails{pods: map[string][]string{}, part: map[string]string{}} }

// Add takes in a piece of a line.
func (t *Tails) Add(c progress.Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	part := t.part[c.Pod]
	if c.Begins {
		part = ""
	}
	part += string(c.Text[:min(len(c.Text), max(0, tailLine-len(part)))])
	if !c.Ends {
		t.part[c.Pod] = part
		return
	}
	delete(t.part, c.Pod)
	lines := append(t.pods[c.Pod], printable.ColoredLine([]byte(part)))
	t.pods[c.Pod] = lines[max(0, len(lines)-tailLines):]
}

// Of returns the last lines of a pod.
func (t *Tails) Of(pod string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Clone(t.pods[pod])
	if part := t.part[pod]; part != "" {
		lines = append(lines, printable.ColoredLine([]byte(part)))
	}
	return lines
}
