package notify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/mail"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Receivers are whom the administrator lets jobd tell of Jobs, by the names that annotations have for them. In a file each has
// one of webhook, mail, command and healthcheck; a flag has NAME=URL for a webhook, and may be repeated.
type Receivers map[string]*Receiver

// Receiver is a receiver as the settings have it.
type Receiver struct {
	Webhook     *Webhook     `json:"webhook,omitempty"`
	Mail        *Mail        `json:"mail,omitempty"`
	Command     *Command     `json:"command,omitempty"`
	Healthcheck *Healthcheck `json:"healthcheck,omitempty"`
	// Namespaces are those whose objects may name the receiver; none: all may.
	Namespaces []string `json:"namespaces,omitempty"`
	// Timeout is how long one delivery may take. Default 30 seconds.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// Webhook is a receiver by HTTP.
type Webhook struct {
	// URL, or a file with it, for those whose address is their secret.
	URL     string `json:"url,omitempty"`
	URLFile string `json:"url-file,omitempty"`
	// Headers are added to the request. SecretFile has what is sent as "Authorization: Bearer".
	Headers    map[string]string `json:"headers,omitempty"`
	SecretFile string            `json:"secret-file,omitempty"`
	// Body is a text/template of the body, instead of a CloudEvent, and ContentType its type. Default application/json.
	Body        string `json:"body,omitempty"`
	ContentType string `json:"content-type,omitempty"`
}

// Mail is a receiver by mail: by the machine's sendmail, or by a server.
type Mail struct {
	To   []string `json:"to"`
	From string   `json:"from,omitempty"` // default jobd@HOST
	// Sendmail is a program that takes a message as sendmail(8) does. Default /usr/sbin/sendmail, unless SMTP is set.
	Sendmail string `json:"sendmail,omitempty"`
	// SMTP is host:port. With Username, PasswordFile has the password, which is sent only over TLS or to this machine.
	SMTP         string `json:"smtp,omitempty"`
	Username     string `json:"username,omitempty"`
	PasswordFile string `json:"password-file,omitempty"`
}

// Command is a program of the administrator's, run without a shell.
type Command struct {
	Args []string `json:"args"`
	// Env is added to its environment.
	Env map[string]string `json:"env,omitempty"`
}

// Healthcheck is a service that is told of starts, successes and failures, and that raises the alarm itself when it is not:
// URL/start, URL and URL/fail. {namespace} and {name} in the URL stand for the CronJob's, or the Job's (CheckPings).
type Healthcheck struct {
	URL     string `json:"url,omitempty"`
	URLFile string `json:"url-file,omitempty"`
}

const (
	defaultTimeout  = 30 * time.Second
	longestTimeout  = 10 * time.Minute
	defaultSendmail = "/usr/sbin/sendmail"
)

// Kind returns which of the kinds it is; empty for none.
func (r *Receiver) Kind() string {
	switch {
	case r.Webhook != nil:
		return "webhook"
	case r.Mail != nil:
		return "mail"
	case r.Command != nil:
		return "command"
	case r.Healthcheck != nil:
		return "healthcheck"
	}
	return ""
}

// To says to whom it delivers. Of an address only the host is shown, since the rest is often a secret.
func (r *Receiver) To() string {
	address := func(text, file string) string {
		u, err := url.Parse(text)
		if err != nil || text == "" {
			return cmp.Or(file, "<unknown>")
		}
		return u.Scheme + "://" + u.Host
	}
	switch {
	case r.Webhook != nil:
		return address(r.Webhook.URL, r.Webhook.URLFile)
	case r.Mail != nil:
		return strings.Join(r.Mail.To, ",")
	case r.Command != nil && len(r.Command.Args) > 0:
		return r.Command.Args[0]
	case r.Healthcheck != nil:
		return address(r.Healthcheck.URL, r.Healthcheck.URLFile)
	}
	return ""
}

// Serves reports whether objects of a namespace may name it.
func (r *Receiver) Serves(namespace string) bool {
	return len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace)
}

// Limit is how long one delivery may take.
func (r *Receiver) Limit() time.Duration { return cmp.Or(r.Timeout.Duration, defaultTimeout) }

// SendmailPath is the program that takes messages; empty if a server does.
func (m *Mail) SendmailPath() string {
	if m.SMTP != "" {
		return ""
	}
	return cmp.Or(m.Sendmail, defaultSendmail)
}

// UnmarshalJSON reads them as a file has them, strictly.
func (r *Receivers) UnmarshalJSON(data []byte) error {
	var named map[string]json.RawMessage
	if err := json.Unmarshal(data, &named); err != nil {
		return err
	}
	read := Receivers{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		one := &Receiver{}
		strict := json.NewDecoder(bytes.NewReader(named[name]))
		strict.DisallowUnknownFields()
		if err := strict.Decode(one); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		read[name] = one
	}
	*r = read
	return nil
}

// Set adds that of a flag. It implements pflag.Value.
func (r *Receivers) Set(value string) error {
	name, address, ok := strings.Cut(value, "=")
	if !ok {
		return fmt.Errorf("%q is not of the form NAME=URL", value)
	}
	if *r == nil {
		*r = Receivers{}
	}
	(*r)[name] = &Receiver{Webhook: &Webhook{URL: address}}
	return nil
}

// String returns the names. It implements pflag.Value.
func (r *Receivers) String() string { return strings.Join(slices.Sorted(maps.Keys(*r)), ",") }

// Type implements pflag.Value.
func (r *Receivers) Type() string { return "name=url" }

