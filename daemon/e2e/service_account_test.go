package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jobd/jobd/testdata/images"
)

// client is a jobd whose pods talk to the API as any client in a cluster does: with kubectl, which knows only what is
// in the pod.
type client struct {
	*daemon
	kubectl string
}

// startClient runs a jobd that has the image kubectl:test.
func startClient(t *testing.T, flags ...string) client {
	t.Helper()
	kubectl := needKubectl(t)
	d := start(t, flags...)
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Program(kubectl)
	d.importImage(images.New(tree, v1.Config{Env: []string{"PATH=/bin:/usr/bin", "HOME=/"}}, "docker.io/library/kubectl:test"))
	d.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: starter, annotations: {jobd.dev/role: submit}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, annotations: {jobd.dev/role: read}}
`)
	return client{d, kubectl}
}

// job starts a Job whose pod runs a script with kubectl as k; more is a part of the pod's spec.
func (c client) job(name, more, script string) {
	c.t.Helper()
	script = strings.ReplaceAll(strings.TrimSpace(script), "\n", "\n          ")
	c.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      %s
      containers:
      - name: c
        image: kubectl:test
        command:
        - sh
        - -c
        - |
          k() { %s "$@"; }
          %s
`, name, more, c.kubectl, script))
}

func (c client) logs(job string) string {
	c.t.Helper()
	return c.jobctl("logs", "jobs/"+job)
}

// What a pod may do with its token.
func TestTokensOfPods(t *testing.T) {
	t.Parallel()
	c := startClient(t)
	c.needBridge()
	t.Run("a role of jobd", func(t *testing.T) { podStartsAJob(t, c) })
	t.Run("a Role", func(t *testing.T) { podHasARole(t, c) })
}

// A Job's pod starts another Job and waits for it, because its ServiceAccount was granted the role.
func podStartsAJob(t *testing.T, c client) {
	c.job("parent", "serviceAccountName: starter", `
set -e
k create job child --image=busybox:1.36 -- echo hello from the child
k wait --for=condition=complete job/child --timeout=10m
k logs job/child
k auth can-i create jobs
k auth can-i create serviceaccounts || true
`)
	c.complete("parent")
	if got, want := c.logs("parent"), "job.batch/child created\njob.batch/child condition met\nhello from the child\nyes\nno\n"; got != want {
		t.Errorf("the parent said %q, want %q", got, want)
	}

	// Without the role none of it is allowed, but what is served can be seen.
	c.job("stranger", "", `
k create job other --image=busybox:1.36 2>&1
k get pods 2>&1
k api-resources --api-group=batch -o name
cd /var/run/secrets/kubernetes.io/serviceaccount
k --server https://kubernetes.default.svc --certificate-authority ca.crt --token "$(cat token)" get --raw /apis/batch | grep -o '"name":"batch"'
`)
	if j := c.finished("stranger"); condition(j, batchv1.JobComplete) == nil {
		t.Fatalf("the stranger said %s", c.logs("stranger"))
	}
	const forbidden = `User "system:serviceaccount:default:default" cannot`
	if got := c.logs("stranger"); strings.Count(got, forbidden) != 2 || !strings.Contains(got, "cronjobs.batch\njobs.batch\n") ||
		!strings.Contains(got, `"name":"batch"`) {
		t.Errorf("the stranger said %s", got)
	}
}

// A pod may do what a Role lets its ServiceAccount do, as long as it does, and can get itself no more.
func podHasARole(t *testing.T, c client) {
	const role = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads-settings}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}]
