package server

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

func TestJobLivesOverEveryEncoding(t *testing.T) {
	ts := startServer(t)
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			config := ts.config()
			config.ContentType = contentType
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			jobs := c.BatchV1().Jobs("default")
			made, err := jobs.Create(t.Context(), newJob("a"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if made.Generation != 1 || ptr.Deref(made.Spec.BackoffLimit, 0) != 6 || made.Spec.Selector == nil {
				t.Errorf("defaults are missing: %+v", made.Spec)
			}
			made.Spec.Suspend = ptr.To(true)
			updated, err := jobs.Update(t.Context(), made, metav1.UpdateOptions{})
			if err != nil || updated.Generation != 2 {
				t.Fatalf("generation %d: %v", updated.Generation, err)
			}
			if _, err := jobs.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("a stale write gave %v", err)
			}
			got, err := jobs.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.ResourceVersion != updated.ResourceVersion {
				t.Fatalf("%v: %v", got, err)
			}
			if err := jobs.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
				t.Fatal(err)
			}
			if _, err := jobs.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("after deletion: %v", err)
			}
		})
	}
}

func TestBigAnswersAreCompressed(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	big := newJob("big")
	big.Annotations = map[string]string{"x": strings.Repeat("x", 200_000)}
	mustMake(t, jobs, big)
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://jobd/apis/batch/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	tr := &http.Transport{DialContext: ts.config().Dial}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err, resp.Header)
	}
	if data, err := io.ReadAll(z); err != nil || len(data) < 200_000 {
		t.Error(len(data), err)
	}
}
