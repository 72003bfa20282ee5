package jobset

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/rig"

	// What upstream's suite is built of: so go.mod lists it.
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "k8s.io/cli-runtime/pkg/printers"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config"
	_ "sigs.k8s.io/jobset/test/util"
)

// suite is the package of upstream's own end-to-end specs, which is built and run as it is.
const suite = "sigs.k8s.io/jobset/test/e2e"

// TestSpecs runs upstream's specs against a jobd of its own, on real containers. JOBD_SPECS is the directory of jobd's programs, and
// JOBD_FOCUS an expression on the names of the specs.
func TestSpecs(t *testing.T) {
	bin := os.Getenv("JOBD_SPECS")
	if bin == "" {
		t.Skip("needs the built programs: make conformance-jobset")
	}
	program := filepath.Join(t.TempDir(), "specs.test")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags", "-s -w", "-o", program, suite).CombinedOutput(); err != nil {
		t.Fatalf("build the specs: %v\n%s", err, out)
	}
	d := serve(t, bin)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: jobd
contexts: [{name: jobd, context: {cluster: jobd, user: jobd}}]
users: [{name: jobd}]
clusters: [{name: jobd, cluster: {server: %q}}]
`, stood(t, d)), 0o600); err != nil {
		t.Fatal(err)
	}
	specs := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=1h", "-ginkgo.no-color", "-ginkgo.v",
		"-ginkgo.focus="+os.Getenv("JOBD_FOCUS"))
	specs.Env = append(os.Environ(), "KUBECONFIG="+config, "JOBSET_E2E_TESTS_DUMP_NAMESPACE=true")
	specs.Stdout, specs.Stderr = os.Stdout, os.Stderr
	if err := specs.Run(); err != nil {
		t.Error(err)
	}
}

// serve starts a jobd that finds the image of the specs in a registry: they name it by "latest", which is always pulled.
func serve(t *testing.T, bin string) *rig.Daemon {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), "jobd.log"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := rig.New(bin, "/var/tmp", said, "--registry-hosts", bash(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
		if out, err := os.ReadFile(said.Name()); t.Failed() && err == nil {
			t.Logf("jobd said:\n%s", out)
		}
	})
	if _, err := d.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// bash serves the image of the specs, made of this machine's programs, and returns a directory for --registry-hosts that sends all
// there.
func bash(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	image, err := images.Bash()
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(server.Listener.Addr().String()+"/library/bash:latest", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	hosts := t.TempDir()
	if err := os.Mkdir(filepath.Join(hosts, "_default"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", server.URL)
	if err := os.WriteFile(filepath.Join(hosts, "_default", "hosts.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return hosts
}

// stood returns the address of an API server that is jobd's but for one object: the Deployment of upstream's controller, whose
// readiness the suite waits for before all else. jobd has neither a controller to install nor Deployments.
func stood(t *testing.T, d *rig.Daemon) string {
	t.Helper()
	answers := map[string]any{
		"/apis/apps/v1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "apps/v1",
			APIResources: []metav1.APIResource{{Name: "deployments", SingularName: "deployment", Namespaced: true, Kind: "Deployment", Verbs: []string{"get"}}},
		},
		"/apis/apps/v1/namespaces/jobset-system/deployments/jobset-controller-manager": appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "jobset-system", Name: "jobset-controller-manager"},
			Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"control-plane": "controller-manager"}}},
			Status:     appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}},
		},
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "jobd"})
	proxy.Transport = &http.Transport{DialContext: d.Dial}
	proxy.FlushInterval = -1 // for what is watched
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
