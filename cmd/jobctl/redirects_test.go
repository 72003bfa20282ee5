package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A pod behind pods/proxy of a cluster answers with a redirect, and is not to be shown the token of who asks.
func TestACommandIsLedNowhereElse(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	cluster := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer cluster.Close()
	config := (&target{cluster: true}).wrap(nil)(&rest.Config{Host: cluster.URL, BearerToken: "secret"})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/n/pods/p/proxy/").Do(t.Context()).Error(); err == nil || asked > 0 {
		t.Errorf("the other server was asked %d times: %v", asked, err)
	}
}
