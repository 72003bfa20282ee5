package progress

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// A line that never ends is shown whole, and what another container prints begins on a new line.
func TestLinesWithoutAnEnd(t *testing.T) {
	part := func(pod, text string, begins, ends bool) Chunk {
		return Chunk{Source: Source{Pod: pod, Container: "c"}, Text: []byte(text), Begins: begins, Ends: ends}
	}
	chunks := []Chunk{
		part("a", "one ", true, false), part("a", "two", false, true), part("a", "open", true, false),
		part("b", "other", true, true), part("b", "last", true, false),
	}
	var plain, objects bytes.Buffer
	for _, d := range []Display{NewPlain(nil, &plain, io.Discard, false), NewJSON(&objects)} {
		for _, c := range chunks {
			d.Log(c)
		}
		d.Event(Event{Type: "end"})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if want := "one two\nopen\nother\nlast"; plain.String() != want {
		t.Errorf("got %q, want %q", plain.String(), want)
	}
	for _, want := range []string{`"line":"one two"`, `"line":"open"`, `"line":"other"`, `"line":"last"`} {
		if strings.Count(objects.String(), want) != 1 {
			t.Errorf("not once %s in\n%s", want, objects.String())
		}
	}
}

// Why an image cannot be pulled is shown once, not for as long as pulling it is tried again.
func TestFailedPullsAreShownOnce(t *testing.T) {
	var shown bytes.Buffer
	d := NewPlain(nil, io.Discard, &shown, false)
	event := func(reason, message string) {
		d.Event(Event{Type: "pod", Name: "a", State: "starting", Reason: reason, Message: message})
	}
	for _, cause := range []string{"no such host", "no such host", "not authorized", "no such host"} {
		event("ErrImagePull", cause)
		event("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: `+cause)
	}
	event("", "")
	event("ErrImagePull", "no such host")
	want := "pod a: starting: ErrImagePull: no such host\npod a: starting: ErrImagePull: not authorized\n" +
		"pod a: starting: ErrImagePull: no such host\npod a: starting\npod a: starting: ErrImagePull: no such host\n"
	if shown.String() != want {
		t.Errorf("got\n%swant\n%s", shown.String(), want)
	}
}

// The end says what has failed and how, and what to type next; of a single failure its first line has said it.
func TestTheEndOfAJob(t *testing.T) {
	three := Counts{Succeeded: 5, Failed: 9, Completions: 8}
	for rule, c := range map[string]struct {
		end  Event
		want string
	}{
		"one that is complete": {Event{Message: "job x: complete", Counts: &Counts{Succeeded: 1}}, "job x: complete"},
		"one failure": {
			Event{
				Message: "job x: failed", Counts: &three, Failures: []Failure{{Cause: "exit code 3", Count: 1, Indexes: "2"}},
				Next: []string{"jobctl why jobs/x"},
			},
			"job x: failed\n  $ jobctl why jobs/x",
		},
		"several": {
			Event{Message: "job x: failed", Counts: &three, Failures: []Failure{
				{Cause: "exit code 3", Count: 2, Indexes: "2,5"}, {Cause: "OOMKilled", Count: 1, Indexes: "7"},
			}, Next: []string{"jobctl why jobs/x", "jobctl retry jobs/x"}},
			"job x: failed\n  5 of 8 succeeded, 3 failed:\n    exit code 3: index 2,5\n    OOMKilled: index 7\n  $ jobctl why jobs/x\n  $ jobctl retry jobs/x",
		},
		"pods": {
			Event{Message: "job x: failed", Counts: &three, Failures: []Failure{{Cause: "exit code 1", Count: 5, Pods: []string{"a", "b", "c"}}}},
			"job x: failed\n  5 of 8 succeeded, 5 failed:\n    exit code 1: pod a, b, c and 2 more",
		},
	} {
		c.end.Type = "end"
		if got := Sentence(c.end); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", rule, got, c.want)
		}
	}
}

func TestSentencesArePrintable(t *testing.T) {
	got := Sentence(Event{Type: "pod", Name: "x", State: "pending", Reason: "ErrImagePull", Message: "says \x1b[2J\u202e"})
	if want := "pod x: pending: ErrImagePull: says \uFFFD[2J\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
