package notify

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/notices"
)

var errTest = errors.New("no route to host")

// hostile is a notice whose texts are whatever a submitter, or a controller of theirs, can make of them.
func hostile() Notice {
	return Notice{
		ID: "0123", Kind: notices.Failed, At: begin, Result: "Failed", Reason: "X\r\nBcc: all@example.com\r\n\r\n<b>",
		Message: "quote \" brace } {{.ID}} \x1b[2J\x00\r\n.\r\nQUIT\r\n", Object: Object{Kind: "Job", Namespace: "team", Name: "train", UID: "u"},
		Help: "jobctl why jobs/train -n team",
	}
}

func TestACloudEvent(t *testing.T) {
	n := hostile()
	n.Explain(strings.Repeat("why\x1b ", 10_000))
	body, contentType, err := n.Body(&Webhook{}, "box")
	if err != nil || contentType != "application/cloudevents+json; charset=utf-8" {
		t.Fatal(contentType, err)
	}
	var e map[string]any
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatal(err)
	}
	data := e["data"].(map[string]any)
	delete(e, "data")
	want := map[string]any{
		"specversion": "1.0", "id": "0123", "source": "//box/jobd", "type": "dev.jobd.notice.failed", "subject": "namespaces/team/jobs/train",
		"time": "2026-01-01T00:00:00Z", "datacontenttype": "application/json",
	}
	for name, value := range want {
		if e[name] != value {
			t.Errorf("%s is %v, want %v", name, e[name], value)
		}
	}
	if len(e) != len(want) {
		t.Errorf("further attributes: %v", e)
	}
	if len(body) > 64<<10 || strings.ContainsAny(data["said"].(string), "\x1b\x00") || data["message"] != n.Message {
		t.Errorf("%d bytes: %v", len(body), data)
	}
}

func TestABodyOfTheAdministrators(t *testing.T) {
	n := hostile()
	body, contentType, err := n.Body(&Webhook{Body: `{"text": {{json .Subject}}, "why": {{json .Message}}}`}, "box")
	var got map[string]string
	if err != nil || contentType != "application/json" || json.Unmarshal(body, &got) != nil || got["why"] != n.Message ||
		!strings.HasPrefix(got["text"], "Job team/train has failed: X") {
		t.Errorf("%s %s %v", body, contentType, err)
	}
	if _, _, err := n.Body(&Webhook{Body: `{{range .Text}}{{end}}{{printf "%300000s" .ID}}`}, "box"); err == nil {
		t.Error("a body may have any size")
	}
}

