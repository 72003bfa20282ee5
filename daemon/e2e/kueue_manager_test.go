package e2e

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/kueue"
)

// startKueue starts Kueue's manager as it is released, with its default configuration but for where it serves and has its certificates,
// and returns a client for what it adds to the cluster.
func (c *controlPlane) startKueue() dynamic.Interface {
	c.t.Helper()
	source, err := exec.Command("go", "list", "-modfile=../../testdata/tools/kueue.mod", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	components := filepath.Join(strings.TrimSpace(string(source)), "config", "components")
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		c.t.Fatal(err)
	}
	// It starts only once its kinds are there.
	c.kubectl(nil, "create", "namespace", "kueue-system")
	c.kubectl(nil, "create", "-f", filepath.Join(components, "crd", "bases"))
	c.kubectl(nil, "wait", "crd", "--all", "--for=condition=Established", patiently)

	// The directory of certificates cannot be chosen for its metrics, which are off: it sees one in /etc.
	certs, etc := c.file("kueue"), c.file("etc/kueue/metrics/certs")
	at := freePort(c.t)
	for _, dir := range []string{certs, etc} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			c.t.Fatal(err)
		}
		writeCertificate(c.t, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	}
	config := map[string]any{}
	c.read(filepath.Join(components, "manager", "controller_manager_config.yaml"), &config)
	host, service, _ := strings.Cut(at, ":")
	port, err := strconv.Atoi(service)
	if err != nil {
		c.t.Fatal(err)
	}
	config["namespace"] = "kueue-system"
	config["health"] = map[string]any{"healthProbeBindAddress": freePort(c.t)}
	config["metrics"] = map[string]any{"bindAddress": "0"}
	config["webhook"] = map[string]any{"host": host, "port": port, "certDir": certs}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["internalCertManagement"] = map[string]any{"enable": false}
	c.write("kueue.yaml", config)
	private := `mount -t overlay overlay -o "lowerdir=$1:/etc" /etc; shift; exec "$@"`
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", private, "sh", c.file("etc"), filepath.Join(c.programs, "kueue"),
		"--config", c.file("kueue.yaml"), "--feature-gates=VisibilityOnDemand=false", "--zap-log-level=2")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	c.start("kueue", cmd)

	authority, err := os.ReadFile(filepath.Join(certs, "tls.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	hooks, err := os.ReadFile(filepath.Join(components, "webhook", "manifests.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	var all []string
	for doc := range strings.SplitSeq(string(hooks), "\n---\n") {
		hook := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &hook.Object); err != nil {
			c.t.Fatal(err)
		}
		list, _, _ := unstructured.NestedSlice(hook.Object, "webhooks")
		for _, w := range list {
			w := w.(map[string]any)
			path, _, _ := unstructured.NestedString(w, "clientConfig", "service", "path")
			w["clientConfig"] = map[string]any{"url": "https://" + at + path, "caBundle": base64.StdEncoding.EncodeToString(authority)}
		}
		hook.Object["webhooks"] = list
		hook.SetName("kueue-" + hook.GetName())
		text, err := yaml.Marshal(hook.Object)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, string(text))
	}
	c.kubectl([]byte(strings.Join(all, "---\n")), "create", "-f", "-")
	flavors := kueue.GroupVersion.WithResource("resourceflavors")
	c.eventually("Kueue answers", func() error { // its webhooks do
		try := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": kueue.GroupVersion.String(), "kind": "ResourceFlavor", "metadata": map[string]any{"name": "try"},
		}}
		_, err := client.Resource(flavors).Create(c.t.Context(), try, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	return client
}

func (c *controlPlane) read(file string, into any) {
	c.t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *controlPlane) write(name string, what any) {
	c.t.Helper()
	text, err := yaml.Marshal(what)
	if err == nil {
		err = os.WriteFile(c.file(name), text, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
