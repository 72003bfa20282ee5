package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
)

func TestWritesAreLoggedWithTheirAuthor(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	job := newJob("")
	job.GenerateName = "gen-"
	made := mustMake(t, jobs, job)
	if _, err := jobs.Get(t.Context(), made.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"verb=create", "code=201", "object=jobs/default/" + made.Name, "uid=", "pid="} {
		if !strings.Contains(ts.log.String(), want) {
			t.Errorf("%s is not in: %s", want, ts.log)
		}
	}
	if strings.Contains(ts.log.String(), "verb=get") {
		t.Error("reads are logged")
	}
}

func TestAnObjectMadeByApplyIsLoggedByItsName(t *testing.T) {
	ts := startServer(t)
	apply := corev1apply.ConfigMap("applied", "default").WithData(map[string]string{"a": "b"})
	maps := ts.client(t).CoreV1().ConfigMaps("default")
	if _, err := maps.Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	if want := "object=configmaps/default/applied "; !strings.Contains(ts.log.String(), want) {
		t.Errorf("%s is not in: %s", want, ts.log)
	}
}

// TestACreationThatIsGivenUpGoesOnAlone assigns the name while the request is being logged: the handlers do not wait
// for that.
func TestACreationThatIsGivenUpGoesOnAlone(t *testing.T) {
	ts := startServer(t)
	named := make(chan struct{})
	h := ts.logWrites(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			defer close(named)
			noteCreated(r.Context(), "late")
		}()
	}))
	r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/configmaps", nil)
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "configmaps", Namespace: "default"}
	h.ServeHTTP(httptest.NewRecorder(), r.WithContext(request.WithRequestInfo(r.Context(), info)))
	<-named
	if !strings.Contains(ts.log.String(), "object=configmaps/default") {
		t.Errorf("it is not in the log: %s", ts.log)
	}
}
