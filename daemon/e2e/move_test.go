package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// contextsOf writes a kubeconfig with contexts of servers that take whoever comes.
func contextsOf(t *testing.T, servers map[string]string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nusers: [{name: me, user: {}}]\nclusters:\n"
	for name, server := range servers {
		text += fmt.Sprintf("- {name: %s, cluster: {server: %q}}\n", name, server)
	}
	text += "contexts:\n"
	for name := range servers {
		text += fmt.Sprintf("- {name: %s, context: {cluster: %s, user: me}}\n", name, name)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// jobctlTo returns a jobctl that knows the contexts of a kubeconfig, and whose own server is the daemon.
func (d *daemon) jobctlTo(kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(bin, "jobctl"), args...)
	cmd.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+d.t.TempDir(), "KUBECONFIG="+kubeconfig)
	return cmd
}

// A Job goes to another jobd, over TLS, and to a cluster: followed as here, after it was looked what would be missing there.
func TestSubmitOnAnotherServer(t *testing.T) {
	t.Parallel()
	here := start(t, "--network", "none")
	there := start(t, "--network", "none", "--listen", freePort(t))
	tls := there.kubeconfig()
	text, err := os.ReadFile(tls)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(there.jobctl("config", "current-context", "--kubeconfig", tls))
	if name == "" {
		t.Fatalf("no context in\n%s", text)
	}
	submit := func(stdin string, args ...string) (string, string, int) {
		return exitOf(t, here.jobctlTo(tls, append([]string{"submit", "--on", name, "--progress=plain"}, args...)...), stdin)
	}
	out, errOut, code := submit(jobOf("x", "echo there; exit 3"), "-f", "-")
	if code != 3 || out != "there\n" || !strings.Contains(errOut, "Warning: spec.template.spec.containers[0].image: busybox:1.36 is only here") {
		t.Errorf("submit: %d, %q\n%s", code, out, errOut)
	}
	there.failed("x", "BackoffLimitExceeded")
	if _, err := here.BatchV1().Jobs("default").Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("here: %v", err)
	}
	if out, errOut, code := submit("", "--image", "busybox:1.36", "--name", "flags", "--detach", "--", "true"); code != 0 || out != "job.batch/flags\n" {
		t.Errorf("by flags: %d, %q\n%s", code, out, errOut)
	}
	there.complete("flags")
	// What comes with it is applied there; what is missing is named, before anything is made.
	settings := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
	needs := jobOf("needy", "true", "      serviceAccountName: runner\n      volumes: [{name: v, configMap: {name: settings}}]\n")
	_, errOut, code = submit(settings+"---\n"+needs, "-f", "-")
	want := "  spec.template.spec.serviceAccountName: there is no ServiceAccount runner in " + name
	if code != 125 || !strings.Contains(errOut, want) || strings.Contains(errOut, "ConfigMap") {
		t.Errorf("without the account: %d, no %q in\n%s", code, want, errOut)
	}
	if _, err := there.CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap was made: %v", err)
	}
	_, errOut, code = exitOf(t, here.jobctlTo(tls, "submit", "--on", "nowhere", "-f", "-"), needs)
	if code != 1 || !strings.Contains(errOut, `no context "nowhere"`) {
		t.Errorf("no such context: %d %s", code, errOut)
	}

	// Of what no server would take nothing is applied either.
	_, errOut, code = submit(settings+"---\n"+strings.Replace(needs, "{name: needy}", "{name: true}", 1), "-f", "-")
	if code != 125 || !strings.Contains(errOut, "has no name") {
		t.Errorf("a name that is none: %d\n%s", code, errOut)
	}
	if _, err := there.CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap was made: %v", err)
	}

	// A cluster has not what only this machine has, and ignores what only jobd knows.
	big := contextsOf(t, map[string]string{"big": asCluster(t, there)})
	onHost := strings.Replace(jobOf("z", "true"), "metadata: {name: z}", `metadata: {name: z, annotations: {jobd.dev/window: "00:00-24:00"}}`, 1)
	onHost += "      volumes: [{name: v, hostPath: {path: /etc}}]\n"
	cmd := here.jobctlTo(big, "submit", "--on", "big", "-f", "-")
	_, errOut, code = exitOf(t, cmd, onHost)
	for _, want := range []string{
		"spec.template.spec.containers[0].image: busybox:1.36 is only here", "spec.template.spec.volumes[0].hostPath.path: /etc is of this machine",
		"Warning: metadata.annotations[jobd.dev/window]: has no effect in a cluster", "--force",
	} {
		if code != 125 || !strings.Contains(errOut, want) {
			t.Errorf("on a cluster: %d, no %q in\n%s", code, want, errOut)
		}
	}
	out, errOut, code = exitOf(t, here.jobctlTo(big, "submit", "--on", "big", "--force", "--progress=plain", "-f", "-"), onHost)
	if code != 0 || !strings.Contains(errOut, "Warning: spec.template.spec.volumes[0]") {
		t.Errorf("with --force: %d %q\n%s", code, out, errOut)
	}
	// Commands that lead on name the server.
	_, errOut, code = exitOf(t, here.jobctlTo(big, "submit", "--on", "big", "--progress=plain", "-f", "-"), onHost)
	if code != 125 || !strings.Contains(errOut, "exists already") {
		t.Errorf("once more: %d\n%s", code, errOut)
	}
}

