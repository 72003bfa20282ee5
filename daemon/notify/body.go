package notify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/url"
	"strings"
	"time"

	"github.com/jobd/jobd/api/notices"
)

// event is a CloudEvent of version 1.0 in its JSON format.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            data      `json:"data"`
}

// data is what receivers get of a notice: its fields, and what it says.
type data struct {
	Notice
	Subject string `json:"subject"`
	Said    string `json:"said"`
	Host    string `json:"host"`
}

func (n *Notice) data(host string) data { return data{*n, n.Subject(), n.Said(), host} }

// JSON returns the notice as a command gets it.
func (n *Notice) JSON(host string) ([]byte, error) { return json.Marshal(n.data(host)) }

// Body returns the body of a request to a webhook, and its type. host is the name of this machine.
func (n *Notice) Body(w *Webhook, host string) (body []byte, contentType string, err error) {
	if w.Body != "" {
		t, err := parseBody(w.Body)
		if err != nil {
			return nil, "", err
		}
		var out bytes.Buffer
		if err := t.Execute(&limited{&out, maxBody}, n); err != nil {
			return nil, "", fmt.Errorf("the template of the body: %w", err)
		}
		return out.Bytes(), cmp.Or(w.ContentType, "application/json"), nil
	}
	subject := "namespaces/" + n.Object.Namespace + "/" + n.Object.String()
	if n.Object.Namespace == "" {
		subject = n.Object.String()
	}
	body, err = json.Marshal(event{
		SpecVersion: "1.0", ID: n.ID, Source: "//" + host + "/jobd", Type: "dev.jobd.notice." + string(n.Kind),
		Subject: subject, Time: n.At.UTC(), DataContentType: "application/json", Data: n.data(host),
	})
	return body, "application/cloudevents+json; charset=utf-8", err
}

// maxBody bounds what a template makes of a notice.
const maxBody = 256 << 10

// limited is a writer that fails beyond so many bytes.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, fmt.Errorf("it makes more than %d bytes", maxBody)
	}
	return l.to.Write(b)
}

// MIME returns the notice as a message by mail. Its headers are encoded, so that no text of a Job's adds one.
func (n *Notice) MIME(m *Mail, host string) ([]byte, error) {
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", m.Sender(host))
	header("To", strings.Join(m.To, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", "[jobd] "+n.Subject()))
	header("Date", n.At.UTC().Format(time.RFC1123Z))
	header("Message-ID", "<"+n.ID+"@"+host+">")
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(strings.ReplaceAll(n.Said(), "\n", "\r\n"))); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	return b.Bytes(), nil
}

// Sender is the address that messages come from.
func (m *Mail) Sender(host string) string { return cmp.Or(m.From, "jobd@"+host) }

// Environment returns what a command finds of the notice in its environment.
func (n *Notice) Environment(host string) []string {
	var all []string
	for _, v := range []struct{ name, value string }{
		{"ID", n.ID}, {"KIND", string(n.Kind)}, {"SUBJECT", n.Subject()}, {"OBJECT", n.Object.String()}, {"NAMESPACE", n.Object.Namespace},
		{"NAME", n.Object.Name}, {"CRONJOB", n.CronJob}, {"RESULT", n.Result}, {"REASON", line(n.Reason)}, {"HOST", host},
		{"TIME", n.At.UTC().Format(time.RFC3339)},
	} {
		all = append(all, "JOBD_NOTICE_"+v.name+"="+strings.ReplaceAll(v.value, "\x00", ""))
	}
	return all
}

// Ping returns the address that a service for health checks is called at.
func (n *Notice) Ping(address string) (string, error) {
	// Slugs of healthchecks.io have no dots. Names have no underscores, so that different ones stay so.
	name := strings.ReplaceAll(cmp.Or(n.CronJob, n.Object.Name), ".", "_")
	address = strings.NewReplacer(namespaceHolder, url.PathEscape(n.Object.Namespace), nameHolder, url.PathEscape(name)).Replace(address)
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	switch {
	case n.Kind == notices.Started:
		u = u.JoinPath("start")
	case n.Result == "Failed":
		u = u.JoinPath("fail")
	}
	return u.String(), nil
}
