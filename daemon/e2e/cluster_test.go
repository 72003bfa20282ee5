package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asCluster serves the daemon's API without what only jobd has, so that a client finds no more than in a cluster.
func asCluster(t *testing.T, d *daemon) (server string) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "jobd"})
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(r *http.Response) error {
		switch r.Request.URL.Path {
		case "/version":
			text, err := io.ReadAll(r.Body)
			text = regexp.MustCompile(`\+jobd[^"]*`).ReplaceAll(text, nil)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", strconv.Itoa(len(text)))
			return err
		case "/apis/batch/v1":
		default:
			return nil
		}
		r.Header.Set("Content-Type", "application/json")
		list := &metav1.APIResourceList{}
		if err := errors.Join(json.NewDecoder(r.Body).Decode(list), r.Body.Close()); err != nil {
			return err
		}
		list.APIResources = slices.DeleteFunc(list.APIResources, func(a metav1.APIResource) bool {
			return slices.Contains([]string{"jobs/log", "jobs/why", "jobs/picture", "jobs/retry", "jobs/move"}, a.Name)
		})
		text, err := json.Marshal(list)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	proxy.Transport = &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := strings.HasPrefix(r.URL.Path, "/jobd/") || strings.HasSuffix(r.URL.Path, "/why") ||
			strings.Contains(r.URL.Path, "/jobs/") && strings.HasSuffix(r.URL.Path, "/log")
		if own {
			http.NotFound(w, r)
			return
		}
		if slices.Contains([]string{"/api", "/apis", "/apis/batch/v1"}, r.URL.Path) {
			r.Header.Set("Accept", "application/json") // neither protobuf nor all groups in one answer
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The same commands against a cluster, chosen by --context, as far as its API tells.
func TestTheSameCommandsAgainstACluster(t *testing.T) {
	t.Parallel()
	d := start(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: far, cluster: {server: "`+asCluster(t, d)+`"}}]
users: [{name: me, user: {}}]
contexts: [{name: away, context: {cluster: far, user: me}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	jobctl := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "jobctl"), append([]string{"--context", "away"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG="+kubeconfig, "JOBD_SOCKET=/nowhere")
		return cmd
	}
	manifest := jobOf("x", "echo one of $JOB_COMPLETION_INDEX; echo two; printf end; exit $((JOB_COMPLETION_INDEX * 7))",
		"  completions: 2\n  parallelism: 1\n  completionMode: Indexed\n")
	// The exit code, and the progress.
	out, errOut, code := exitOf(t, jobctl("submit", "-f", "-", "--progress=plain"), manifest)
	// A cluster sends the logs of two pods by two connections, of which the later may overtake the end of the earlier.
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	if want := []string{"end", "end", "one of 0", "one of 1", "two", "two"}; code != 7 || !slices.Equal(lines, want) {
		t.Errorf("submit: got %d, %q, want the lines %q\n%s", code, out, want, errOut)
	}
	if !strings.Contains(errOut, "job x: created") || !strings.Contains(errOut, "exit code 7") {
		t.Errorf("submit shows the progress %q", errOut)
	}
	if out, errOut, code := exitOf(t, jobctl("follow", "jobs/x"), ""); code != 7 || strings.Count(out, "two\n") != 2 {
		t.Errorf("follow: got %d, %q\n%s", code, out, errOut)
	}
	// The end, whatever it is.
	if out, errOut, code := exitOf(t, jobctl("wait", "--for=finished", "jobs/x"), ""); code != 1 || !strings.Contains(out, "failed") {
		t.Errorf("wait: got %d, %q\n%s", code, out, errOut)
	}
	// Why, with what the answer is made of.
	out, errOut, code = exitOf(t, jobctl("why", "jobs/x"), "")
	for _, want := range []string{"has failed (BackoffLimitExceeded)", "exit code 7", "| end", "cluster's API"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("why: %d, no %q in %q\n%s", code, want, out, errOut)
		}
	}
	// CronJobs.
	d.apply(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [echo], args: [usual]}]}}}}
`)
	if out, errOut, code := exitOf(t, jobctl("create", "job", "now", "--from=cronjob/nightly", "--", "other"), ""); code != 0 {
		t.Fatalf("create job --from: %d %s %s", code, out, errOut)
	}
	d.complete("now")
	if out, errOut, code := exitOf(t, jobctl("logs", "cronjobs/nightly"), ""); code != 0 || !strings.Contains(out, "other") {
		t.Errorf("logs of a CronJob: %d %q %s", code, out, errOut)
	}
	// The help begins with Jobs, and has kubectl's commands for what a cluster has.
	if out, _, code := exitOf(t, jobctl("help"), ""); code != 0 || !strings.Contains(out, "Jobs:\n  submit ") || !strings.Contains(out, "\n  rollout ") {
		t.Errorf("help: %d %s", code, out)
	}
}
