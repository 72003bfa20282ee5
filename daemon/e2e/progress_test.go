package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jobd/jobd/testdata/registry"
)

// tmux is a terminal with a shell in it.
type tmux struct {
	t      *testing.T
	socket string
}

func openTmux(t *testing.T, d *daemon, width, height int) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux")
	}
	m := &tmux{t, filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", m.socket, "kill-server").Run() })
	m.do("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"env", "-u", "CI", "LC_ALL=C.UTF-8", "JOBD_SOCKET="+d.socket(), "PATH="+bin+":"+os.Getenv("PATH"), "PS1=$ ", "sh")
	return m
}

func (m *tmux) do(args ...string) string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), "tmux", append([]string{"-u", "-S", m.socket}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (m *tmux) types(keys ...string) { m.do(append([]string{"send-keys"}, keys...)...) }

// screen returns what is on the screen, and what has scrolled off it. Lines that were wrapped are joined.
func (m *tmux) screen() string { return m.do("capture-pane", "-p", "-J", "-S", "-") }

// shows waits until the screen shows something.
func (m *tmux) shows(words string) string {
	m.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		screen := m.screen()
		if strings.Contains(screen, words) {
			return screen
		}
		if time.Now().After(late) {
			m.t.Fatalf("the terminal does not show %q:\n%s", words, screen)
		}
	}
}

// TestProgress: what is shown of a Job while it runs.
func TestProgress(t *testing.T) {
	t.Parallel()
	d := start(t)
	manifest := func(name string) string {
		return jobOf(name, fmt.Sprintf(`i=0; while [ $i -lt 40 ]; do echo "index $JOB_COMPLETION_INDEX line $i %s end"; i=$((i+1)); done; until [ -e /go ]; do sleep 0.1; done`,
			strings.Repeat("x", 70)), "  completions: 4\n  parallelism: 2\n  completionMode: Indexed\n")
	}
	letGo := func(name string, n int) {
		t.Helper()
		for _, p := range d.running(name, n) {
			d.jobctl("exec", p.Name, "--", "touch", "/go")
		}
	}
	t.Run("a block on a terminal, whole logs above it", func(t *testing.T) {
		term := openTmux(t, d, 60, 20)
		term.types("jobctl submit -f "+writeFile(t, manifest("block"))+"; echo code $?", "Enter")
		term.shows("0 of 4 succeeded, 2 active")
		term.shows("▣▣··")
		term.do("resize-window", "-x", "45", "-y", "15")
		letGo("block", 2)
		term.shows("■■▣▣")
		letGo("block", 2)
		screen := term.shows("code 0")
		for index := range 4 {
			for line := range 40 {
				want := fmt.Sprintf("index %d line %d %s end\n", index, line, strings.Repeat("x", 70))
				if n := strings.Count(screen, want); n != 1 {
					t.Errorf("%q is on the screen %d times", want, n)
				}
			}
		}
		if strings.Contains(screen, "▣") || !strings.Contains(screen, "job block: complete") {
			t.Error("something of the block has stayed")
		}
		if t.Failed() {
			t.Log(screen)
		}
		term.types("stty -a", "Enter")
		term.shows(" echo ")
	})
	t.Run("Ctrl-C asks", func(t *testing.T) {
		term := openTmux(t, d, 90, 24)
		term.types("jobctl submit -f "+writeFile(t, jobOf("asks", "sleep 1000000"))+"; echo code $?", "Enter")
		d.running("asks", 1)
		term.shows("1 active")
		term.types("C-c")
		term.shows("what about job asks?")
		term.types("d")
		term.shows("code 130")
		d.running("asks", 1) // it goes on
		second := openTmux(t, d, 90, 24)
		second.types("jobctl follow jobs/asks; echo again $?", "Enter")
		second.shows("1 active")
		second.types("C-c")
		second.shows("[k] kill it")
		second.types("k")
		second.shows("again 130")
		if pods := d.pods("asks"); len(pods) > 0 {
			t.Errorf("it has left %d pods", len(pods))
		}
	})
	t.Run("plain lines elsewhere", func(t *testing.T) {
		out, errOut, code := exitOf(t, d.jobctlWith("submit", "-f", "-"), jobOf("plain", "echo hello"))
		if code != 0 || out != "hello\n" || strings.Contains(errOut, "\x1b") || !strings.Contains(errOut, "job plain: complete\n") {
			t.Errorf("got %d, %q\n%s", code, out, errOut)
		}
	})
	t.Run("quiet", func(t *testing.T) {
		if out, errOut, code := exitOf(t, d.jobctlWith("submit", "--progress=quiet", "-f", "-"), jobOf("quiet", "echo hello; exit 4")); code != 4 ||
			out != "hello\n" || errOut != "" {
			t.Errorf("got %d, %q, %q", code, out, errOut)
		}
	})
	t.Run("json", func(t *testing.T) {
		out, errOut, code := exitOf(t, d.jobctlWith("submit", "--progress=json", "-f", "-"), jobOf("json", "echo hello; exit 4"))
		var kinds []string
		for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
			var e struct {
				Type, State, Line string
				ExitCode          *int
			}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%v: %s", err, lines.Text())
			}
			kinds = append(kinds, strings.TrimSpace(e.Type+" "+e.State+e.Line))
			if e.Type == "end" && (e.ExitCode == nil || *e.ExitCode != 4) {
				t.Error(lines.Text())
			}
		}
		for _, want := range []string{"job created", "pod failed", "log hello", "end"} {
			if !slices.Contains(kinds, want) {
				t.Errorf("no %q among %q", want, kinds)
			}
		}
		if code != 4 || errOut != "" {
			t.Errorf("got %d, %q", code, errOut)
		}
	})
}

