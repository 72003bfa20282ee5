package main

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestNamesInAKubeconfig: two of them can be merged into one, and a tunnel has an address of its own.
func TestNamesInAKubeconfig(t *testing.T) {
	c := clientcmdapi.NewConfig()
	c.Clusters["jobd"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:6443"}
	c.AuthInfos["jobd"] = &clientcmdapi.AuthInfo{Token: "t"}
	c.Contexts["jobd"] = &clientcmdapi.Context{Cluster: "jobd", AuthInfo: "jobd", Namespace: "team"}
	c.CurrentContext = "jobd"
	text, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file kubeconfigFile
		want string // name, server; or the error
	}{
		"as it is":   {kubeconfigFile{name: "jobd"}, "jobd https://127.0.0.1:6443"},
		"a name":     {kubeconfigFile{name: "box"}, "box https://127.0.0.1:6443"},
		"a tunnel":   {kubeconfigFile{name: "jobd", server: "https://127.0.0.1:7443"}, "jobd https://127.0.0.1:7443"},
		"both":       {kubeconfigFile{name: "box", server: "https://box:1"}, "box https://box:1"},
		"no name":    {kubeconfigFile{}, "--name needs a name"},
		"no address": {kubeconfigFile{name: "jobd", server: "box:1"}, "https://HOST:PORT"},
		"no TLS":     {kubeconfigFile{name: "jobd", server: "http://box:1"}, "https://HOST:PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := tc.file.rename(text)
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Error(err)
				}
				return
			}
			got, err := clientcmd.Load(out)
			if err != nil {
				t.Fatal(err)
			}
			wantName, wantServer, _ := strings.Cut(tc.want, " ")
			at := got.Contexts[wantName]
			if got.CurrentContext != wantName || at == nil || at.Namespace != "team" || got.Clusters[at.Cluster].Server != wantServer ||
				got.AuthInfos[at.AuthInfo].Token != "t" || len(got.Contexts) != 1 {
				t.Errorf("%s", out)
			}
		})
	}
}

// TestAKubeconfigOfTheEnvironment is not looked at, which whoever cannot reach the socket has to know.
func TestAKubeconfigOfTheEnvironment(t *testing.T) {
	for _, err := range []error{fs.ErrPermission, fs.ErrNotExist} {
		t.Setenv("KUBECONFIG", "")
		if said := unreachable(err, "/s").Error(); strings.Contains(said, "KUBECONFIG") {
			t.Error(said)
		}
		t.Setenv("KUBECONFIG", "/home/ann/kc")
		if said := unreachable(err, "/s").Error(); !strings.Contains(said, "--kubeconfig /home/ann/kc") {
			t.Error(said)
		}
	}
}

// TestAKubeconfigIsRefused in the words of the daemon, and not as JSON.
func TestAKubeconfigIsRefused(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "message": "forbidden: User \"unix:bob\" cannot get path"}`)
	}))
	defer daemon.Close()
	dial := func(context.Context) (net.Conn, error) { return net.Dial("tcp", daemon.Listener.Addr().String()) }
	err := printKubeconfig(t.Context(), dial, nil, kubeconfigFile{}, genericiooptions.NewTestIOStreamsDiscard())
	if err == nil || err.Error() != `forbidden: User "unix:bob" cannot get path` {
		t.Error(err)
	}
}
