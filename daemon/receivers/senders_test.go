package receivers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/notify"
)

func notice() *notify.Pending {
	return &notify.Pending{Notice: notify.Notice{
		ID: "0123", Kind: notices.Failed, At: time.Unix(0, 0), Result: "Failed", Reason: "BackoffLimitExceeded", Message: "$(touch /tmp/x) `id`",
		Object: notify.Object{Kind: "Job", Namespace: "team", Name: "train", UID: "u"},
	}}
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
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "90")
		}
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
		} else if errors.As(err, new(*forGood)) {
			t.Errorf("%d: it is not tried again", code)
		}
	}
	status = http.StatusTooManyRequests
	var answer *refusedCall
	if err := w.send(t.Context(), notice()); !errors.As(err, &answer) || answer.wait != 90*time.Second || !strings.Contains(err.Error(), "Retry-After: 1m30s") {
		t.Errorf("429: %v", err)
	}
	status = http.StatusGone
	if err := w.send(t.Context(), notice()); !errors.As(err, new(*forGood)) || !strings.Contains(err.Error(), "is retired") {
		t.Errorf("410: %v", err)
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
	start, success, trial := notice(), notice(), notify.Pending{Notice: notify.NewTest("watch", time.Now())}
	start.Kind, start.Result = notices.Started, ""
	success.Kind, success.Result = notices.Recovered, "Complete"
	for _, n := range []*notify.Pending{start, notice(), success, &trial} {
		if err := h.send(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	if s := strings.Join(got, ", "); s != "POST /k/team_train/start, POST /k/team_train/fail, POST /k/team_train" { // the trial is none
		t.Errorf("%s", s)
	}
	server.Close()
	if err := h.send(t.Context(), &trial); err == nil {
		t.Error("a service that is not there is reached")
	}
	secured := httptest.NewTLSServer(nil)
	defer secured.Close()
	h = newSender(&notify.Receiver{Healthcheck: &notify.Healthcheck{URL: secured.URL + "/k"}}, "box")
	if err := h.send(t.Context(), &trial); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody who is known: %v", err)
	}
}

// For how long a receiver asks to be left alone, in all the ways in which it may say so.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	date := func(after time.Duration) string { return now.Add(after).Format(http.TimeFormat) }
	for rule, c := range map[string]struct {
		says, clock string
		want        time.Duration
	}{
		"nothing":                        {"", "", 0},
		"seconds":                        {"120", "", 2 * time.Minute},
		"no seconds":                     {"0", "", 0},
		"with spaces":                    {" 30 ", "", 30 * time.Second},
		"fewer than none":                {"-5", "", 0},
		"parts of one":                   {"1.5", "", 0},
		"more than there are":            {"9223372036854775807", "", math.MaxInt64},
		"more than can be counted":       {"99999999999999999999999", "", math.MaxInt64},
		"words":                          {"tomorrow", "", 0},
		"a date":                         {date(time.Minute), "", time.Minute},
		"a date that is over":            {date(-time.Minute), "", 0},
		"a date by a clock that is slow": {date(-9 * time.Minute), date(-10 * time.Minute), time.Minute},
		"seconds by a clock that is not": {"60", date(-10 * time.Minute), time.Minute},
		"a date in an old form":          {now.Add(time.Minute).Format(time.ANSIC), "", time.Minute},
		"the end of all dates":           {"Fri, 31 Dec 9999 23:59:59 GMT", "", math.MaxInt64},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.says)
		h.Set("Date", c.clock)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%s: %v, want %v", rule, got, c.want)
		}
	}
}

// A check that there is not, or of which there are two, is not tried again: a hint says why.
func TestChecksThatThereAreNot(t *testing.T) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	h := newSender(&notify.Receiver{Healthcheck: &notify.Healthcheck{URL: server.URL + "/{namespace}_{name}"}}, "box")
	for code, want := range map[int]string{404: "?create=1", 410: "?create=1", 409: "several checks", 500: "", 429: ""} {
		status = code
		err := h.send(t.Context(), notice())
		if err == nil || errors.As(err, new(*forGood)) != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
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

func TestSendmailOfSeveral(t *testing.T) {
	program := write(t, "sendmail", "#!/bin/sh\ncat >/dev/null\ncase $5 in b) exit 67;; c) exit 75;; esac\n", 0o755)
	m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"a", "b", "c"}, Sendmail: program}}, "box")
	var part *partly
	if err := m.send(t.Context(), notice()); !errors.As(err, &part) || !slices.Equal(part.over, []string{"a", "b"}) || len(part.never) != 1 ||
		len(part.later) != 1 || !strings.HasPrefix(part.later[0].String(), "c: ") {
		t.Errorf("%v: %+v", err, part)
	}
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