// Check checks all of them. An error names the receiver and the setting.
func (r Receivers) Check() error {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if msgs := utilvalidation.IsDNS1123Label(name); len(msgs) > 0 {
			return fmt.Errorf("%q: %s", name, msgs[0])
		}
		if err := r[name].check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (r *Receiver) check() error {
	if r == nil {
		return errors.New("must be one of webhook, mail, command and healthcheck")
	}
	if n := countSet(r.Webhook != nil, r.Mail != nil, r.Command != nil, r.Healthcheck != nil); n != 1 {
		return errors.New("must be one of webhook, mail, command and healthcheck")
	}
	if r.Timeout.Duration < 0 || r.Timeout.Duration > longestTimeout {
		return fmt.Errorf("timeout: must be above 0 and at most %v", longestTimeout)
	}
	switch {
	case r.Webhook != nil:
		return within("webhook", r.Webhook.check())
	case r.Mail != nil:
		return within("mail", r.Mail.check())
	case r.Command != nil:
		return within("command", r.Command.check())
	}
	return within("healthcheck", checkURL(r.Healthcheck.URL, r.Healthcheck.URLFile, r.CheckPings))
}

func countSet(all ...bool) (n int) {
	for _, set := range all {
		if set {
			n++
		}
	}
	return n
}

func within(part string, err error) error {
	if err != nil {
		return fmt.Errorf("%s.%w", part, err)
	}
	return nil
}

func (w *Webhook) check() error {
	if err := checkURL(w.URL, w.URLFile, CheckURL); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		if name == "" || strings.ContainsAny(name, " :\r\n\t") || strings.ContainsAny(w.Headers[name], "\r\n") {
			return fmt.Errorf("headers: %q is not a header", name)
		}
	}
	if w.SecretFile != "" && !filepath.IsAbs(w.SecretFile) {
		return fmt.Errorf("secret-file: %q is not an absolute path", w.SecretFile)
	}
	if w.Body == "" {
		return nil
	}
	t, err := parseBody(w.Body)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	trial := NewTest("a", time.Unix(0, 0)) // of which each text has what has to be quoted
	trial.Object.Namespace, trial.CronJob, trial.Result = "a", "a", complete
	trial.Reason, trial.Message, trial.Text = `"a"`, "\"a\"\n\\", "\"a\"\n\tb\\\n"
	var out bytes.Buffer
	if err := t.Execute(&out, &trial); err != nil { // a field that there is not
		return fmt.Errorf("body: %w", err)
	}
	if isJSON(w.ContentType) && !json.Valid(out.Bytes()) {
		return errors.New("body: it makes no JSON of a text with quotes and lines: write {{json .Said}}, without quotes around it, " +
			"or set content-type to what it is")
	}
	return nil
}

// isJSON reports whether a content type is JSON, which is the default.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(cmp.Or(contentType, "application/json"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// checkURL checks an address by check, or the name of its file, of which the content is checked when it is read.
func checkURL(text, file string, check func(text string) error) error {
	switch {
	case (text == "") == (file == ""):
		return errors.New("url: one of url and url-file must be set")
	case file != "" && !filepath.IsAbs(file):
		return fmt.Errorf("url-file: %q is not an absolute path", file)
	case file != "":
		return nil
	}
	return check(text)
}

// CheckURL checks the address of a receiver.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("url: must begin with http:// or https:// and name a host")
	}
	return nil
}

func (m *Mail) check() error {
	if len(m.To) == 0 {
		return errors.New("to: must name somebody")
	}
	for _, to := range m.To {
		if err := checkAddress(to); err != nil {
			return fmt.Errorf("to: %w", err)
		}
	}
	if m.From != "" {
		if err := checkAddress(m.From); err != nil {
			return fmt.Errorf("from: %w", err)
		}
	}
	switch {
	case m.Sendmail != "" && m.SMTP != "":
		return errors.New("smtp: sendmail is set too, and only one of them can be used")
	case m.Sendmail != "" && !filepath.IsAbs(m.Sendmail):
		return fmt.Errorf("sendmail: %q is not an absolute path", m.Sendmail)
	case m.SMTP != "" && !strings.Contains(m.SMTP, ":"):
		return fmt.Errorf("smtp: %q is not of the form host:port", m.SMTP)
	case m.Username != "" && (m.SMTP == "" || m.PasswordFile == ""):
		return errors.New("username: needs smtp and password-file")
	case m.PasswordFile != "" && !filepath.IsAbs(m.PasswordFile):
		return fmt.Errorf("password-file: %q is not an absolute path", m.PasswordFile)
	}
	return nil
}

// checkAddress checks an address, or the name of a user of this machine, which sendmail takes too.
func checkAddress(text string) error {
	if strings.ContainsAny(text, "\r\n\x00") || strings.HasPrefix(text, "-") {
		return fmt.Errorf("%q is not an address", text)
	}
	if a, err := mail.ParseAddress(text); err == nil && a.Name == "" && a.Address == text {
		return nil
	}
	if len(utilvalidation.IsDNS1123Label(strings.ReplaceAll(text, "_", "-"))) == 0 {
		return nil
	}
	return fmt.Errorf("%q is not an address", text)
}

func (c *Command) check() error {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return errors.New("args: must begin with the absolute path of a program")
	}
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env: %q is not a variable", name)
		}
	}
	return nil
}

// parseBody reads the template of a body. json in it writes a value as JSON, as it has to be in most bodies.
func parseBody(text string) (*template.Template, error) {
	return template.New("body").Option("missingkey=error").Funcs(template.FuncMap{
		"json": func(value any) (string, error) {
			encoded, err := json.Marshal(value)
			return string(encoded), err
		},
	}).Parse(text)
}