`
	c.apply(role + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reads-settings}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-settings}
subjects: [{kind: ServiceAccount, name: robot}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {word: swordfish}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {word: xyzzy}
`)
	for _, account := range []string{"robot", "other"} {
		pod := onePod(account, "kubectl:test", "sleep 1000")
		c.apply(strings.Replace(pod, "spec: {", "spec: {serviceAccountName: "+account+", ", 1))
	}
	c.jobctl("wait", "--for=condition=Ready", "pod/robot", "pod/other", patiently)
	// asks runs kubectl in a pod for each line of arguments, and compares what it says: the words, and that it is refused
	// unless they begin with a star.
	asks := func(when, pod string, lines ...[2]string) {
		t.Helper()
		script := ""
		for _, l := range lines {
			script += fmt.Sprintf("%s %s 2>&1 | tr '\\n' ' '; echo\n", c.kubectl, l[0])
		}
		said := strings.Split(c.jobctl("exec", pod, "--", "sh", "-c", script), "\n")
		for i, l := range lines {
			words, allowed := strings.CutPrefix(l[1], "*")
			got := said[min(i, len(said)-1)]
			if !strings.Contains(got, words) || strings.Contains(got, "orbidden") == allowed {
				t.Errorf("%s: kubectl %s: %q, want %q", when, l[0], got, l[1])
			}
		}
	}
	const (
		settings = "get --raw /api/v1/namespaces/default/configmaps/settings"
		all      = "get --raw /api/v1/namespaces/default/configmaps"
		cannot   = `User "system:serviceaccount:default:robot" cannot `
		secrets  = "/var/run/secrets/kubernetes.io/serviceaccount/"
		by       = " --server https://kubernetes.default.svc --certificate-authority " + secrets + "ca.crt --token $(cat " + secrets + "token)"
		binding  = `create rolebinding mine --clusterrole=edit --serviceaccount=default:robot`
	)
	asks("with a Role", "robot", [][2]string{
		{settings, "*swordfish"},
		{all, "*swordfish"},
		{all + "?watch=1", cannot + `watch resource "configmaps"`},
		{"get --raw /api/v1/namespaces/kube-system/configmaps", cannot + `list resource "configmaps" in API group "" in the namespace "kube-system"`},
		{"get --raw /api/v1/configmaps", cannot + `list resource "configmaps" in API group "" at the cluster scope`},
		{"get --raw /api/v1/namespaces/default/secrets/hidden", cannot + `get resource "secrets"`},
		{"delete --raw " + strings.TrimPrefix(settings, "get --raw "), cannot + `delete resource "configmaps"`},
		{"get --raw /api/v1/namespaces/default/pods/other/files?path=/", cannot + `get resource "pods/files"`},
		{"get --raw /apis/history.jobd.dev/v1/namespaces/default/jobs", cannot + `list resource "jobs" in API group "history.jobd.dev"`},
		{"get --raw /jobd/v1/kubeconfig", cannot + `get path "/jobd/v1/kubeconfig"`},
		{"get --raw /metrics", cannot + `get path "/metrics"`},
		{settings + by + " --as system:serviceaccount:default:starter", cannot + `impersonate resource "serviceaccounts"`},
		{settings + by + " --as ann --as-group system:masters", cannot + "impersonate resource"},
		{binding, cannot + `create resource "rolebindings"`},
		{"create token starter", cannot + `create resource "serviceaccounts/token"`},
		{"exec other -- true", cannot + `get resource "pods"`},
	}...)
	asks("with the token of another account", "other", [][2]string{{settings, `"system:serviceaccount:default:other" cannot get`}, {all, "cannot list"}}...)

	c.jobctl("delete", "role", "reads-settings")
	asks("without the Role", "robot", [][2]string{{settings, cannot + "get"}, {all, `the Role "reads-settings" of the namespace "default" does not exist`}}...)
	c.apply(role)
	asks("with it again", "robot", [][2]string{{settings, "*swordfish"}}...)
	c.jobctl("delete", "rolebinding", "reads-settings")
	asks("without the binding", "robot", [][2]string{{settings, cannot + "get"}, {all, cannot + "list"}}...)
	c.jobctl("delete", "pod", "robot", "other")
}

