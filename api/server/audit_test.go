package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/jobd/jobd/api/auditlog"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/store"
)

// auditEvent is the part of an event that the tests look at.
type auditEvent struct {
	Level, Stage, Verb, RequestURI, UserAgent string
	User                                      struct{ Username string }
	ImpersonatedUser                          *struct{ Username string }
	SourceIPs                                 []string
	ObjectRef                                 *struct{ Resource, Subresource, Namespace, Name, APIGroup string }
	ResponseStatus                            *struct {
		Code            int
		Message, Reason string
	}
	RequestObject, ResponseObject map[string]any
	Annotations                   map[string]string
}

// auditedServer returns a server with an audit log that follows a policy, and events, which reads the log.
func auditedServer(t *testing.T, rules string, edit ...func(*Config)) (ts *testServer, events func() []auditEvent) {
	t.Helper()
	dir := t.TempDir()
	o := auditlog.Options{
		PolicyFile: filepath.Join(dir, "policy"), Path: filepath.Join(dir, "audit.log"), Format: "json",
		Mode: auditlog.ModeBlocking, MaxSize: 100,
	}
	if err := os.WriteFile(o.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := auditlog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ts = startServer(t, append(edit, func(c *Config) { c.Audit = l })...)
	return ts, func() []auditEvent {
		t.Helper()
		content, err := os.ReadFile(o.Path)
		if err != nil {
			t.Fatal(err)
		}
		var all []auditEvent
		for line := range strings.Lines(string(content)) {
			var e auditEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, e)
		}
		return all
	}
}

