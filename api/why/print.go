package why

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/jobd/jobd/internal/printable"
)

// width is where sentences are broken.
const width = 110

// Print writes an explanation in sentences.
func Print(out io.Writer, e *Explanation) error {
	p := &printer{at: e.At.Time}
	p.lines("", fmt.Sprintf("%s: %s", e.Object, e.Message))
	p.causes("", e.Causes)
	if e.Source == FromAPI {
		p.lines("", "(This is based on the cluster's API alone; what only its scheduler and controllers know is not shown.)")
	}
	_, err := io.WriteString(out, p.text.String())
	return err
}

type printer struct {
	text strings.Builder
	at   time.Time
}

func (p *printer) causes(indent string, causes []Cause) {
	for i := range causes {
		c := &causes[i]
		message := c.Message
		if c.Object != nil {
			message = c.Object.String() + ": " + message
		}
		if c.Since != nil {
			message += " " + p.since(c.Since)
		}
		if c.Until != nil {
			message += " " + p.until(c.Until)
		}
		p.lines(indent+"- ", message)
		inner := indent + "  "
		p.causes(inner, c.Causes)
		if len(c.Log) > 0 {
			fmt.Fprintf(&p.text, "%sIts last lines:\n", inner)
			for _, line := range c.Log {
				fmt.Fprintf(&p.text, "%s  | %s\n", inner, printable.Text(line))
			}
		}
		for _, help := range c.Help {
			fmt.Fprintf(&p.text, "%s$ %s\n", inner, printable.Text(strings.ReplaceAll(help, "\n", " ")))
		}
	}
}

func (p *printer) since(t *metav1.Time) string {
	return fmt.Sprintf("[%s ago]", duration.HumanDuration(max(0, p.at.Sub(t.Time))))
}

func (p *printer) until(t *metav1.Time) string {
	if d := t.Sub(p.at); d > 0 {
		return fmt.Sprintf("[until %s, in %s]", t.Local().Format("15:04:05"), duration.HumanDuration(d.Round(time.Second)))
	}
	return "[due now]"
}

// lines writes a sentence with a first indent, and breaks it below its beginning.
func (p *printer) lines(indent, sentence string) {
	rest := strings.Repeat(" ", len(indent))
	line := indent
	for i, word := range strings.Fields(printable.Text(sentence)) {
		if i > 0 && len(line)+1+len(word) > width && strings.TrimSpace(line) != "" {
			p.text.WriteString(line + "\n")
			line = rest + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	p.text.WriteString(line + "\n")
}
