package server

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchRaw opens a watch and returns a function that reads its next event as it was sent.
func (ts *testServer) watchRaw(t testing.TB, path, accept string) (next func() string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://jobd"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	tr := &http.Transport{DialContext: ts.config().Dial}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close(); tr.CloseIdleConnections() })
	body := bufio.NewReader(resp.Body)
	if resp.Header.Get("Content-Type") == "application/vnd.kubernetes.protobuf;stream=watch" {
		return func() string {
			var size [4]byte
			if _, err := io.ReadFull(body, size[:]); err != nil {
				return err.Error()
			}
			frame := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(body, frame); err != nil {
				return err.Error()
			}
			return string(frame)
		}
	}
	return func() string {
		line, err := body.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return line
	}
}

// rowsOf returns what does not depend on the watcher's time and place: its first event has the columns, and a later one
// has them too when it was encoded as the first event of another watcher.
func rowsOf(t *testing.T, event string, first bool) string {
	t.Helper()
	var e struct {
		Type   string
		Object metav1.Table
	}
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		t.Fatal(err)
	}
	if first && len(e.Object.ColumnDefinitions) == 0 {
		t.Error("the first event of a table has no columns")
	}
	return fmt.Sprintf("%s %s %v %s", e.Type, e.Object.ResourceVersion, e.Object.Rows[0].Cells[:2], e.Object.Rows[0].Object.Raw)
}

// A watcher that shares an event with others gets what they get, now or later.
func TestWatchersOfManyKindsSeeTheSame(t *testing.T) {
	ts := startServer(t)
	client := ts.client(t)
	const changes = 20
	forms := map[string]struct{ query, accept string }{
		"json":     {"", "application/json"},
		"protobuf": {"", "application/vnd.kubernetes.protobuf"},
		"table":    {"", "application/json;as=Table;v=v1;g=meta.k8s.io"},
		"metadata": {"", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
		"selector": {"&labelSelector=even=true", "application/json"},
	}
	seen := map[string][3][]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	watch := func(name string, i, n int) {
		next := ts.watchRaw(
			t, "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1&fieldSelector=metadata.name=c"+forms[name].query,
			forms[name].accept,
		)
		group.Go(func() {
			var events []string
			for range n {
				events = append(events, next())
			}
			mu.Lock()
			defer mu.Unlock()
			all := seen[name]
			all[i] = events
			seen[name] = all
		})
	}
	count := func(name string) int {
		if name == "selector" {
			return changes // it comes and goes
		}
		return changes + 1
	}
	for name := range forms {
		watch(name, 0, count(name))
		watch(name, 1, count(name))
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	cm, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range changes {
		cm.Labels = map[string]string{"even": fmt.Sprint(n%2 == 0)}
		if cm, err = client.CoreV1().ConfigMaps("default").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	for name := range forms {
		watch(name, 2, count(name)) // from the log, one after the other
		group.Wait()
	}
	for name, all := range seen {
		for n := range all[0] {
			if name == "table" {
				for i := range all {
					all[i][n] = rowsOf(t, all[i][n], n == 0)
				}
			}
			if all[0][n] != all[1][n] || all[0][n] != all[2][n] {
				t.Errorf("%s, event %d:\n%q\n%q\nlater:\n%q", name, n, all[0][n], all[1][n], all[2][n])
				break
			}
		}
	}
}
