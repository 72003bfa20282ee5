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