// No text of a submitter's adds a header to a message, or ends it.
func TestAMessageByMail(t *testing.T) {
	n := hostile()
	m := &Mail{To: []string{"root", "ops@example.com"}}
	text, err := n.MIME(m, "box")
	if err != nil {
		t.Fatal(err)
	}
	message, err := mail.ReadMessage(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range message.Header {
		names = append(names, name)
	}
	if len(names) != 9 || message.Header.Get("Bcc") != "" || message.Header.Get("To") != "root, ops@example.com" ||
		message.Header.Get("From") != "jobd@box" || message.Header.Get("Message-Id") != "<0123@box>" {
		t.Errorf("headers %v", message.Header)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, "[jobd] Job team/train has failed: X") || strings.ContainsAny(subject, "\r\n") {
		t.Errorf("subject %q: %v", subject, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil || !strings.Contains(string(body), "jobctl why jobs/train -n team") || strings.ContainsAny(string(body), "\x1b\x00") {
		t.Errorf("body %q: %v", body, err)
	}
}

func TestEnvironmentOfACommand(t *testing.T) {
	n := hostile()
	for _, v := range n.Environment("box") {
		if name, value, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "JOBD_NOTICE_") || strings.ContainsAny(value, "\x00\r\n") {
			t.Errorf("%q", v)
		}
	}
}

func TestPing(t *testing.T) {
	for want, c := range map[string]struct {
		address string
		notice  Notice
	}{
		"https://hc.example/u/start":              {"https://hc.example/u", Notice{Kind: notices.Started}},
		"https://hc.example/u":                    {"https://hc.example/u", Notice{Kind: notices.Recovered, Result: "Complete"}},
		"https://hc.example/u/fail?x=1":           {"https://hc.example/u?x=1", Notice{Kind: notices.Failed, Result: "Failed"}},
		"https://hc.example/k/team_train":         {"https://hc.example/k/{namespace}_{name}", Notice{Kind: notices.Finished, Result: "Complete"}},
		"https://hc.example/k/team_nightly/start": {"https://hc.example/k/{namespace}_{name}", Notice{Kind: notices.Started, CronJob: "nightly"}},
	} {
		c.notice.Object = Object{Kind: "Job", Namespace: "team", Name: "train"}
		if got, err := c.notice.Ping(c.address); got != want || err != nil {
			t.Errorf("%q: %v, want %q", got, err, want)
		}
	}
}

func TestSettingsOfReceivers(t *testing.T) {
	for text, want := range map[string]string{
		"ops: {webhook: {url: 'https://hooks.example.com/x', headers: {X-Team: a}, secret-file: /s}}": "",
		"ops: {webhook: {url-file: /etc/url, body: '{{json .Said}}'}, namespaces: [team]}":            "",
		"ops: {mail: {to: [root, a@example.com]}}":                                                    "",
		"ops: {mail: {to: [a@example.com], smtp: 'localhost:25'}, timeout: 1m}":                       "",
		"ops: {command: {args: [/bin/page, --now], env: {A: b}}}":                                     "",
		"ops: {healthcheck: {url: 'https://hc-ping.com/u'}}":                                          "",
		"Ops: {mail: {to: [root]}}":                                                                   `"Ops":`,
		"ops: {}":                                                                                     "ops: must be one of",
		"ops: null":                                                                                   "ops: must be one of",
		"ops: {mail: {to: [root]}, command: {args: [/x]}}":                                            "ops: must be one of",
		"ops: {slack: {}}":                                                                            `ops: json: unknown field "slack"`,
		"ops: {webhook: {}}":                                                                          "ops: webhook.url: one of",
		"ops: {webhook: {url: 'ftp://x'}}":                                                            "ops: webhook.url: must begin with",
		"ops: {webhook: {url: 'http://x', body: '{{.Nothing}}'}}":                                     "ops: webhook.body: ",
		"ops: {webhook: {url: 'http://x', headers: {\"A\\nB\": c}}}":                                  "ops: webhook.headers: ",
		"ops: {mail: {to: []}}":                                                                       "ops: mail.to: must name",
		"ops: {mail: {to: [\"a@b\\nBcc: c@d\"]}}":                                                     "ops: mail.to: ",
		"ops: {mail: {to: ['-oQ/tmp']}}":                                                              "ops: mail.to: ",
		"ops: {mail: {to: [root], username: u}}":                                                      "ops: mail.username: needs",
		"ops: {command: {args: [page]}}":                                                              "ops: command.args: must begin",
		"ops: {healthcheck: {url: 'http://x/{namespace}-{name}'}}":                                    "ops: healthcheck.url: {namespace}-{name} is ambiguous",
		"ops: {healthcheck: {url: 'http://x'}, timeout: 1h}":                                          "ops: timeout: ",
	} {
		var r Receivers
		err := yaml.Unmarshal([]byte(text), &r)
		if err == nil {
			err = r.Check()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSubjects(t *testing.T) {
	for _, kind := range []notices.Kind{
		notices.Failed, notices.Recovered, notices.Finished, notices.Overdue, notices.StartedLate, notices.Waits, notices.Started, notices.Test,
	} {
		n := Notice{Kind: kind, At: time.Now(), Object: Object{Kind: "Job", Namespace: "team", Name: "train"}}
		if n.Subject() == "" || strings.Contains(n.Subject(), "\n") {
			t.Errorf("%s: %q", kind, n.Subject())
		}
	}
}

func TestPlaceholders(t *testing.T) {
	for address, want := range map[string]string{
		"http://x/u":                              "",
		"http://x/{namespace}":                    "",
		"http://x/{namespace}_{name}":             "",
		"http://x/{namespace}/{name}":             "",
		"http://x/{name}.{namespace}":             "",
		"http://x/{namespace}-_-{name}":           "",
		"http://x/{namespace}%2F{name}":           "",
		"http://x/{namespace}_{name}/{name}":      "",
		"http://x/{namespace}-{name}":             "url: {namespace}-{name} is ambiguous",
		"http://x/{name}-{namespace}":             "url: {name}-{namespace} is ambiguous",
		"http://x/{namespace}{name}":              "url: {namespace}{name} is ambiguous",
		"http://x/{namespace}--{name}":            "url: {namespace}--{name} is ambiguous",
		"http://x/{namespace}-Of-{name}":          "url: {namespace}-Of-{name} is ambiguous",
		"http://x/{namespace}%2d{name}":           "url: {namespace}-{name} is ambiguous",
		"http://x/{namespace}_{name}-{namespace}": "url: {name}-{namespace} is ambiguous",
		"http://x/{name}":                         "url: needs {namespace} beside {name}",
		"http://x/{namespace}_{nmae}":             `url: "{nmae}" stands for nothing`,
		"http://x/{namespace}_%7Bname%7D":         "url: the braces of a placeholder",
		"http://x/{namespace}_{name%7D":           "url: the braces of a placeholder",
		"http://x/{namespace}_{name":              `url: "{name" stands for nothing`,
		"http://x/name}":                          `url: "}" stands for nothing`,
		"ftp://x/{namespace}":                     "url: must begin with",
	} {
		r := &Receiver{Healthcheck: &Healthcheck{}}
		if err := r.CheckPings(address); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	r := &Receiver{Healthcheck: &Healthcheck{}, Namespaces: []string{"team"}}
	if err := r.CheckPings("http://x/{name}"); err != nil {
		t.Errorf("of one namespace: %v", err)
	}
}

// Whatever the names are, an address that is accepted is never that of two of them.
func TestNoTwoNamesAreOneCheck(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	name := func(separators ...string) string {
		text := pick("a", "b")
		for range random.IntN(4) {
			text += pick(append(separators, "", "")...) + pick("a", "b")
		}
		return text
	}
	for range 300 {
		address := "http://x/"
		for range 1 + random.IntN(3) {
			address += pick("{namespace}", "{name}") + pick("-", "_", ".", "/", "a", "-.", "--", "%2d", "")
		}
		if new(Receiver).CheckPings(address) != nil || !strings.Contains(address, "{name}") {
			continue
		}
		of := map[string]Object{}
		for range 300 {
			n := Notice{Result: "Complete", Object: Object{Namespace: name("-", "--"), Name: name("-", "--", ".", ".", "-")}}
			got, err := n.Ping(address)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := of[got]; ok && other != n.Object {
				t.Fatalf("%s is %s for %v and for %v", address, got, other, n.Object)
			}
			of[got] = n.Object
		}
	}
}