// slowly is a registry's proxy that stops in the middle of each large blob until it is let go.
func slowly(t *testing.T, registry string, letGo <-chan struct{}) (host string) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	proxy.ModifyResponse = func(r *http.Response) error {
		const large = 100 << 10
		if r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/blobs/") && r.ContentLength > large {
			r.Body = &halting{ReadCloser: r.Body, left: r.ContentLength / 2, letGo: letGo}
		}
		return nil
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

type halting struct {
	io.ReadCloser
	left  int64
	letGo <-chan struct{}
}

func (h *halting) Read(p []byte) (int, error) {
	if h.left <= 0 {
		<-h.letGo
	} else {
		p = p[:min(int64(len(p)), h.left)]
	}
	n, err := h.ReadCloser.Read(p)
	h.left -= int64(n)
	return n, err
}

// TestProgressOfImages: bytes and layers of what is being pulled.
func TestProgressOfImages(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{})
	_, _ = r.Push(t, busyboxWith(t, "slow"), "slow:1")
	letGo := make(chan struct{})
	free := sync.OnceFunc(func() { close(letGo) })
	t.Cleanup(free) // before the proxy is closed
	image := slowly(t, r.Host, letGo) + "/slow:1"
	d := start(t)
	c := talk(t, d.jobctlWith("submit", "--progress=json", "--image", image, "--", "echo", "hello"))
	wanted := regexp.MustCompile(`"type":"image","name":"` + regexp.QuoteMeta(image) +
		`","state":"pulling","bytes":[1-9][0-9]*,"totalBytes":[1-9][0-9]*,.*"totalLayers":[1-9]`)
	for late := time.Now().Add(patience); !wanted.MatchString(c.output()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it does not show the pull:\n%s", c.output())
		}
	}
	if out, _, _ := exitOf(t, d.jobctlWith("get", "--raw", "/jobd/v1/images?op=transfers"), ""); !strings.Contains(out, image) {
		t.Errorf("the transfers are %s", out)
	}
	free()
	if code := c.ends(); code != 0 || !strings.Contains(c.output(), `"line":"hello"`) {
		t.Errorf("got %d\n%s", code, c.output())
	}
	if out, _, _ := exitOf(t, d.jobctlWith("get", "--raw", "/jobd/v1/images?op=transfers"), ""); strings.TrimSpace(out) != `{"items":[]}` {
		t.Errorf("after it the transfers are %s", out)
	}
}
