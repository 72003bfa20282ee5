package server

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/jobd/jobd/api/usage"
)

type fakeMeter struct{ usage.Measurement }

func (m *fakeMeter) Measure(context.Context) (*usage.Measurement, error) { return &m.Measurement, nil }

// TestResourceMetrics reads what pods and the node use as kubectl top and dashboards do.
func TestResourceMetrics(t *testing.T) {
	meter := &fakeMeter{}
	ts := startServer(t, func(c *Config) { c.Meter = meter })
	c := ts.client(t)
	if _, err := c.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Namespaces().Create(
		t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
	meter.At, meter.Node = time.Now(), "here"
	meter.Machine = usage.Use{CPU: 1500 * time.Millisecond, Window: 10 * time.Second, Memory: 3 << 30}
	measured := func(namespace, name string, uid types.UID) {
		meter.Pods = append(meter.Pods, usage.Pod{Namespace: namespace, Name: name, UID: uid, Containers: []usage.Container{
			{Name: "a", Use: usage.Use{CPU: 250 * time.Millisecond, Window: 5 * time.Second, Memory: 64 << 20}},
			{Name: "b", Use: usage.Use{CPU: 100 * time.Nanosecond, Window: 10 * time.Second, Memory: 1 << 20}},
		}})
	}
	for _, at := range []string{"default/one", "default/two", "other/one"} {
		namespace, name, _ := strings.Cut(at, "/")
		pod := newPod(name, "a")
		pod.Labels = map[string]string{"name": name}
		made, err := c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		measured(namespace, name, made.UID)
	}
	measured("default", "gone", "uid")
	measured("default", "one", "another of that name, which is gone")

	client, err := metricsclient.NewForConfig(ts.config())
	if err != nil {
		t.Fatal(err)
	}
	metrics := client.MetricsV1beta1()
	for _, tc := range []struct {
		namespace string
		options   metav1.ListOptions
		want      string
	}{
		{"", metav1.ListOptions{}, "default/one default/two other/one"},
		{"default", metav1.ListOptions{}, "default/one default/two"},
		{"", metav1.ListOptions{LabelSelector: "name=one"}, "default/one other/one"},
		{"", metav1.ListOptions{FieldSelector: "metadata.namespace=other"}, "other/one"},
		{"default", metav1.ListOptions{FieldSelector: "metadata.name!=one"}, "default/two"},
		{"nosuch", metav1.ListOptions{}, ""},
	} {
		list, err := metrics.PodMetricses(tc.namespace).List(t.Context(), tc.options)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range list.Items {
			names = append(names, m.Namespace+"/"+m.Name)
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%q %+v: %s", tc.namespace, tc.options, got)
		}
	}
	one, err := metrics.PodMetricses("default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || len(one.Containers) != 2 || one.Containers[0].Usage.Cpu().String() != "250m" ||
		one.Containers[0].Usage.Memory().String() != "64Mi" || one.Containers[1].Usage.Cpu().String() != "100n" ||
		one.Window.Duration != 10*time.Second || one.Labels["name"] != "one" {
		t.Errorf("%+v %v", one, err)
	}
	if _, err := metrics.PodMetricses("other").Get(t.Context(), "two", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	nodes, err := metrics.NodeMetricses().List(t.Context(), metav1.ListOptions{LabelSelector: "a!=b"})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Usage.Cpu().String() != "1500m" || nodes.Items[0].Usage.Memory().String() != "3Gi" {
		t.Errorf("%+v %v", nodes, err)
	}
	if _, err := metrics.NodeMetricses().Get(t.Context(), "elsewhere", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	table := ts.get(t, "/apis/metrics.k8s.io/v1beta1/namespaces/other/pods", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(table, `"cells":["one","251m","65Mi","10s"]`) {
		t.Errorf("as a table: %s", table)
	}
	// Clients with a role in one namespace see that one, and the node.
	reader := ts.limited(t, "role=read&namespace=other").CoreV1().RESTClient()
	for path, want := range map[string]int{
		"/apis/metrics.k8s.io/v1beta1/namespaces/other/pods": 200, "/apis/metrics.k8s.io/v1beta1/nodes/here": 200,
		"/apis/metrics.k8s.io/v1beta1/pods": 403, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/one": 403,
	} {
		code := 0
		reader.Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
		if code != want {
			t.Errorf("%s with a role in one namespace: %d", path, code)
		}
	}
	if code, text := ts.do(t, "DELETE", "/apis/metrics.k8s.io/v1beta1/nodes/here", "", ""); code != 405 {
		t.Errorf("deleted: %d %s", code, text)
	}
}
