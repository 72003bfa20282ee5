package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asCluster serves the daemon's API without what only jobd has, so that a client finds no more than in a cluster.
func asCluster(t *testing.T, d *daemon) (server string) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "jobd"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := strings.HasPrefix(r.URL.Path, "/jobd/") || strings.Contains(r.URL.Path, "/jobs/") && strings.HasSuffix(r.URL.Path, "/log")
		if own {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Wish 20: the same commands against a cluster. Only for logs there is no other way than there: those of the pods.
func TestWishSameCommandsAgainstACluster(t *testing.T) {
	d := start(t)
	server := asCluster(t, d)
	jobctl := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "jobctl"), append([]string{"--server", server}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=/dev/null")
		return cmd
	}
	manifest := jobOf("x", "echo one of $JOB_COMPLETION_INDEX; echo two; printf end; exit $((JOB_COMPLETION_INDEX * 7))",
		"  completions: 2\n  parallelism: 1\n  completionMode: Indexed\n")
	out, errOut, code := exitOf(t, jobctl("submit", "-f", "-"), manifest)
	if want := "one of 0\ntwo\nend\none of 1\ntwo\nend"; code != 7 || out != want {
		t.Errorf("submit: got %d, %q, want %q\n%s", code, out, want, errOut)
	}
	if out, errOut, code := exitOf(t, jobctl("follow", "jobs/x"), ""); code != 7 || strings.Count(out, "two\n") != 2 {
		t.Errorf("follow: got %d, %q\n%s", code, out, errOut)
	}
	if out, errOut, code := exitOf(t, jobctl("wait", "--for=finished", "jobs/x"), ""); code != 1 || !strings.Contains(out, "failed") {
		t.Errorf("wait: got %d, %q\n%s", code, out, errOut)
	}
}
