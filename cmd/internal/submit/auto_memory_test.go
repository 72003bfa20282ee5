package submit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jobd/jobd/api/history"
)

// pages answers requests for the history, one page after the other.
type pages struct {
	list  []history.List
	asked []string
	code  int
}

func (p *pages) RoundTrip(r *http.Request) (*http.Response, error) {
	p.asked = append(p.asked, r.URL.Path+"?"+r.URL.RawQuery)
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if p.code != 0 {
		answer.StatusCode = p.code
	}
	var raw []byte
	if len(p.list) > 0 {
		raw, _ = json.Marshal(p.list[0])
		p.list = p.list[1:]
	}
	answer.Body = io.NopCloser(bytes.NewReader(raw))
	return answer, nil
}

func TestMemoryAuto(t *testing.T) {
	page := func(next string, peaks ...int64) (l history.List) {
		l.Metadata.Continue = next
		for _, peak := range peaks {
			l.Items = append(l.Items, history.Job{Result: history.Complete, PodMemory: peak})
		}
		return l
	}
	for rule, c := range map[string]struct {
		flags  []string
		server pages
		memory string
		says   string // or the error
		asked  string
	}{
		"without it nothing is asked": {flags: []string{"--memory", "1Gi"}, memory: "1Gi"},
		"by its name": {
			flags: []string{"--memory", "auto", "--name", "train"}, server: pages{list: []history.List{page("", 1<<30)}},
			memory: "1229Mi", says: "memory: 1229Mi, since the one run of train used 1024.0Mi",
			asked: "/apis/history.jobd.dev/v1/namespaces/n/jobs?limit=100&name=train",
		},
		"by what its name is made from, on the second page": {
			flags: []string{"--memory", "auto"}, server: pages{list: []history.List{page("x"), page("", 1<<20, 3<<20)}},
			memory: "35Mi", says: "memory: 35Mi, since the last 2 runs of busybox-* used at most 3.0Mi", asked: "generateName=busybox-",
		},
		"no run": {
			flags: []string{"--memory", "auto", "--name", "train"}, server: pages{list: []history.List{page("")}},
			says: "--memory auto: no run of train in the namespace n that completed is in the history: give an amount for the first one, such as --memory 4Gi",
		},
		"a server that is not jobd": {
			flags: []string{"--memory", "auto"}, server: pages{code: http.StatusNotFound}, says: "--memory auto: the server keeps no history of Jobs",
		},
	} {
		t.Run(rule, func(t *testing.T) {
			o, flags := &Options{}, pflag.NewFlagSet("submit", pflag.ContinueOnError)
			o.AddSubmitFlags(flags)
			o.AddFollowFlags(flags, OnStartErrorWait)
			if err := flags.Parse(append(c.flags, "--image", "busybox:1.36")); err != nil {
				t.Fatal(err)
			}
			m, err := o.Manifests(flags, nil, os.Stdin)
			if err != nil {
				t.Fatal(err)
			}
			said, err := m.SizeMemory(t.Context(), fakeClient(t, &c.server), "n")
			if err != nil {
				said = err.Error()
			}
			if said != c.says && (err == nil || !strings.HasPrefix(said, c.says)) {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			if asked := strings.Join(c.server.asked, " "); !strings.Contains(asked, c.asked) {
				t.Errorf("it asks for %s", asked)
			}
			containers, _, _ := unstructured.NestedSlice(m.Job.Object, "spec", "template", "spec", "containers")
			for _, list := range []string{"requests", "limits"} {
				got, _, _ := unstructured.NestedString(containers[0].(map[string]any), "resources", list, string(corev1.ResourceMemory))
				if got != c.memory {
					t.Errorf("%s of %q, want %q", list, got, c.memory)
				}
			}
		})
	}
}
