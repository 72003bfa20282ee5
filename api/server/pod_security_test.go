package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	configv1 "k8s.io/pod-security-admission/admission/api/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/transfer"
)

// warned returns a client whose warnings are kept.
func (ts *testServer) warned(t *testing.T) (*kubernetes.Clientset, *warnings) {
	t.Helper()
	config, w := ts.config(), &warnings{}
	config.WarningHandlerWithContext = w
	return mustClient(t, config), w
}

// take returns the warnings since the last time.
func (w *warnings) take() string {
	text := strings.Join(w.texts, "\n")
	w.texts = nil
	return text
}

func labelled(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		ns.Labels["pod-security.kubernetes.io/"+labels[i]] = labels[i+1]
	}
	return ns
}

func podThat(name string, privileged bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", SecurityContext: &corev1.SecurityContext{Privileged: &privileged}}}
	return pod
}

const tooPrivileged = `violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`

func TestLabelsOfPodSecurityAreChecked(t *testing.T) {
	ts := startServer(t)
	c, warned := ts.warned(t)
	namespaces := c.CoreV1().Namespaces()
	for _, tc := range []struct{ label, value, want string }{
		{"enforce", "strict", `metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted`},
		{"warn-version", "1.30", `metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.30": must be "latest" or "v1.x"`},
	} {
		_, err := namespaces.Create(t.Context(), labelled("bad", tc.label, tc.value), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: %v", tc.label, tc.value, err)
		}
		patch := fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/%s":%q}}}`, tc.label, tc.value)
		_, err = namespaces.Patch(t.Context(), "default", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s on one that exists: %v", tc.label, tc.value, err)
		}
	}

	for _, name := range []string{"a", "b"} {
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), podThat(name, true), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`)
	for _, dry := range [][]string{{metav1.DryRunAll}, nil} {
		if _, err := namespaces.Patch(t.Context(), "default", types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry}); err != nil {
			t.Fatal(err)
		}
		if got, want := warned.take(), "existing pods in namespace \"default\" violate the new PodSecurity enforce level "+
			"\"baseline:latest\"\na (and 1 other pod): privileged"; got != want {
			t.Errorf("warned that %q, want %q", got, want)
		}
	}
}

func TestPodsThatTheirNamespaceDoesNotTake(t *testing.T) {
	ts := startServer(t)
	c, warned := ts.warned(t)
	if _, err := c.CoreV1().Namespaces().Create(
		t.Context(), labelled("strict", "enforce", "baseline", "warn", "restricted", "warn-version", "v1.30"),
		metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	_, err := c.CoreV1().Pods("strict").Create(t.Context(), podThat("p", true), metav1.CreateOptions{})
	if want := `pods "p" is forbidden: ` + tooPrivileged; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("a privileged pod: %v, want %s", err, want)
	}
	if got := warned.take(); got != "" {
		t.Errorf("warned of a pod that is refused: %s", got)
	}
	const restricted = `would violate PodSecurity "restricted:v1.30": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)`
	if _, err := c.CoreV1().Pods("strict").Create(t.Context(), podThat("p", false), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if got := warned.take(); !strings.HasPrefix(got, restricted) {
		t.Errorf("warned that %q", got)
	}
	// Pod Security is not asked about a change of labels, nor about one of the status.
	for _, part := range []string{"", "status"} {
		if _, err := c.CoreV1().Pods("strict").Patch(t.Context(), "p", types.MergePatchType, []byte(
			`{"metadata":{"labels":{"a":"b"}}}`,
		), metav1.PatchOptions{}, strings.Fields(part)...); err != nil {
			t.Error(err)
		}
		if got := warned.take(); got != "" {
			t.Errorf("warned that %q", got)
		}
	}

	// Templates are never refused, only what is created from them.
	template := corev1.PodTemplateSpec{Spec: podThat("", true).Spec}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: template}}
	if _, err := c.BatchV1().Jobs("strict").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if got := warned.take(); !strings.Contains(got, `would violate PodSecurity "restricted:v1.30": privileged (container "c"`) {
		t.Errorf("of a Job: %q", got)
	}
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec:       batchv1.CronJobSpec{Schedule: "@hourly", JobTemplate: batchv1.JobTemplateSpec{Spec: job.Spec}},
	}
	if _, err := c.BatchV1().CronJobs("strict").Create(t.Context(), cron, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if got := warned.take(); !strings.Contains(got, `would violate PodSecurity "restricted:v1.30": privileged (container "c"`) {
		t.Errorf("of a CronJob: %q", got)
	}
}

func TestDefaultLevelAndExemptions(t *testing.T) {
	policy, err := podsecurity.New(podsecurity.Configuration{
		Defaults: configv1.PodSecurityDefaults{Enforce: "baseline"},
		Exemptions: configv1.PodSecurityExemptions{
			Usernames: []string{"system:serviceaccount:default:installer"}, Namespaces: []string{"kube-system"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ts := startServer(t, func(c *Config) { c.PodSecurity = policy })
	c := ts.client(t)
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), labelled("open", "enforce", "privileged"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	installer := ts.with(t, ts.token(t, ts.account(t, "installer", "submit"), nil).Status.Token)
	for _, tc := range []struct {
		name, namespace string
		client          kubernetes.Interface
		allowed         bool
	}{
		{"a namespace without a label", "default", c, false},
		{"one with a label of its own", "open", c, true},
		{"an exempt namespace", "kube-system", c, true},
		{"an exempt user", "default", installer, true},
	} {
		_, err := tc.client.CoreV1().Pods(tc.namespace).Create(t.Context(), podThat("p", true), metav1.CreateOptions{})
		if tc.allowed && err != nil || !tc.allowed && (err == nil || !strings.Contains(err.Error(), tooPrivileged)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	local, w := ts.warned(t)
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := local.CoreV1().Namespaces().Patch(t.Context(), "kube-system", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if got := w.take(); got != `namespace "kube-system" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be ignored` {
		t.Errorf("warned that %q", got)
	}

	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, f := range families {
		counted[f.GetName()] = true
	}
	if !counted["pod_security_evaluations_total"] || !counted["pod_security_exemptions_total"] {
		t.Error("neither evaluations nor exemptions are counted")
	}
}

// A pod that does more than its namespace allows is no way to do more for those who cannot change what it allows.
func TestNobodyGetsMoreByAnOlderPod(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers = fakeContainers{} })
	c := ts.client(t)
	for name, privileged := range map[string]bool{"old": true, "plain": false} {
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), podThat(name, privileged), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ts.bind(t, name, "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	submit, admin := ts.limited(t, "role=submit&namespace=default"), ts.limited(t, "role=admin&namespace=default")
	getIn := func(c *kubernetes.Clientset, pod, part string) error {
		return c.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).SubResource(part).
			VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"id"}, Stdout: true}, scheme.ParameterCodec).Do(t.Context()).Error()
	}
	if err := getIn(submit, "old", "exec"); apierrors.IsForbidden(err) {
		t.Errorf("before there is a level: %v", err)
	}
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`)
	if _, err := c.CoreV1().Namespaces().Patch(t.Context(), "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"exec", "attach", "portforward"} {
		for who, client := range map[string]*kubernetes.Clientset{"submit": submit, "the namespace's admin": admin} {
			if err := getIn(client, "old", part); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tooPrivileged) {
				t.Errorf("%s of %s: %v", part, who, err)
			}
			if err := getIn(client, "plain", part); apierrors.IsForbidden(err) {
				t.Errorf("%s of %s into a pod that is fine: %v", part, who, err)
			}
		}
		if err := getIn(c, "old", part); apierrors.IsForbidden(err) {
			t.Errorf("%s by an administrator: %v", part, err)
		}
	}
	if _, err := submit.CoreV1().Namespaces().Patch(
		t.Context(), "default", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`), metav1.PatchOptions{},
	); !apierrors.IsForbidden(err) {
		t.Errorf("who submits changes the level: %v", err)
	}
}

// Whatever a request calls a pod, it is the pod which it would lead to that decides.
func TestNobodyReachesAnOlderPodByAnotherName(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.Containers, c.PodFiles = atAddresses{t: t}, noFiles{} })
	const in = "/api/v1/namespaces/default/"
	for i, name := range []string{"old", "hostnet", "plain"} {
		pod := podThat(name, name == "old")
		pod.Labels = map[string]string{"app": name, "any": "yes"}
		pod.Spec.HostNetwork = name == "hostnet"
		mustMake(t, ts.client(t).CoreV1().Pods("default"), pod)
		ts.bind(t, name, "node", corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		status := fmt.Sprintf(
			`{"status": {"phase": "Running", "podIP": "10.64.0.%[1]d", "podIPs": [{"ip": "10.64.0.%[1]d"}], "conditions": [{"type": "Ready", "status": "True"}]}}`,
			i+2,
		)
		if _, err := ts.client(t).CoreV1().Pods("default").Patch(
			t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status",
		); err != nil {
			t.Fatal(err)
		}
		ts.mustDo(
			t, http.MethodPost, in+"services",
			`{"metadata": {"name": "`+name+`"}, "spec": {"selector": {"app": "`+name+`"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}`,
			201,
		)
	}
	ts.mustDo(
		t, http.MethodPost, in+"services",
		`{"metadata": {"name": "any"}, "spec": {"selector": {"any": "yes"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}`,
		201,
	)
	ts.mustPatch(t, "/api/v1/namespaces/default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`)

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	token := ts.token(t, ts.account(t, "installer", "submit"), nil).Status.Token
	ask := func(method, path string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, "https://"+ts.tls.String()+in+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
		return answer.StatusCode, string(said)
	}
	names := []string{
		"%s", "%s:8080", "%s:http", "http:%s:8080", "https:%s:8080", "http:%s:", ":%s:", "%s:", "%s%%3A8080", "%%3A%s%%3A", "http%%3A%s:8080",
	}
	odd := []string{"HTTP:%s:8080", "::%s:8080", "ftp:%s:1", "%s:8080:1", "%%2e%%2e/pods/%s", "./%s", "%s/", "%s%%00", "%s%%20", "%%20%s"}
	paths := []string{"proxy", "proxy/", "proxy/a/b", "proxy/..%2f", "proxy//"}
	verbs := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	for _, kind := range []string{"pods", "services"} {
		for _, pod := range []string{"old", "hostnet"} {
			for i, form := range append(names, odd...) {
				for _, path := range paths {
					for _, verb := range verbs {
						at := kind + "/" + fmt.Sprintf(form, pod) + "/" + path
						code, said := ask(verb, at)
						if code < 400 && (verb != "OPTIONS" || strings.Contains(said, pod)) || code == 503 && kind == "pods" {
							t.Errorf("%s %s: %d %s", verb, at, code, said)
						}
						if plain := i < len(names) && verb == "GET"; plain && kind == "pods" &&
							(code != 403 || !strings.Contains(said, "only who may change its namespace")) {
							t.Errorf("%s %s: %d %s", verb, at, code, said)
						}
					}
				}
			}
		}
	}
	for _, part := range []string{"exec?command=id&stdout=1", "attach?stdout=1", "portforward", "files?path=/"} {
		for _, form := range names {
			for _, verb := range []string{"GET", "POST", "PUT"} {
				if code, said := ask(verb, "pods/"+fmt.Sprintf(form, "old")+"/"+part); code != 403 && code != 404 && code != 405 {
					t.Errorf("%s of %s by %s: %d %s", part, form, verb, code, said)
				}
			}
		}
	}
	for range 10 { // one of its endpoints at random
		if code, said := ask("GET", "services/any/proxy/"); code != 200 || !strings.HasPrefix(said, "plain ") {
			t.Fatalf("a Service with one pod that may be reached: %d %s", code, said)
		}
	}
	if code, said := ask("GET", "services/hostnet/proxy/"); code != 403 ||
		!strings.Contains(said, `services \"hostnet\" is forbidden: it leads to a pod out of reach`) {
		t.Errorf("a Service in front of a pod on the host's network: %d %s", code, said)
	}
	if code, said := ask("GET", "services/plain:http/proxy/"); code != 200 {
		t.Errorf("a Service in front of a pod that is fine: %d %s", code, said)
	}
	if code, said := ask("GET", "pods/plain:8080/proxy/"); code == 403 {
		t.Errorf("a pod that is fine: %d %s", code, said)
	}
}

type noFiles struct{ transfer.PodFiles }

func TestListOfHostPaths(t *testing.T) {
	ts := startServer(t)
	c, warned := ts.warned(t)
	namespaces := c.CoreV1().Namespaces()
	list := func(c kubernetes.Interface, value string) error {
		patch := fmt.Sprintf(
			`{"metadata":{"annotations":{"jobd.dev/allowed-host-paths":%q},"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`,
			value,
		)
		_, err := c.CoreV1().Namespaces().Patch(t.Context(), "default", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	const invalid = `metadata.annotations[jobd.dev/allowed-host-paths]: Invalid value: "data": "data" is not an absolute path`
	if err := list(c, "data"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), invalid) {
		t.Errorf("a list that makes no sense: %v", err)
	}
	ns := labelled("n")
	ns.Annotations = map[string]string{"jobd.dev/allowed-host-paths": "data"}
	if _, err := namespaces.Create(t.Context(), ns, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), invalid) {
		t.Errorf("on a new namespace: %v", err)
	}
	for _, query := range []string{"role=submit", "role=submit&namespace=default", "role=admin&namespace=default"} {
		if err := list(ts.limited(t, query), "/"); !apierrors.IsForbidden(err) {
			t.Errorf("%s may change it: %v", query, err)
		}
	}
	if err := list(c, "/data"); err != nil {
		t.Fatal(err)
	}

	warned.take()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, SecurityContext: &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}}}
	template.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", SecurityContext: &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}}}
	for path, want := range map[string]string{
		"/data/x": "",
		"/etc":    `pods will be refused: spec.template.spec.volumes[0].hostPath.path: Forbidden: "/etc" is not among the paths that the namespace allows: /data`,
	} {
		template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: "j-"}, Spec: batchv1.JobSpec{Template: template}}
		if _, err := c.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if got := warned.take(); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%s: warned that %q, want %q", path, got, want)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: template.Spec}
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); (err == nil) != (want == "") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWhoHandsOutASubmitKubeconfigIsWarned(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	asks := func(query string) string {
		resp := ts.send(t, "GET", "/jobd/v1/kubeconfig?"+query, http.Header{})
		warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d, %v", query, resp.StatusCode, warnings)
		}
		var all []string
		for _, w := range warnings {
			all = append(all, w.Text)
		}
		return strings.Join(all, "; ")
	}
	const all = "in the namespace(s) default, kube-node-lease, kube-public, kube-system:"
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), labelled("strict", "enforce", "baseline"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"": "", "role=admin": "", "role=read": "", "role=read&namespace=default": "",
		"role=read&namespace=nosuch": "there is no namespace nosuch yet: jobctl create namespace nosuch",
		"user=ann&namespace=nosuch":  "there is no namespace nosuch yet",
		"role=submit":                all, "role=submit&namespace=default": "in the namespace(s) default:",
		"role=submit&namespace=strict": "", "role=submit&namespace=later": "in the namespace(s) later:",
		"role=admin&namespace=default": "in the namespace(s) default:", "role=admin&namespace=strict": "",
	} {
		if got := asks(query); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestTheAuditLogSaysWhatPodSecurityHasDecided(t *testing.T) {
	ts, events := auditedServer(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
	c := ts.client(t)
	ns := labelled("strict", "enforce", "baseline", "audit", "restricted")
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods("strict").Create(t.Context(), podThat("p", true), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	said := find(t, events, "ResponseComplete", "create", "/api/v1/namespaces/strict/pods").Annotations
	if said["pod-security.kubernetes.io/enforce-policy"] != "baseline:latest" ||
		!strings.HasPrefix(said["pod-security.kubernetes.io/audit-violations"], `would violate PodSecurity "restricted:latest": privileged`) {
		t.Errorf("%v", said)
	}
}
