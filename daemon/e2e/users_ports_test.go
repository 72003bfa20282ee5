package e2e

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/listen"
)

// TestUserTakesThePort has somebody take the port of the settings while jobd is not there, who pretends to be jobd. All but that port is
// served, no client tells the thief anything, and jobd takes the port once it can.
func TestUserTakesThePort(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	_ = free.Close()
	x := newTeam(t, "--listen", at)
	overTLS := func() error {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(x.root, "kubeconfig"))
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := overTLS(); err != nil {
		t.Fatal(err)
	}
	x.kill()

	authority, err := listen.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	thief, err := listen.TLS(at, authority, false)
	if err != nil || thief.Waits() != nil {
		t.Fatal(err, thief.Waits())
	}
	var heard atomic.Int32
	pretends := &http.Server{TLSConfig: thief.TLS(), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) })}
	go func() { _ = thief.Serve(pretends, conns.New(conns.MaxIdle)) }()
	defer pretends.Close()

	x.serve()
	x.alice.jobctl("submit", "--image", "busybox:1.36", "--name", "goes-on", "--", "true")
	metric := func(want string) error {
		if metrics := x.jobctl("get", "--raw", "/metrics"); !strings.Contains(metrics, "\njobd_addresses_waiting "+want+"\n") {
			return fmt.Errorf("not %s addresses wait", want)
		}
		return nil
	}
	if err := metric("1"); err != nil {
		t.Error(err)
	}
	if out, err := x.try("jobd", nil, "debug", "--socket", x.socket()); err != nil || !strings.Contains(out, "another process has the port of "+at) {
		t.Errorf("%v\n%s", err, out)
	}
	if err := overTLS(); err == nil || !strings.Contains(err.Error(), "certificate") || heard.Load() != 0 {
		t.Errorf("the thief is taken for jobd: %v, %d requests", err, heard.Load())
	}
	if err := pretends.Close(); err != nil {
		t.Fatal(err)
	}
	x.eventually("jobd has its port", overTLS)
	x.eventually("nothing waits", func() error { return metric("0") })
}
