package receivers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/notify"
)

func notice() *notify.Notice {
	return &notify.Notice{
		ID: "0123", Kind: notices.Failed, At: time.Unix(0, 0), Result: "Failed", Reason: "BackoffLimitExceeded", Message: "$(touch /tmp/x) `id`",
		Object: notify.Object{Kind: "Job", Namespace: "team", Name: "train", UID: "u"},
	}
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWebhook(t *testing.T) {
	var got *http.Request
	var body []byte
	status := http.StatusAccepted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		if status == http.StatusFound {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		}
		w.WriteHeader(status)
		fmt.Fprintln(w, "said the\nserver")
	}))
	defer server.Close()
	w := newSender(&notify.Receiver{Webhook: &notify.Webhook{
		URLFile: write(t, "url", server.URL+"/hook?key=secret\n", 0o600), Headers: map[string]string{"X-Team": "a"},
		SecretFile: write(t, "token", "hunter2\n", 0o600),
	}}, "box")
	if err := w.send(t.Context(), notice()); err != nil {
		t.Fatal(err)
	}
	var event map[string]any
	if err := json.Unmarshal(body, &event); err != nil || event["id"] != "0123" || event["type"] != "dev.jobd.notice.failed" {
		t.Errorf("%s: %v", body, err)
	}
	if got.Method != http.MethodPost || got.Header.Get("X-Team") != "a" || got.Header.Get("Authorization") != "Bearer hunter2" ||
		got.Header.Get("Idempotency-Key") != "0123" || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/cloudevents+json") {
		t.Errorf("%v", got)
	}
	for code, want := range map[int]string{500: "500 Internal Server Error: said the server", 404: "404 Not Found", 302: "302 Found"} {
		status = code
		if err := w.send(t.Context(), notice()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
	}
	server.Close()
	if err := w.send(t.Context(), notice()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the address, a secret, is in an error: %v", err)
	}
}

func TestHealthcheck(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Method+" "+r.URL.Path) }))
	defer server.Close()
	h := newSender(&notify.Receiver{Healthcheck: &notify.Healthcheck{URL: server.URL + "/k/{namespace}_{name}"}}, "box")
	start, success, trial := notice(), notice(), notify.NewTest("watch", time.Now())
	start.Kind, start.Result = notices.Started, ""
	success.Kind, success.Result = notices.Recovered, "Complete"
	for _, n := range []*notify.Notice{start, notice(), success, &trial} {
		if err := h.send(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	if s := strings.Join(got, ", "); !strings.HasPrefix(s, "POST /k/team_train/start, POST /k/team_train/fail, POST /k/team_train, HEAD /k/") {
		t.Errorf("%s", s)
	}
}

// What a file has is checked when it is read.
func TestAddressesInFiles(t *testing.T) {
	h := newSender(&notify.Receiver{Healthcheck: &notify.Healthcheck{URLFile: write(t, "url", "http://127.0.0.1:1/{namespace}-{name}\n", 0o600)}}, "box")
	if err := h.send(t.Context(), notice()); err == nil || !strings.Contains(err.Error(), "is ambiguous") {
		t.Errorf("%v", err)
	}
}

// A command gets the notice as data: no shell reads a word of it. What it has started ends with it, and with its time.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := write(t, "page", "#!/bin/sh\ncat >"+out+"\nenv | grep JOBD_NOTICE_ | sort >>"+out+"\necho \"$*\" >>"+out+"\n", 0o755)
	c := newSender(&notify.Receiver{Command: &notify.Command{Args: []string{script, "a b", "$HOME"}, Env: map[string]string{"A": "b"}}}, "box")
	if err := c.send(t.Context(), notice()); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"id":"0123"`, "JOBD_NOTICE_ID=0123\n", "JOBD_NOTICE_KIND=failed\n", "JOBD_NOTICE_OBJECT=jobs/train\n", "\na b $HOME\n",
		`"message":"$(touch /tmp/x) ` + "`id`" + `"`,
	} {
		if !strings.Contains(string(said), want) {
			t.Errorf("%q is missing in:\n%s", want, said)
		}
	}
	failing := newSender(&notify.Receiver{Command: &notify.Command{Args: []string{write(t, "f", "#!/bin/sh\necho no luck >&2; exit 3\n", 0o755)}}}, "box")
	if err := failing.send(t.Context(), notice()); err == nil || !strings.Contains(err.Error(), "exit status 3: no luck") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	pid := filepath.Join(dir, "pid")
	hanging := write(t, "h", "#!/bin/sh\nsleep 1000 & echo $! >"+pid+"\nwait\n", 0o755)
	if err := newSender(&notify.Receiver{Command: &notify.Command{Args: []string{hanging}}}, "box").send(ctx, notice()); err == nil {
		t.Error("a command that hangs has succeeded")
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(string(text), &child); err != nil {
		t.Fatal(err)
	}
	for range 100 { // init takes a moment to reap it
		if unix.Kill(child, 0) != nil {
			return
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("what the command has started goes on")
}

func TestSendmail(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	program := write(t, "sendmail", "#!/bin/sh\necho \"$*\" >"+out+"\ncat >>"+out+"\n", 0o755)
	m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"root"}, Sendmail: program}}, "box")
	if err := m.send(t.Context(), notice()); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(out)
	if err != nil || !strings.HasPrefix(string(said), "-i -f jobd@box -- root\nFrom: jobd@box\nTo: root\nSubject: [jobd] Job team/train has failed: Backoff") ||
		strings.Contains(string(said), "\r") {
		t.Errorf("%s: %v", said, err)
	}
}

// answer is a server that speaks as much SMTP as it takes to get a message.
func answer(t *testing.T, l net.Listener, said chan<- string) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "220 box\r\n")
	var all strings.Builder
	lines, data := bufio.NewScanner(conn), false
	for lines.Scan() {
		line := lines.Text()
		all.WriteString(line + "\n")
		switch {
		case data && line == ".":
			data = false
			fmt.Fprint(conn, "250 taken\r\n")
		case data:
		case strings.HasPrefix(line, "EHLO"):
			fmt.Fprint(conn, "250 box\r\n")
		case line == "DATA":
			data = true
			fmt.Fprint(conn, "354 go on\r\n")
		case line == "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			said <- all.String()
			return
		default:
			fmt.Fprint(conn, "250 ok\r\n")
		}
	}
}

func TestSMTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan string, 1)
	go answer(t, l, said)
	m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"ops@example.com"}, From: "jobd@example.com", SMTP: l.Addr().String()}}, "box")
	if err := m.send(t.Context(), notice()); err != nil {
		t.Fatal(err)
	}
	text := <-said
	for _, want := range []string{"MAIL FROM:<jobd@example.com>", "RCPT TO:<ops@example.com>", "\nMessage-ID: <0123@box>\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

// A server that takes the connection and then says nothing costs its time and no more.
func TestSMTPThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"ops@example.com"}, SMTP: l.Addr().String()}}, "box")
	begun := time.Now()
	if err := m.send(ctx, notice()); err == nil || time.Since(begun) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}
