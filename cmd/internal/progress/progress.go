// Package progress shows how a Job gets on: as a live block on a terminal, as plain lines, as lines of JSON, or not at
// all.
//
// Jobs, pods and the daemon's image transfers come in, as the API shows them, with what containers print. A Model keeps
// what is known and returns what is new as Events; a Display writes it. Only displays touch anything: the writers that
// they are given and, on a terminal, its mode.
package progress

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jobd/jobd/api/batch"
)

// The forms in which progress can be shown (--progress).
const (
	// Auto is TTY on a terminal and Plain elsewhere.
	Auto = "auto"
	// Plain is a line for each event, on the standard error.
	Plain = "plain"
	// TTY is a block that is redrawn below the logs.
	TTY = "tty"
	// Quiet shows nothing but logs and errors.
	Quiet = "quiet"
	// JSON is an object for each event and each line of a log, on the standard output.
	JSON = "json"
)

// modes returns the forms, in the order of the help.
func modes() []string { return []string{Auto, Plain, TTY, Quiet, JSON} }

// CheckMode returns an error unless the form exists.
func CheckMode(mode string) error {
	if slices.Contains(modes(), mode) {
		return nil
	}
	return fmt.Errorf("--progress: %q is not known: one of auto, plain, tty, quiet, json", mode)
}

// Event is something that has happened. The zero fields are left out of its JSON.
type Event struct {
	Time time.Time `json:"time"`
	// Type is what it is about: job, pod, jobset, image, log, notice or end.
	Type string `json:"type"`
	// Namespace and Name are those of the Job or pod; Name is the reference of an image.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// State is the new state: of a Job created at first, and then the words of batch.State in small letters; of a pod see
	// PodState; of an image pulling, importing, done or failed.
	State string `json:"state,omitempty"`
	// Reason and Message say why, as the API has it.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Index is the completion index of the pod, and Values are those of the index (jobd.dev/index-env, jobd.dev/array).
	Index  *int               `json:"index,omitempty"`
	Values []batch.IndexValue `json:"values,omitempty"`
	// Container and Stream say where a line of a log comes from, and Line is its text.
	// Attempt, Try and Restart are those of a Source.
	Container string `json:"container,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Try       int    `json:"try,omitempty"`
	Restart   int    `json:"restart,omitempty"`
	Stream    string `json:"stream,omitempty"`
	Line      string `json:"line,omitempty"`
	// ExitCode is that of the pod that has failed or, at the end, of the command.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Seconds is for how long the containers of the pod ran, or how long the Job took, with what it waited for images.
	Seconds float64 `json:"seconds,omitempty"`
	// Counts are those of the Job.
	Counts *Counts `json:"counts,omitempty"`
	// Failures are at the end what has failed, by cause, and Next the commands that say more or run it again.
	Failures []Failure `json:"failures,omitempty"`
	Next     []string  `json:"next,omitempty"`
	// Bytes, TotalBytes, Layers and TotalLayers say how far the transfer of an image is.
	Bytes       int64 `json:"bytes,omitempty"`
	TotalBytes  int64 `json:"totalBytes,omitempty"`
	Layers      int   `json:"layers,omitempty"`
	TotalLayers int   `json:"totalLayers,omitempty"`
}

// Failure is how some of the indexes of a Job, or of the pods of one without, have failed.
type Failure struct {
	// Cause is a reason of the API, such as OOMKilled, or "exit code 3".
	Cause string `json:"cause"`
	Count int    `json:"count"`
	// Indexes are listed as in a Job's status. Pods are the first few of a Job without indexes.
	Indexes string   `json:"indexes,omitempty"`
	Pods    []string `json:"pods,omitempty"`
	// Values are those of the first few indexes, as they are shown (batch.IndexWords), if they have any.
	Values []string `json:"values,omitempty"`
}

// Counts are a Job's pods by their state, as its status has them.
type Counts struct {
	Active    int32 `json:"active"`
	Ready     int32 `json:"ready"`
	Succeeded int32 `json:"succeeded"`
	Failed    int32 `json:"failed"`
	// Completions is how many pods have to succeed; 0 if the Job does not say.
	Completions int32 `json:"completions,omitempty"`
}

// Source says where a line of a log comes from.
type Source struct {
	Pod       string
	Container string
	Index     *int
	Values    string // of the index, as batch.IndexWords has them
	// Attempt is that of the Job. Try says which of the pods of its index within that attempt it is; 0 for the first, or if
	// that is not known. Restart is how often the container was started again in its pod.
	Attempt, Try, Restart int
	Stream                string // stdout or stderr; empty if the server does not say
	// Label is what stands before the line instead of all that; empty for that.
	Label string
}

// Chunk is a piece of a line of a log. The pieces of a line follow each other.
type Chunk struct {
	Source
	Time time.Time // when the line was written; zero if that is not known
	Text []byte    // without the end of the line; valid only during the call
	// Begins and Ends say whether it is the first and the last piece of its line.
	Begins, Ends bool
}

// Display shows what happens. Its methods may be called by several goroutines at a time.
type Display interface {
	// Event shows that something has happened.
	Event(Event)
	// Log shows a piece of a line of a log, at the latest when Flush is called.
	Log(Chunk)
	// Flush shows what Log has held back: a write for each line would be slower than containers are.
	Flush()
	// Update says that a Model has changed.
	Update(*Model)
	// Ask asks a question and returns the key of the answer that was chosen; false if there is nobody to ask.
	Ask(question string, answers []Answer) (string, bool)
	// Close ends the display. What was shown stays. It fails if some of the logs could not be written.
	Close() error
}

// Answer is one that Ask offers.
type Answer struct {
	Key  string // one letter
	Text string
}

// Prefix returns what stands before a line that several sources may have written, as `jobctl logs --prefix` has it.
func (s Source) Prefix() string {
	if s.Label != "" {
		return s.Label
	}
	out := fmt.Sprintf("[pod/%s/%s", s.Pod, s.Container)
	if s.Index != nil {
		out += fmt.Sprintf(" index=%d", *s.Index)
		if s.Values != "" {
			out += "(" + s.Values + ")"
		}
	}
	for _, n := range s.numbers() {
		out += " " + n
	}
	if s.Stream != "" {
		out += " " + s.Stream
	}
	return out + "] "
}

// numbers says which attempt, try and restart it is, where that is not the first.
func (s Source) numbers() (all []string) {
	for _, n := range []struct {
		name string
		is   int
	}{{"attempt", s.Attempt}, {"try", s.Try}, {"restart", s.Restart}} {
		if n.is > 0 {
			all = append(all, fmt.Sprintf("%s=%d", n.name, n.is))
		}
	}
	return all
}

// MarshalLine returns the event as a line of JSON.
func (e Event) MarshalLine() []byte {
	line, err := json.Marshal(e)
	if err != nil { // no field of it can fail
		panic(err)
	}
	return append(line, '\n')
}
