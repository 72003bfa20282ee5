package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// hook is a receiver by HTTP that notes what it was told, and does with it what it is told to.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	told []told
	does func(w http.ResponseWriter, r *http.Request, times int) // times is how often it was told of the Job, this one included
}

// told is a notice as it came.
type told struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Object struct {
			Name string `json:"name"`
		} `json:"object"`
		Said string `json:"said"`
	} `json:"data"`
	failed bool // it was not taken
}

func startHook(t *testing.T) *hook {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveHook(t, l)
}

// serveHook makes one that listens already.
func serveHook(t *testing.T, l net.Listener) *hook {
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n told
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &n); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		h.mu.Lock()
		times := 1
		for _, before := range h.told {
			if before.Data.Object.Name == n.Data.Object.Name {
				times++
			}
		}
		n.failed = h.does != nil // unless that returns
		h.told = append(h.told, n)
		at, does := len(h.told)-1, h.does
		h.mu.Unlock()
		if does != nil {
			out := httptest.NewRecorder()
			does(out, r, times)
			h.mu.Lock()
			h.told[at].failed = out.Code >= 300
			h.mu.Unlock()
			maps.Copy(w.Header(), out.Header())
			w.WriteHeader(out.Code)
		}
	}))
	h.Listener = l
	h.Start()
	t.Cleanup(h.Close)
	return h
}

// of returns what was told of a Job.
func (h *hook) of(job string) (all []told) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.told {
		if n.Data.Object.Name == job {
			all = append(all, n)
		}
	}
	return all
}

// receivers writes a file of settings with receivers.
func receivers(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.WriteFile(path, []byte("notify-receivers:\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noticed is a Job of one pod that wants its receivers told.
func noticed(name, receivers, on, script string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"jobd.dev/notify": receivers, "jobd.dev/notify-on": on}}}
	j.Spec.BackoffLimit = ptr.To(int32(0))
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
		{Name: "c", Image: "busybox:1.36", Command: []string{"sh", "-c", script}},
	}}
	return j
}

// TestNotices kills the daemon at each step of a delivery, while the receiver takes notices, answers 500, asks to be left alone for a while,
// hangs, and hangs up: each notice comes, always with one ID.
func TestNotices(t *testing.T) {
	t.Parallel()
	build, hook := crashBuild(t), startHook(t)
	out := filepath.Join(t.TempDir(), "out")
	page := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(page, []byte("#!/bin/sh\ncat >/dev/null\necho \"$JOBD_NOTICE_ID $JOBD_NOTICE_KIND $JOBD_NOTICE_OBJECT\" >>"+out+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	settings := receivers(t, fmt.Sprintf("  ops: {webhook: {url: %q}, timeout: 3s}\n  page: {command: {args: [%s]}}\n", hook.URL, page))
	c := startMatrix(t, &daemon{t: t, build: build, flags: []string{"--config", settings}}, "/var/tmp")

	points := []string{"notice.explained", "notice.sending", "notice.sent", "notice.noted"}
	for i, fault := range []struct {
		name string
		does func(w http.ResponseWriter, r *http.Request, times int)
	}{
		{"well", nil},
		{"with-500", func(w http.ResponseWriter, _ *http.Request, times int) {
			if times == 1 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}},
		{"busy", func(w http.ResponseWriter, _ *http.Request, times int) {
			if times == 1 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}},
		{"hanging", func(w http.ResponseWriter, r *http.Request, times int) {
			if times == 1 {
				<-r.Context().Done()
				w.WriteHeader(http.StatusServiceUnavailable) // which nobody gets
			}
		}},
		{"hanging-up", func(_ http.ResponseWriter, _ *http.Request, times int) {
			if times == 1 {
				panic(http.ErrAbortHandler)
			}
		}},
	} {
		hook.mu.Lock()
		hook.does = fault.does
		hook.mu.Unlock()
		for k, point := range points {
			if testing.Short() && (i+k)%3 > 0 {
				continue
			}
			name := strings.ReplaceAll(fmt.Sprintf("%s-%s", fault.name, point), ".", "-")
			c.arm(point, 1)
			c.until("the Job is taken", func() error {
				_, err := c.BatchV1().Jobs("default").Create(t.Context(), noticed(name, "ops,page", "failed", "echo no luck; exit 3"), metav1.CreateOptions{})
				if err != nil && strings.Contains(err.Error(), "already exists") {
					return nil
				}
				return err
			})
			c.until("the notice is delivered at "+point, func() error {
				if n := hook.of(name); len(n) == 0 || n[len(n)-1].failed {
					return fmt.Errorf("it was told %+v", n)
				}
				said, err := c.try("jobctl", nil, "notify", "-o", "json")
				if err != nil || strings.Count(said, `"pending": 0`) != 2 {
					return errors.New(said)
				}
				return nil
			})
			if !c.disarm() {
				t.Errorf("nothing has died at %s", point)
			}
			var ids []string
			for _, n := range hook.of(name) {
				ids = append(ids, n.ID)
				said := n.Data.Said
				if n.Type != "dev.jobd.notice.failed" || !strings.Contains(said, "exit code 3") || !strings.Contains(said, "jobctl why jobs/"+name) {
					t.Errorf("%s: %+v", name, n)
				}
			}
			if ids = slices.Compact(ids); len(ids) != 1 {
				t.Errorf("%s: %d ids of one notice: %q", name, len(ids), ids)
			}
			paged, _ := os.ReadFile(out)
			var lines []string
			for line := range strings.Lines(string(paged)) {
				if strings.HasSuffix(line, " jobs/"+name+"\n") {
					lines = append(lines, line)
				}
			}
			if lines = slices.Compact(lines); len(lines) != 1 || !strings.HasPrefix(lines[0], ids[0]+" failed ") {
				t.Errorf("%s: the command was told %q", name, lines)
			}
		}
	}
	c.remove()
}

// TestOverdue has a CronJob that is suspended for longer than a success is expected: one notice, over kill -9, and it shows; a run by
// hand mends it, and somebody else's service is pinged.
func TestOverdue(t *testing.T) {
	t.Parallel()
	hook := startHook(t)
	var mu sync.Mutex
	var pings []string
	health := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		pings = append(pings, r.URL.Path)
	}))
	defer health.Close()
	settings := receivers(t, fmt.Sprintf("  ops: {webhook: {url: %q}}\n  watch: {healthcheck: {url: %q}}\n", hook.URL, health.URL+"/{namespace}_{name}"))
	d := start(t, "--config", settings)
	said := d.applyWarned(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup, annotations: {jobd.dev/notify: "ops,watch,nobody", jobd.dev/expect-success-every: 1m}}