// A pod's token outlives the daemon.
func TestTokenStaysGoodOverARestart(t *testing.T) {
	t.Parallel()
	c := startClient(t)
	c.needBridge()
	c.job("waiting", "serviceAccountName: reader", `
cd /var/run/secrets/kubernetes.io/serviceaccount
md5sum token
k get pods >/dev/null && echo ready
until k get configmap go 2>/dev/null; do sleep 0.2; done >/dev/null
md5sum token
cat namespace; echo
`)
	c.eventually("the pod has asked", func() error {
		if out, err := c.try("jobctl", nil, "logs", "jobs/waiting"); err != nil || !strings.Contains(out, "ready") {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
	c.kill()
	c.serve()
	if _, err := c.CoreV1().ConfigMaps("default").Create(
		t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "go"}}, metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	c.complete("waiting")
	said := strings.Split(c.logs("waiting"), "\n")
	if len(said) != 5 || said[0] != said[2] || said[1] != "ready" || said[3] != "default" {
		t.Errorf("the pod said %q", said)
	}
}

// A pod in the host's network reaches the API as well, where other pods have a bridge and where they have none.
func TestPodInTheHostsNetworkReachesTheAPI(t *testing.T) {
	t.Parallel()
	script := `echo $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT; k get serviceaccount reader -o name`
	for _, network := range []string{"auto", "host"} {
		t.Run(network, func(t *testing.T) {
			var flags []string
			if network == "host" {
				flags = []string{"--network", "host"}
			}
			c := startClient(t, flags...)
			c.job("before", "hostNetwork: true\n      serviceAccountName: reader", script)
			c.complete("before")
			c.kill()
			c.serve()
			c.job("after", "hostNetwork: true\n      serviceAccountName: reader", script)
			c.complete("after")
			before, after := c.logs("before"), c.logs("after")
			if before != after || !strings.HasSuffix(after, "serviceaccount/reader\n") {
				t.Errorf("before a restart %q, after it %q", before, after)
			}
		})
	}
}

// kubectl creates a token, and with it is whoever the token says.
func TestCreateToken(t *testing.T) {
	t.Parallel()
	c := startClient(t, "--listen", freePort(t))
	kubeconfig := filepath.Join(c.root, "kubeconfig")
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), c.kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir(), "NO_PROXY=127.0.0.1")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	token, err := run("create", "token", "starter", "--duration=20m")
	if err != nil {
		t.Fatalf("%v: %s", err, token)
	}
	// The kubeconfig's credentials are the administrator's, which must not be used by mistake.
	limited := filepath.Join(t.TempDir(), "kubeconfig")
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range config.AuthInfos {
		who.Token = token
	}
	if err := clientcmd.WriteToFile(*config, limited); err != nil {
		t.Fatal(err)
	}
	kubeconfig = limited
	for _, ask := range []struct{ args, want string }{
		{"auth whoami -o jsonpath={.status.userInfo.username}", "system:serviceaccount:default:starter"},
		{"auth can-i create jobs", "yes"},
		{"auth can-i create jobs -n kube-system", "no"},
		{"auth can-i delete nodes", "no"},
		{"get jobs", "No resources found in default namespace."},
	} {
		if got, _ := run(strings.Fields(ask.args)...); !strings.HasSuffix(got, ask.want) {
			t.Errorf("kubectl %s: %q, want %q", ask.args, got, ask.want)
		}
	}
	if got, err := run("get", "pods", "-n", "kube-system"); err == nil || !strings.Contains(got, "Forbidden") {
		t.Errorf("in another namespace: %s", got)
	}
	c.jobctl("delete", "serviceaccount", "starter")
	if got, err := run("get", "jobs"); err == nil || !strings.Contains(got, "Unauthorized") && !strings.Contains(got, "logged in") {
		t.Errorf("without the account: %s", got)
	}
}

// A Service's EndpointSlice follows its pods, and is removed with the Service.
func TestEndpointSlices(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", command: [sleep, "1000"], ports: [{name: http, containerPort: 8080}]}
`)
	ip := d.podIP("web")
	expect := func(when, want string) {
		t.Helper()
		d.eventually(when, func() error {
			got, err := d.try(
				"jobctl", nil, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o",
				"jsonpath={range .items[*]}{.ports[*].port} {.endpoints[*].addresses[*]} {.endpoints[*].conditions.ready};{end}",
			)
			if err != nil || got != want {
				return fmt.Errorf("%q, want %q, %w", got, want, err)
			}
			return nil
		})
	}
	expect("the pod is an endpoint", "8080 "+ip+" true;")
	d.jobctl("delete", "pod", "web")
	expect("it is gone", "  ;")
	d.jobctl("delete", "service", "web")
	expect("the service is gone", "")
	gateway := d.jobctl("get", "endpointslice", "kubernetes", "-o", "jsonpath={.endpoints[0].addresses[0]}:{.ports[0].port}")
	if !strings.HasSuffix(gateway, ":443") || strings.HasPrefix(gateway, "127.") {
		t.Errorf("the API is at %s", gateway)
	}
}
