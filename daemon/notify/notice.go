// Package notify decides what people are told of their Jobs, to whom, in which words, and when it is tried again. All of it is
// pure functions: of the state of a Job before and after a change and what is remembered of its name; of a notice and the
// settings of a receiver; of what waits to be delivered and the time.
//
// Package daemon/notices writes the notices in the passes of the control loop, and daemon/receivers delivers them.
package notify

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/internal/printable"
)

// Notice is what a receiver is told. It is stored as JSON until it is delivered.
type Notice struct {
	// ID is the same however often the notice is delivered, and whoever receives it.
	ID   string       `json:"id"`
	Kind notices.Kind `json:"kind"`
	// Object is what it is about: a Job, a JobSet or a CronJob.
	Object Object `json:"object"`
	// CronJob is the one that controls the Job; empty for none.
	CronJob string    `json:"cronJob,omitempty"`
	Attempt int       `json:"attempt,omitempty"` // of the Job
	At      time.Time `json:"at"`                // when it happened
	// Result is that of a Job or JobSet that has ended: Complete or Failed. Reason and Message are those of its last condition.
	Result  string `json:"result,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Text is what "jobctl why" says, once that was asked for, and Help is the command that says more.
	Text string `json:"text,omitempty"`
	Help string `json:"help,omitempty"`
}

// Object is what a notice is about.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// String returns how jobctl takes the object.
func (o Object) String() string { return strings.ToLower(o.Kind) + "s/" + o.Name }

// Name is what notices are delivered in order for: the CronJob, or Jobs of one name.
func (n *Notice) Name() string {
	if n.CronJob != "" {
		return n.Object.Namespace + "/cronjob." + n.CronJob
	}
	return n.Object.Namespace + "/" + strings.ToLower(n.Object.Kind) + "." + n.Object.Name
}

// newID derives the ID of a notice from what it is about, so that the same notice has the same one.
func newID(parts ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return fmt.Sprintf("%x", sum[:16])
}

const (
	maxMessage = 1 << 10
	maxReason  = 256
	maxText    = 8 << 10
)

// Subject says the notice in one line.
func (n *Notice) Subject() string {
	o := n.Object
	name := fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
	var said string
	switch n.Kind {
	case notices.Failed:
		said = name + " has failed"
	case notices.Recovered:
		said = name + " has succeeded again"
	case notices.Finished:
		said = name + " is complete"
		if n.Result != complete {
			said = name + " has ended"
		}
	case notices.Overdue:
		said = name + " is overdue"
	case notices.StartedLate:
		said = name + " has started late"
	case notices.Waits:
		said = name + " still waits"
	case notices.Started:
		said = name + " has started"
	case notices.Test:
		said = "A test of the receiver " + o.Name
	}
	if n.Kind == notices.Failed && n.Reason != "" {
		said += ": " + n.Reason
	}
	return line(said)
}

// line is a text of others as one line.
func line(text string) string { return strings.Join(strings.Fields(printable.Text(text)), " ") }

// Said returns the notice in full, as plain text.
func (n *Notice) Said() string {
	var b strings.Builder
	b.WriteString(n.Subject() + ".\n")
	if n.Message != "" {
		b.WriteString(printable.Text(n.Message) + "\n")
	}
	if n.Text != "" {
		b.WriteString("\n" + n.Text)
		if !strings.HasSuffix(n.Text, "\n") {
			b.WriteString("\n")
		}
	}
	if n.Help != "" {
		b.WriteString("\nTo look further:\n  " + n.Help + "\n")
	}
	return b.String()
}

// Explain adds what "jobctl why" says.
func (n *Notice) Explain(text string) { n.Text = cut(printable.Text(text), maxText) }

// cut shortens a text to a number of bytes, at the end of a character.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	const mark = " ..."
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// NewTest returns the notice with which an administrator tries a receiver.
func NewTest(receiver string, now time.Time) Notice {
	return Notice{
		ID: newID("test", receiver, now.UnixNano()), Kind: notices.Test, At: now, Help: "jobctl notify",
		Object: Object{Kind: "Receiver", Namespace: "", Name: receiver}, Message: "An administrator has asked for it.",
	}
}
