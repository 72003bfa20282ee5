package doctor

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/notify"
)

// What could not be delivered is said, and nothing where there are no receivers, or no daemon.
func TestLostNotices(t *testing.T) {
	answer := `{"items": []}`
	socket := filepath.Join(t.TempDir(), "s")
	warnings := &collector{}
	p := &patient{logger: slog.New(warnings)}
	p.wanted.Socket = socket
	examine := func() (string, string) {
		t.Helper()
		text, err := lostNotices(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, w := range warnings.take() {
			said = append(said, w.text)
		}
		return text, strings.Join(said, "\n")
	}
	if text, said := examine(); text != "" || said != "" {
		t.Errorf("without a daemon: %q %q", text, said)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(notices.Path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if text, said := examine(); text != "" || said != "" {
		t.Errorf("without receivers: %q %q", text, said)
	}
	answer = `{"items": [{"name": "ops", "kind": "webhook", "delivered": 1}]}`
	if text, said := examine(); text != "1 receiver" || said != "" {
		t.Errorf("well: %q %q", text, said)
	}
	answer = `{"items": [{"name": "ops", "kind": "mail"}, {"name": "b", "kind": "mail", "pending": 3, "lastError": "no\nroute"}, {"name": "opps"}]}`
	if text, said := examine(); text != "2 receivers" || !strings.HasPrefix(said, "3 notices wait for b, which said: no") {
		t.Errorf("%q %q", text, said)
	}
}

func TestUnwell(t *testing.T) {
	now := time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	const hour, day = time.Hour, 24 * time.Hour
	for rule, c := range map[string]struct {
		standing notices.Standing
		pending  int
		want     string
	}{
		"well":                   {notices.Standing{Delivered: 3, DeliveredAt: ago(hour)}, 0, ""},
		"one waits":              {notices.Standing{LastError: "no route"}, 1, "1 notices wait for ops, which said: no route"},
		"an error of before":     {notices.Standing{LastError: "no route"}, 0, ""},
		"a loss, long since":     {notices.Standing{Lost: 1, LostAt: ago(8 * day), LostError: "500"}, 0, ""},
		"a loss, and a delivery": {notices.Standing{Lost: 2, LostLast: "team/jobs/x", LostAt: ago(day), LostError: "500"}, 0, "2 notices could not be delivered to ops, the last on 2026-01-19 00:00:00, of team/jobs/x: 500"},
		"refused":                {notices.Standing{Refused: 4, RefusedLast: "team/jobs/y", RefusedAt: ago(day), RefusedError: "there is no receiver of that name"}, 0, "4 notices to ops were refused, the last on 2026-01-19 00:00:00, of team/jobs/y: there is no receiver of that name"},
		"refused, long since":    {notices.Standing{Refused: 4, RefusedAt: ago(8 * day)}, 0, ""},
	} {
		r := &notices.Receiver{Name: "ops", Pending: c.pending, Standing: c.standing}
		if got := strings.Join(unwell(r, now), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", rule, got, c.want)
		}
	}
	stuck := &notices.Receiver{Name: "ops", Pending: 1, Unwritten: "no space left for the database", Standing: notices.Standing{LastError: "no route"}}
	if got := unwell(stuck, now); len(got) != 1 || !strings.Contains(got[0], "since it cannot be written down that it was: no space left") {
		t.Errorf("%q", got)
	}
}

// What a receiver names is looked at before a notice needs it.
func TestUnusable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, open, empty := write("password", "x\n", 0o600), write("open", "x\n", 0o644), write("empty", "", 0o600)
	page, text := write("page", "#!/bin/sh\n", 0o755), write("text", "", 0o644)
	missing := filepath.Join(dir, "missing")
	mail := func(password, sendmail, smtp string) *notify.Receiver {
		return &notify.Receiver{Mail: &notify.Mail{To: []string{"root"}, PasswordFile: password, Sendmail: sendmail, SMTP: smtp}}
	}
	command := func(path string) *notify.Receiver {
		return &notify.Receiver{Command: &notify.Command{Args: []string{path}}}
	}
	for rule, c := range map[string]struct {
		receiver *notify.Receiver
		want     string
	}{
		"a program":               {command(page), ""},
		"one that there is not":   {command(missing), "command: stat"},
		"one that is none":        {command(text), "is not executable"},
		"no sendmail":             {mail("", missing, ""), "sendmail: stat"},
		"a server":                {mail(password, "", "box:587"), ""},
		"a password for all":      {mail(open, "", "box:587"), "mode 644"},
		"a password that is none": {mail(empty, "", "box:587"), "is empty"},
		"no secret":               {&notify.Receiver{Webhook: &notify.Webhook{URL: "http://a", SecretFile: missing}}, "secret-file: stat"},
		"no address":              {&notify.Receiver{Healthcheck: &notify.Healthcheck{URLFile: missing}}, "url-file: stat"},
	} {
		got := strings.Join(unusable(notify.Receivers{"ops": c.receiver}), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", rule, got, c.want)
		}
	}
}
