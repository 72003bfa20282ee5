package server

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatClientsLookForInACluster(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	if svc, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil || svc.Spec.Ports[0].Port != 443 {
		t.Errorf("default/kubernetes: %+v: %v", svc, err)
	}
	list, err := c.Discovery().ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, r := range list.APIResources { // kubectl drain evicts if it finds this
		found = found || r.Name == "pods/eviction" && r.Kind == "Eviction" && r.Group == "policy" && r.Version == "v1"
	}
	if !found {
		t.Error("pods/eviction is not of policy/v1")
	}
}