// find waits for the event of a stage; the last one is logged after the answer was sent.
func find(t *testing.T, events func() []auditEvent, stage, verb, uri string) auditEvent {
	t.Helper()
	var found auditEvent
	waitFor(t, stage+" of "+verb+" "+uri, func() bool {
		for _, e := range events() {
			if e.Stage == stage && e.Verb == verb && strings.HasPrefix(e.RequestURI, uri) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func TestAuditLog(t *testing.T) {
	ts, events := auditedServer(t, `
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/livez*"]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  resources: [{group: batch, resources: [jobs]}]
- level: Metadata
`, func(c *Config) { c.Containers = fakeContainers{} })
	ctx := t.Context()

	// A Job is logged with everything in it, and with who made it.
	made := mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	e := find(t, events, "ResponseComplete", "create", "/apis/batch/v1/namespaces/default/jobs")
	if e.Level != "RequestResponse" || e.User.Username != "jobd:uid:"+strconv.Itoa(os.Geteuid()) || e.ResponseStatus.Code != 201 || e.ObjectRef.Name != "a" {
		t.Errorf("%+v", e)
	}
	if e.RequestObject["kind"] != "Job" || e.ResponseObject["metadata"].(map[string]any)["uid"] != string(made.UID) {
		t.Errorf("%v, %v", e.RequestObject, e.ResponseObject)
	}
	for key, want := range map[string]string{
		auditPeerUID: strconv.Itoa(os.Geteuid()), auditPeerPID: strconv.Itoa(os.Getpid()), "authorization.k8s.io/decision": "allow",
	} {
		if e.Annotations[key] != want {
			t.Errorf("%s is %q, not %q", key, e.Annotations[key], want)
		}
	}

	// Of a Secret, only that it was made is logged.
	mustMake(
		t, ts.client(t).CoreV1().Secrets("default"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "hidden"}},
	)
	if e := find(t, events, "ResponseComplete", "create", "/api/v1/namespaces/default/secrets"); e.Level != "Metadata" ||
		e.RequestObject != nil || e.ResponseObject != nil {
		t.Errorf("%+v", e)
	}

	// Somebody acts as somebody else, and is refused.
	config := ts.config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "mallory"}
	acting, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acting.CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{}); err == nil {
		t.Error("it is not refused")
	}
	e = find(t, events, "ResponseComplete", "get", "/api/v1/namespaces/default/secrets/s")
	if e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != "mallory" || e.User.Username == "mallory" || e.ResponseStatus.Code != 403 ||
		e.Annotations["authorization.k8s.io/decision"] != "forbid" {
		t.Errorf("%+v", e)
	}

	// A ServiceAccount over the network, and a client without credentials.
	robot := ts.with(t, ts.token(t, ts.account(t, "robot", core.RoleRead), nil).Status.Token)
	if _, err := robot.BatchV1().CronJobs("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	e = find(t, events, "ResponseComplete", "list", "/apis/batch/v1/namespaces/default/cronjobs")
	if e.User.Username != "system:serviceaccount:default:robot" || len(e.SourceIPs) != 1 || e.SourceIPs[0] != "127.0.0.1" ||
		!strings.Contains(e.Annotations["authorization.k8s.io/reason"], "role read") {
		t.Errorf("%+v", e)
	}
	if answer, err := ts.network(t).Get("https://" + ts.tls.String() + "/api/v1/nodes"); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Fatal(answer, err)
	}
	if e := find(t, events, "ResponseStarted", "list", "/api/v1/nodes"); e.ResponseStatus.Code != 401 {
		t.Errorf("%+v", e)
	}

	// A request that lasts is logged when it begins and when it ends.
	watching, cancel := context.WithCancel(ctx)
	w, err := ts.client(t).CoreV1().ConfigMaps("default").Watch(watching, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	find(t, events, "ResponseStarted", "watch", "/api/v1/namespaces/default/configmaps")
	cancel()
	w.Stop()
	find(t, events, "ResponseComplete", "watch", "/api/v1/namespaces/default/configmaps")

	// Clients reach into a container, by either protocol.
	mustMake(t, ts.client(t).CoreV1().Pods("default"), newPod("p", "c"))
	ts.bind(t, "p", "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	host := &rest.Config{Host: "https://" + ts.tls.String(), BearerToken: ts.adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	to := &url.URL{Scheme: "https", Host: ts.tls.String(), Path: "/api/v1/namespaces/default/pods/p/exec", RawQuery: "command=size&stdout=true&tty=true"}
	socket, err := remotecommand.NewWebSocketExecutor(host, http.MethodGet, to.String())
	if err != nil {
		t.Fatal(err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(host, http.MethodPost, to)
	if err != nil {
		t.Fatal(err)
	}
	for verb, executor := range map[string]remotecommand.Executor{"get": socket, "create": spdy} {
		var out bytes.Buffer
		if err := executor.StreamWithContext(
			ctx, remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: &oneSize{Width: 7, Height: 3}},
		); err != nil ||
			!strings.HasPrefix(out.String(), "7x3") {
			t.Errorf("%s: %v", out.String(), err)
		}
		for _, stage := range []string{"ResponseStarted", "ResponseComplete"} {
			e := find(t, events, stage, verb, to.Path)
			if e.User.Username != "jobd:admin" || e.ResponseStatus.Code != 101 || e.ObjectRef.Subresource != "exec" || e.ObjectRef.Name != "p" {
				t.Errorf("%+v", e)
			}
		}
	}

	ts.mustDo(t, "GET", "/livez", "", 200)
	ts.mustDo(t, "GET", "/version", "", 200)
	find(t, events, "ResponseComplete", "get", "/version")
	for _, e := range events() {
		if e.Stage == "RequestReceived" || strings.HasPrefix(e.RequestURI, "/livez") {
			t.Errorf("%+v", e)
		}
	}
}

// TestHandlersAnnotateTheAuditLog is what admission relies on.
func TestHandlersAnnotateTheAuditLog(t *testing.T) {
	ts, events := auditedServer(t, "rules: [{level: Metadata}]", func(c *Config) {
		c.Authorizer = authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			audit.AddAuditAnnotation(ctx, "example.com/seen", a.GetVerb())
			return authorizer.DecisionNoOpinion, "", nil
		})
	})
	robot := ts.with(t, ts.token(t, ts.account(t, "robot", ""), nil).Status.Token)
	if _, err := robot.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("it is not refused")
	}
	if e := find(t, events, "ResponseComplete", "list", "/api/v1/namespaces/default/pods"); e.Annotations["example.com/seen"] != "list" {
		t.Errorf("%v", e.Annotations)
	}
}

// TestRequestsThatCannotBeLoggedAreRefused fills the disk of a log from which nothing may be missing.
func TestRequestsThatCannotBeLoggedAreRefused(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := auditlog.Open(auditlog.Options{PolicyFile: policy, Path: "/dev/full", Format: "json", Mode: auditlog.ModeBlockingStrict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ts := startServer(t, func(c *Config) { c.Audit = l })
	if code, text := ts.do(t, "POST", "/api/v1/namespaces/default/configmaps", "application/json", `{"metadata":{"name":"a"}}`); code != 500 ||
		!strings.Contains(text, "failed to store audit event") {
		t.Errorf("%d: %s", code, text)
	}
	if err := ts.store.View(func(sn *store.Snapshot) error {
		if _, found := sn.Get(store.Key("configmaps", "default", "a")); found {
			t.Error("it is done all the same")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