// gate is a proxy that ends the command at one of its changes: before the change reaches the server, or before the answer comes back.
type gate struct {
	mu    sync.Mutex
	left  int
	after bool
	kill  func()
	seen  []string
}

func (g *gate) arm(n int, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.after, g.seen = n, after, nil
}

// due reports whether a request is the one at which the command is to end.
func (g *gate) due(r *http.Request) (due, after bool) {
	changes := r.Method != http.MethodGet && !strings.Contains(r.URL.RawQuery, "dryRun")
	g.mu.Lock()
	defer g.mu.Unlock()
	if !changes || g.left == 0 {
		return false, false
	}
	g.seen = append(g.seen, r.Method+" "+r.URL.Path)
	g.left--
	return g.left == 0, g.after
}

// before returns a handler that leads to a daemon.
func (g *gate) before(d *daemon) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "jobd"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		due, after := g.due(r)
		switch {
		case !due:
			proxy.ServeHTTP(w, r)
		case after:
			proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
			fallthrough
		default:
			g.kill()
			<-r.Context().Done()
		}
	})
}

// A Job that waits is moved once, wherever the command is killed.
func TestMoveKilledAnywhere(t *testing.T) {
	t.Parallel()
	here := start(t, "--runtime", "simulated", "--allocatable", "cpu=1")
	there := start(t, "--runtime", "simulated", "--allocatable", "cpu=96")
	g := &gate{}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	near := &http.Server{Handler: g.before(here)}
	go func() { _ = near.Serve(l) }()
	t.Cleanup(func() { _ = near.Close() })
	far := httptest.NewServer(g.before(there))
	t.Cleanup(far.CloseClientConnections)
	kubeconfig := contextsOf(t, map[string]string{"big": far.URL})
	move := func(job string, more ...string) *exec.Cmd {
		cmd := here.jobctlTo(kubeconfig, append([]string{"move", "jobs/" + job, "--on", "big"}, more...)...)
		cmd.Env = append(cmd.Env, "JOBD_SOCKET="+socket)
		return cmd
	}
	gone := func(job string) {
		t.Helper()
		if _, err := here.BatchV1().Jobs("default").Get(t.Context(), job, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is still here: %v", job, err)
		}
		if pods := here.pods(job); len(pods) > 0 {
			t.Errorf("%s has pods here: %v", job, pods)
		}
	}
	waiting := func(job string) {
		t.Helper()
		here.apply(waitingJob(job))
		here.until(job, "it waits for a pod", func(j *batchv1.Job) bool { return j.Status.Active == 1 })
	}
	for step := 1; step <= 4; step++ {
		for _, after := range []bool{false, true} {
			job := fmt.Sprintf("j%d-%t", step, after)
			t.Run(job, func(t *testing.T) {
				waiting(job)
				cmd := move(job)
				g.kill = func() { _ = cmd.Process.Kill() }
				g.arm(step, after)
				if out, errOut, code := exitOf(t, cmd, ""); code != -1 {
					t.Fatalf("it was not killed: %d %s%s", code, out, errOut)
				}
				g.arm(0, false)
				out, errOut, code := exitOf(t, move(job), "")
				if code != 0 || out != "job.batch/"+job+" moved to big\n" {
					t.Fatalf("run again: %d %q\n%s", code, out, errOut)
				}
				gone(job)
				j := there.complete(job)
				if len(j.Finalizers) > 0 || j.Annotations[batch.MovedFromAnnotation] == "" || j.Status.Succeeded != 1 || len(there.pods(job)) != 1 {
					t.Errorf("there: %v %v, %d succeeded, %d pods", j.Finalizers, j.Annotations, j.Status.Succeeded, len(there.pods(job)))
				}
				if out, errOut, code := exitOf(t, move(job), ""); code != 0 {
					t.Errorf("when all is done: %d %q\n%s", code, out, errOut)
				}
			})
		}
	}

	// A Job that is held says so, is not resumed, and goes on here when the move is cancelled.
	waiting("back")
	cmd := move("back")
	g.kill = func() { _ = cmd.Process.Kill() }
	g.arm(1, true)
	if _, errOut, code := exitOf(t, cmd, ""); code != -1 {
		t.Fatalf("it was not killed: %s", errOut)
	}
	g.arm(0, false)
	if out := here.jobctl("why", "jobs/back"); !strings.Contains(out, "being moved to big") {
		t.Errorf("why: %s", out)
	}
	if out, err := here.try("jobctl", nil, "resume", "jobs/back"); err == nil || !strings.Contains(out, "being moved to big") {
		t.Errorf("resume: %v %s", err, out)
	}
	if out, errOut, code := exitOf(t, move("back", "--cancel"), ""); code != 0 {
		t.Fatalf("cancel: %d %s%s", code, out, errOut)
	}
	j := here.until("back", "it waits for a pod again", func(j *batchv1.Job) bool { return j.Status.Active == 1 })
	if len(j.Annotations[batch.MovingAnnotation]) > 0 || *j.Spec.Suspend {
		t.Errorf("after the end of the move: %v, suspend %t", j.Annotations, *j.Spec.Suspend)
	}

	// One that has begun is not moved, also when its pods are gone; and nothing is changed there.
	here.apply(strings.Replace(waitingJob("begun"), `cpu: "2"`, `cpu: "100m"`, 1))
	here.complete("begun")
	here.apply(strings.NewReplacer(`cpu: "2"`, `cpu: "100m"`, `"1s"`, `"1h"`).Replace(waitingJob("stopped")))
	here.running("stopped", 1)
	runs, errOut, code := exitOf(t, move("stopped"), "")
	if code != 1 || !strings.Contains(errOut, batch.HasBegun) {
		t.Errorf("one that runs: %d %s%s", code, runs, errOut)
	}
	here.jobctl("suspend", "jobs/stopped")
	here.eventually("its pod is gone", func() error {
		if pods := here.pods("stopped"); len(pods) > 0 {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	for _, job := range []string{"stopped", "begun"} {
		if out, errOut, code := exitOf(t, move(job), ""); code != 1 {
			t.Errorf("%s: %d %s%s", job, code, out, errOut)
		}
		if _, err := there.BatchV1().Jobs("default").Get(t.Context(), job, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is there: %v", job, err)
		}
	}
	// The name is taken.
	waiting("taken")
	there.apply(waitingJob("taken"))
	if out, errOut, code := exitOf(t, move("taken"), ""); code != 1 || !strings.Contains(errOut, "big has another Job of this name") {
		t.Errorf("a name that is taken: %d %s%s", code, out, errOut)
	}
	if m := batch.MovingOf(here.until("taken", "it is there", func(*batchv1.Job) bool { return true }).Annotations); m != nil {
		t.Errorf("it is held: %v", m)
	}
}

// waitingJob has no room on a machine of one CPU.
func waitingJob(name string) string {
	return `
apiVersion: batch/v1
kind: Job
metadata: {name: ` + name + `}
spec:
  template:
    metadata: {annotations: {jobd.dev/simulate-duration: "1s"}}
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", resources: {requests: {cpu: "2"}}}
`
}