// answer is a server that speaks as much SMTP as it takes to get a message. It answers recipients as refuse says.
func answer(t *testing.T, conn net.Conn, refuse map[string]string, said chan<- string) {
	defer conn.Close()
	fmt.Fprint(conn, "220 box\r\n")
	var all strings.Builder
	lines, data := bufio.NewScanner(conn), false
	for lines.Scan() {
		line := lines.Text()
		all.WriteString(line + "\n")
		to, isTo := strings.CutPrefix(line, "RCPT TO:<")
		switch {
		case data && line == ".":
			data = false
			fmt.Fprint(conn, "250 taken\r\n")
		case data:
		case strings.HasPrefix(line, "EHLO"):
			fmt.Fprint(conn, "250 box\r\n")
		case isTo && refuse[strings.TrimSuffix(to, ">")] != "":
			fmt.Fprint(conn, refuse[strings.TrimSuffix(to, ">")]+"\r\n")
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

// smtpServer answers one connection after the other, and returns its address.
func smtpServer(t *testing.T, refuse map[string]string) (address string, said chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	said = make(chan string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(t, conn, refuse, said)
		}
	}()
	return l.Addr().String(), said
}

// One recipient of several who is refused keeps the others from nothing, and they do not get it twice.
func TestSeveralRecipients(t *testing.T) {
	const later, never, many = "451 try later", "550 no such user", "552 too many recipients"
	for rule, c := range map[string]struct {
		refuse map[string]string
		over   []string // before
		asked  []string
		want   string
		after  []string // over by then; nil: as before
		left   bool
	}{
		"all take it":        {nil, nil, []string{"a", "b", "c"}, "", nil, false},
		"one may later":      {map[string]string{"b": later}, nil, []string{"a", "b", "c"}, "b: 451 \"try later\"", []string{"a", "c"}, true},
		"one never will":     {map[string]string{"b": never}, nil, []string{"a", "b", "c"}, "b: 550 \"no such user\"", []string{"a", "b", "c"}, false},
		"there are too many": {map[string]string{"c": many}, nil, []string{"a", "b", "c"}, "c: 552 \"too many", []string{"a", "b"}, true},
		"one may later, one never": {
			map[string]string{"b": never, "c": later}, nil, []string{"a", "b", "c"}, "b: 550 \"no such user\"; c: 451", []string{"a", "b"}, true,
		},
		"nobody takes it":                  {map[string]string{"a": never, "b": never, "c": later}, nil, []string{"a", "b", "c"}, "a: 550 \"no such user\"; b: 550", nil, true},
		"again to who is left":             {nil, []string{"a", "c"}, []string{"b"}, "", nil, false},
		"again to one who never will":      {map[string]string{"b": never}, []string{"a", "c"}, []string{"b"}, "b: 550 \"no such user\"", []string{"b"}, false},
		"again to one who still may later": {map[string]string{"b": later}, []string{"a", "c"}, []string{"b"}, "b: 451 \"try later\"", []string{}, true},
	} {
		t.Run(rule, func(t *testing.T) {
			address, said := smtpServer(t, c.refuse)
			m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"a", "b", "c", "a"}, SMTP: address}}, "box")
			n := notice()
			n.Over = c.over
			err := m.send(t.Context(), n)
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			var asked []string
			for line := range strings.Lines(<-said) {
				if to, ok := strings.CutPrefix(line, "RCPT TO:<"); ok {
					asked = append(asked, strings.Trim(to, ">\n"))
				}
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked for %q, want %q", asked, c.asked)
			}
			var part *partly
			if is := errors.As(err, &part); is != (c.after != nil) {
				t.Fatalf("in part: %v", err)
			} else if is && (!slices.Equal(part.over, c.after) || (len(part.later) > 0) != c.left) {
				t.Errorf("over for %q, left %v", part.over, part.later)
			}
		})
	}
}

// A server that takes TLS from the first byte, and says nothing, costs its time and no more.
func TestTLSThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.46.0.5:465")
	if err != nil {
		t.Skip(err) // somebody else has the port, or it takes root
	}
	defer l.Close()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // while the connection is secured
		m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"ops@example.com"}, SMTP: l.Addr().String()}}, "box")
		if err := m.send(ctx, notice()); err == nil {
			t.Error("it was sent")
		}
	}
}

func TestSMTP(t *testing.T) {
	address, said := smtpServer(t, nil)
	m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"ops@example.com"}, From: "jobd@example.com", SMTP: address}}, "box")
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

// A server that says a line, or lines, without an end takes neither memory nor processor for as long as it likes.
func TestSMTPWithoutAnEnd(t *testing.T) {
	for name, piece := range map[string]string{"a line": strings.Repeat("x", 64<<10), "lines": strings.Repeat("220-x\r\n", 8<<10)} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			said := make(chan int, 1)
			go func() {
				total := 0
				defer func() { said <- total }()
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				for total < 64<<20 {
					n, err := io.WriteString(conn, piece)
					if total += n; err != nil {
						return
					}
				}
			}()
			m := newSender(&notify.Receiver{Mail: &notify.Mail{To: []string{"ops@example.com"}, SMTP: l.Addr().String()}}, "box")
			if err := m.send(t.Context(), notice()); err == nil || !strings.Contains(err.Error(), "says more than") {
				t.Errorf("%.200v", err)
			}
			if n := <-said; n >= 64<<20 {
				t.Errorf("all of %d bytes were taken", n)
			}
		})
	}
}
