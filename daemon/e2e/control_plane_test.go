package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// controlPlane is that of a real cluster: the programs that it consists of, as they are released. It has no machine.
type controlPlane struct {
	t          *testing.T
	programs   string // their directory
	dir        string
	config     *rest.Config // of an administrator
	kubeconfig string       // the same as a file
	pids       map[string]int
	*kubernetes.Clientset
}

// startControlPlane starts etcd, kube-apiserver, and kube-controller-manager.
func startControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	needContainers(t)
	c := &controlPlane{t: t, programs: os.Getenv("JOBD_E2E_CLUSTER"), pids: map[string]int{}}
	if c.programs == "" {
		t.Skip("needs the programs of a cluster: make e2e-cluster")
	}
	var err error
	if c.dir, err = os.MkdirTemp("/var/tmp", "jobd-e2e-cluster."); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(c.dir) })
	const token = "an-administrator"
	cert, key, tokens := c.file("tls.crt"), c.file("tls.key"), c.file("tokens.csv")
	writeCertificate(t, cert, key)
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	at, etcd, peers := freePort(t), "http://"+freePort(t), "http://"+freePort(t)
	_, port, _ := strings.Cut(at, ":")
	c.config = &rest.Config{
		Host: "https://" + at, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: authority}, WarningHandler: rest.NoWarnings{},
	}
	c.kubeconfig = c.access("admin.kubeconfig", at)
	if c.Clientset, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}

	c.run("etcd", "--data-dir", c.file("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync", "--quota-backend-bytes", "8000000000")
	c.run("kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port, "--advertise-address", "192.0.2.1",
		"--endpoint-reconciler-type", "none", "--tls-cert-file", cert, "--tls-private-key-file", key, "--token-auth-file", tokens,
		"--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", cert,
		"--service-account-signing-key-file", key, "--service-cluster-ip-range", "10.0.0.0/24", "--kubelet-preferred-address-types", "InternalIP")
	c.eventually("the API server is ready", func() error { return c.RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error() })
	// Their defaults, 20 and 50 requests a second, would be most of what these tests wait for.
	c.run("kube-controller-manager", "--kubeconfig", c.kubeconfig, "--leader-elect=false", "--secure-port", "0", "--root-ca-file", cert,
		"--service-account-private-key-file", key, "--kube-api-qps", "500", "--kube-api-burst", "1000")
	c.eventually("Jobs have an account", func() error {
		_, err := c.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return c
}

func (c *controlPlane) file(name string) string { return filepath.Join(c.dir, name) }

// access writes a kubeconfig of the administrator, who reaches the API server at an address.
func (c *controlPlane) access(name, at string) string {
	c.t.Helper()
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"real": {Server: "https://" + at, CertificateAuthorityData: c.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: c.config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"real": {Cluster: "real", AuthInfo: "admin"}},
		CurrentContext: "real",
	}
	if err := clientcmd.WriteToFile(config, c.file(name)); err != nil {
		c.t.Fatal(err)
	}
	return c.file(name)
}

// run starts one of the programs, which ends with the test.
func (c *controlPlane) run(name string, args ...string) {
	c.t.Helper()
	c.start(name, exec.Command(filepath.Join(c.programs, name), args...))
}

func (c *controlPlane) start(name string, cmd *exec.Cmd) {
	c.t.Helper()
	said, err := os.Create(c.file(name + ".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = said, said, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.pids[name] = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.t.Cleanup(func() {
		select {
		case err := <-ended:
			c.t.Errorf("%s has ended by itself: %v", name, err)
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
		if c.t.Failed() {
			text, _ := os.ReadFile(said.Name())
			lines := bytes.Split(text, []byte("\n"))
			c.t.Logf("%s said at last:\n%s", name, bytes.Join(lines[max(0, len(lines)-60):], []byte("\n")))
		}
	})
}

// eventually waits until something is so.
func (c *controlPlane) eventually(what string, is func() error) {
	c.t.Helper()
	c.within(patience, what, is)
}

// within is eventually for what takes longer. It is not asked often: what answers is to be measured.
func (c *controlPlane) within(long time.Duration, what string, is func() error) {
	c.t.Helper()
	err := errors.New("it was not asked")
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(long / 600) {
		if err = is(); err == nil {
			return
		}
	}
	c.t.Fatalf("%s: not within %v: %v", what, long, err)
}

// kubectl runs jobctl, which is kubectl, as the cluster's administrator.
func (c *controlPlane) kubectl(input []byte, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(bin, "jobctl"), append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), "HOME="+c.dir), bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
