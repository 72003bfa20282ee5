package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mailbox is a mail server with as much of SMTP as it takes to get a message.
type mailbox struct {
	address string
	mu      sync.Mutex
	got     []string
}

func startMailbox(t *testing.T) *mailbox {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	m := &mailbox{address: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(conn)
		}
	}()
	return m
}

func (m *mailbox) serve(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "220 mailbox\r\n")
	var all strings.Builder
	data := false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		line := lines.Text()
		all.WriteString(line + "\n")
		switch {
		case data && line == ".":
			data = false
			m.mu.Lock()
			m.got = append(m.got, all.String())
			m.mu.Unlock()
			fmt.Fprint(conn, "250 taken\r\n")
		case data:
		case line == "DATA":
			data = true
			fmt.Fprint(conn, "354 go on\r\n")
		case line == "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		default:
			fmt.Fprint(conn, "250 ok\r\n")
		}
	}
}

// of returns the mails about a Job.
func (m *mailbox) of(job string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.got {
		if strings.Contains(text, "Job default/"+job+" has failed") {
			all = append(all, text)
		}
	}
	return all
}

// TestReceiversThatFail has a Job of which six receivers are to be told: one that hangs, one that is not there, one that answers 500, one
// that is retired, a mailbox, and one that is well. Each fails for itself alone; what is lost is told in doctor, by an event and by the
// metric; and what waits comes once its receiver is well, with the same ID, over kill -9.
func TestReceiversThatFail(t *testing.T) {
	t.Parallel()
	well, broken, retired, hangs, mail := startHook(t), startHook(t), startHook(t), startHook(t), startMailbox(t)
	answers := func(code int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(code) }
	}
	broken.does, retired.does = answers(http.StatusInternalServerError), answers(http.StatusGone)
	woken := make(chan struct{})
	hangs.does = func(http.ResponseWriter, *http.Request, int) { <-woken }
	absent, err := net.Listen("tcp", "127.0.0.1:0") // its port is given back, and nobody else gets it soon
	if err != nil {
		t.Fatal(err)
	}
	at := absent.Addr().String()
	absent.Close()
	settings := receivers(t, fmt.Sprintf(`  well: {webhook: {url: %q}}
  broken: {webhook: {url: %q}}
  retired: {webhook: {url: %q}}
  hangs: {webhook: {url: %q}, timeout: 2s}
  absent: {webhook: {url: "http://%s/"}}
  mail: {mail: {to: [ops@example.com], smtp: %q}}
`, well.URL, broken.URL, retired.URL, hangs.URL, at, mail.address))
	d := start(t, "--config", settings, "--network", "none")
	if _, err := d.BatchV1().Jobs("default").Create(t.Context(), noticed("boom", "hangs,absent,broken,retired,mail,well", "failed", "exit 3"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("those that are well are told, and all others are tried", func() error {
		if n, m := len(well.of("boom")), len(mail.of("boom")); n != 1 || m != 1 {
			return fmt.Errorf("%d notices, %d mails", n, m)
		}
		if len(broken.of("boom")) == 0 || len(hangs.of("boom")) == 0 || len(retired.of("boom")) != 1 {
			return errors.New("not all are tried")
		}
		return nil
	})
	id := well.of("boom")[0].ID
	if text := mail.of("boom")[0]; !strings.Contains(text, "RCPT TO:<ops@example.com>") || !strings.Contains(text, "\nMessage-ID: <"+id+"@") ||
		!strings.Contains(text, "exit code 3") {
		t.Errorf("the mail is\n%s", text)
	}

	// What is lost, and what waits.
	d.eventually("doctor knows of all", func() error {
		said, _ := d.try("jobd", nil, "doctor", "--root", d.root, "--state", d.state, "--config", settings)
		flat := strings.Join(strings.Fields(said), " ")
		for _, words := range []string{
			"1 notices could not be delivered to retired", "is retired", "1 notices wait for broken, which said: 500",
			"1 notices wait for hangs", "1 notices wait for absent",
		} {
			if !strings.Contains(flat, words) {
				return fmt.Errorf("%q is not in:\n%s", words, said)
			}
		}
		for _, name := range []string{"well", "mail"} {
			if strings.Contains(flat, "for "+name) || strings.Contains(flat, "to "+name+",") {
				return fmt.Errorf("%s is told of:\n%s", name, said)
			}
		}
		return nil
	})
	if said := d.jobctl("events", "--for", "jobs/boom"); strings.Count(said, "NoticeNotDelivered") != 1 ||
		!strings.Contains(said, `retired could not be told of "failed"`) {
		t.Errorf("events:\n%s", said)
	}
	metrics := d.jobctl("get", "--raw", "/metrics")
	for _, line := range []string{
		`jobd_notices_total{receiver="retired",result="lost"} 1`, `jobd_notices_total{receiver="well",result="delivered"} 1`,
		`jobd_notices_total{receiver="mail",result="delivered"} 1`, `jobd_notices_total{receiver="broken",result="failed"} `,
		`jobd_notices_total{receiver="hangs",result="failed"} `, `jobd_notices_total{receiver="absent",result="failed"} `,
	} {
		if !strings.Contains(metrics, "\n"+line) {
			t.Errorf("no metric %s", line)
		}
	}

	// They get well while jobd is killed.
	d.kill()
	broken.mu.Lock()
	broken.does = nil
	broken.mu.Unlock()
	hangs.mu.Lock()
	hangs.does = nil
	hangs.mu.Unlock()
	close(woken)
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	late := serveHook(t, l)
	d.serve()
	d.eventually("what waited is delivered", func() error {
		said, err := d.try("jobctl", nil, "notify", "-o", "json")
		if err != nil || strings.Count(said, `"pending": 0`) != 6 {
			return errors.New(said)
		}
		return nil
	})
	for name, h := range map[string]*hook{"well": well, "broken": broken, "hangs": hangs, "absent": late} {
		all := h.of("boom")
		if len(all) == 0 || all[len(all)-1].failed || slices.ContainsFunc(all, func(n told) bool { return n.ID != id }) {
			t.Errorf("%s: %+v, want the ID %s", name, all, id)
		}
	}
	if n := len(retired.of("boom")); n != 1 {
		t.Errorf("the one that is retired was told %d times", n)
	}
}
