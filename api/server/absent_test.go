package server

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/absent"
)

// TestAbsentKindsAreEmpty reads every kind that jobd does not have as clients do, and tries to write it.
func TestAbsentKindsAreEmpty(t *testing.T) {
	ts := startServer(t)
	client, err := dynamic.NewForConfig(ts.config())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range absent.Kinds {
		t.Run(k.Kind, func(t *testing.T) {
			resources, err := ts.client(t).Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
			if err != nil {
				t.Fatal(err)
			}
			verbs := ""
			for _, r := range resources.APIResources {
				if r.Name == k.Resource() {
					verbs = r.Verbs.String()
				}
			}
			if verbs != "[get list watch]" {
				t.Errorf("discovery says %q", verbs)
			}
			var objects dynamic.ResourceInterface = client.Resource(k.GroupVersion().WithResource(k.Resource()))
			if k.Namespaced {
				objects = client.Resource(k.GroupVersion().WithResource(k.Resource())).Namespace("default")
			}
			list, err := objects.List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
			if err != nil || len(list.Items) != 0 || list.GetResourceVersion() == "" || list.GetKind() != k.Kind+"List" {
				t.Errorf("the list: %+v: %v", list, err)
			}
			if _, err := objects.Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("one: %v", err)
			}
			w, err := objects.Watch(t.Context(), metav1.ListOptions{
				SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			if err != nil {
				t.Fatal(err)
			}
			if e := <-w.ResultChan(); e.Type != watch.Bookmark {
				t.Errorf("a watch begins with %+v", e)
			}
			w.Stop()
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(k.GroupVersionKind)
			obj.SetName("x")
			_, created := objects.Create(t.Context(), obj, metav1.CreateOptions{})
			_, patched := objects.Patch(t.Context(), "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			for _, err := range []error{created, patched} {
				if !apierrors.IsMethodNotSupported(err) || !strings.Contains(err.Error(), "jobd runs Jobs and does not have the kind "+k.Kind) {
					t.Errorf("written: %v", err)
				}
			}
		})
	}
	// As a client with types of its own does it, which speaks protobuf.
	if _, err := ts.client(t).AppsV1().Deployments("default").Create(
		t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{},
	); !apierrors.IsMethodNotSupported(err) {
		t.Error(err)
	}
	if code, text := ts.do(t, "GET", "/openapi/v3/apis/apps/v1", "", ""); code != 200 || !strings.Contains(text, "io.k8s.api.apps.v1.Deployment") {
		t.Errorf("OpenAPI: %d %.200s", code, text)
	}
	if code, _ := ts.do(t, "GET", "/openapi/v2", "", ""); code != 200 {
		t.Errorf("OpenAPI v2: %d", code)
	}
}