spec:
  schedule: "0 0 1 1 *"
  suspend: true
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [echo, saved]}]}}}}
`)
	// Of this Job's name a success is expected too; it succeeds once, and is gone.
	report := noticed("report", "ops", "overdue", "echo reported")
	report.Annotations["jobd.dev/expect-success-every"] = "1m"
	report.Spec.TTLSecondsAfterFinished = ptr.To(int32(1))
	if _, err := d.BatchV1().Jobs("default").Create(t.Context(), report, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if said := d.jobctl("why", "jobs/report"); !strings.Contains(said, "A Job of this name is expected to succeed again within 60s") {
		t.Errorf("why of a Job of whose name a success is expected:\n%s", said)
	}
	if !strings.Contains(said, `nobody is told by "nobody"`) {
		t.Errorf("the warning of a receiver that there is not: %s", said)
	}
	if said := d.jobctl("notify"); !strings.Contains(said, "watch") || !strings.Contains(said, "healthcheck") {
		t.Errorf("receivers: %s", said)
	}
	if said := d.jobctl("notify", "test", "ops"); !strings.Contains(said, "ops has taken a notice") || len(hook.of("ops")) != 1 {
		t.Errorf("a test: %s, %+v", said, hook.of("ops"))
	}
	if said, err := d.try("jobctl", nil, "notify", "test", "nobody"); err == nil || !strings.Contains(said, "no receiver nobody") {
		t.Errorf("a test of nobody: %s", said)
	}
	d.kill()
	d.serve()
	d.eventually("it is overdue", func() error {
		if n := hook.of("backup"); len(n) != 1 {
			return fmt.Errorf("it was told %+v", n)
		}
		return nil
	})
	d.eventually("the name of the Job that is gone is overdue", func() error {
		if n := hook.of("report"); len(n) != 1 || !strings.Contains(n[0].Data.Said, "The last success was 6") {
			return fmt.Errorf("it was told %+v", n)
		}
		return nil
	})
	first := hook.of("backup")[0]
	if n := first; n.Type != "dev.jobd.notice.overdue" || !strings.Contains(n.Data.Said, "It is suspended") ||
		!strings.Contains(n.Data.Said, "It is overdue: no Job has succeeded within") {
		t.Errorf("the notice is %+v", n)
	}
	d.kill()
	d.serve()
	for what, words := range map[string]string{
		d.jobctl("get", "cronjobs"): "<none> (overdue)", d.jobctl("why", "cronjobs/backup"): "It is overdue",
		d.jobctl("get", "--raw", "/metrics"): `jobd_cronjob_overdue{cronjob="backup",namespace="default"} 1`,
		d.jobctl("events"):                   "Overdue",
		d.jobctl("why", "jobs/report"):       "It is overdue: no Job of this name has succeeded within 60s (jobd.dev/expect-success-every); the last",
		d.jobctl("get", "--raw", "/metrics"): `jobd_job_overdue{job_name="report",namespace="default"} 1`,
	} {
		if !strings.Contains(what, words) {
			t.Errorf("%q is not in:\n%s", words, what)
		}
	}
	d.jobctl("create", "job", "now", "--from", "cronjob/backup")
	d.complete("now")
	d.eventually("it has recovered, and the service was told", func() error {
		mu.Lock()
		defer mu.Unlock()
		n, got := hook.of("now"), strings.Join(pings, " ")
		if len(n) != 1 || n[0].Type != "dev.jobd.notice.recovered" || got != "/default_backup/start /default_backup" {
			return fmt.Errorf("%+v, %s", n, got)
		}
		return nil
	})
	if said := d.jobctl("get", "cronjobs"); strings.Contains(said, "overdue") {
		t.Errorf("it is overdue still:\n%s", said)
	}
	for _, n := range hook.of("backup") { // the kill may have come before jobd knew that it had arrived
		if n.ID != first.ID {
			t.Errorf("it was told of another time: %+v", n)
		}
	}
}

// applyWarned applies a manifest, and returns what is said of it.
func (d *daemon) applyWarned(manifest string) string {
	d.t.Helper()
	said, err := d.try("jobctl", []byte(manifest), "apply", "-f", "-")
	if err != nil {
		d.t.Fatalf("%v: %s", err, said)
	}
	return said
}
