package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/history"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/picture"
	"github.com/jobd/jobd/internal/printable"
)

func large(t *testing.T) *wire.Picture {
	t.Helper()
	const n = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	a := picture.NewEnded("x", true)
	for i := range n {
		started, code := metav1.NewTime(time.Unix(int64(1_800_000_000+i/8*100), 0)), 0
		p := history.Pod{
			Name: fmt.Sprintf("x-%d-abcde", i), Index: strconv.Itoa(i), Started: &started,
			Ended: metav1.NewTime(started.Add(time.Duration(r.IntN(100)) * time.Second)), Result: history.PodSucceeded, ExitCode: &code,
			Use: history.Use{CPUSeconds: r.Float64(), PeakMemory: r.Int64N(1 << 30)},
		}
		if i%1000 == 0 {
			code, p.Result = 1+r.IntN(200), history.PodFailed
		}
		a.Add(&p)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	j.Spec.Completions, j.Spec.CompletionMode = ptr.To[int32](n), ptr.To(batchv1.IndexedCompletion)
	return picture.Draw(picture.Subject{Job: j}, a, nil, time.Unix(1_900_000_000, 0)).Picture
}

func TestReportOfALargeJobIsBelowAMegabyte(t *testing.T) {
	var page bytes.Buffer
	if err := Write(&page, &Report{Picture: large(t)}); err != nil || page.Len() > 1<<20 {
		t.Errorf("%d bytes, %v", page.Len(), err)
	}
}

// What others have written stays text, wherever it is: the page has no element or attribute that it has not without.
func TestHostileTextStaysText(t *testing.T) {
	write := func(text string) string {
		p := &wire.Picture{
			Job:   &wire.Job{Name: text, Namespace: text, State: text, Reason: text, Message: text, Counts: map[string]int{text: 1}},
			Cells: &wire.Cells{Count: 1, Per: 1, Longest: 1, States: "f", Details: "A"},
			Failures: &wire.Failures{Groups: []wire.Failure{
				{Reason: text, Line: text, Pod: text, Cells: "0"},
			}},
		}
		r := &Report{
			Picture: p, Manifest: text, Logs: map[string]string{text: text},
			Events: []Event{{Type: text, Reason: text, Message: text, Count: 2}}, Accounting: &history.Job{User: text, CronJob: text},
			Why: &why.Explanation{Message: text, Causes: []why.Cause{
				{Message: text, Object: &why.Reference{Kind: text, Name: text}, Log: []string{text}, Causes: []why.Cause{{Message: text}}},
			}},
			Cells: []wire.CellPods{{Pods: []wire.CellPod{{Pod: text, Reason: text}}}},
		}
		var page bytes.Buffer
		if err := Write(&page, r); err != nil {
			t.Fatal(err)
		}
		return page.String()
	}
	plain, _ := shape(t, write("plain"))
	for _, text := range []string{
		`</script><script>alert(1)</script>`, `</title><img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `<!--<script>`, `]]>`,
		`</pre></style><style>*{display:none}`, `{{.Script}}`, "\u2028</SCRIPT >", `'-alert(1)-'`, `&lt;script&gt;`, "\x00\xff</script",
		`javascript:alert(1)`,
	} {
		got, data := shape(t, write(text))
		if got != plain {
			t.Errorf("%q changes the page:\n%s\nwithout:\n%s", text, got, plain)
		}
		var read struct{ Picture wire.Picture }
		if err := json.Unmarshal([]byte(data), &read); err != nil || read.Picture.Job.Name != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q is read as %+v, %v", text, read.Picture.Job, err)
		}
	}
}

// shape returns the elements and attributes of a page without its texts, and the data in it.
func shape(t *testing.T, page string) (elements, data string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		fmt.Fprintln(&out, n.Data, n.Attr)
		for _, a := range n.Attr {
			if a.Key == "id" && a.Val == "data" {
				data = n.FirstChild.Data
			}
		}
	}
	return out.String(), data
}

// A page that is written to a terminal does nothing there, and shows no text in another order than it is in, anywhere.
func TestPageIsPrintable(t *testing.T) {
	const text = "\x1b]0;title\a\x7f\u009b31m\u202eorder\u2066"
	p := &wire.Picture{
		Job:   &wire.Job{Name: text, Namespace: text, State: text, Reason: text, Message: text},
		Cells: &wire.Cells{Count: 1, Per: 1, Longest: 1, States: "f", Details: "A"}, Failures: &wire.Failures{Groups: []wire.Failure{{Line: text}}},
	}
	var page bytes.Buffer
	if err := Write(&page, &Report{
		Picture: p, Manifest: text, Logs: map[string]string{text: text}, Events: []Event{{Message: text}},
		Why: &why.Explanation{Message: text, Causes: []why.Cause{{Message: text, Log: []string{text}}}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := page.String(); printable.Text(got) != got || !strings.Contains(got, "order") {
		t.Error("it has what acts on a terminal, or changes the order of text")
	}
}

func TestManifestIsWhatItsAuthorHasWritten(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "x", Namespace: "ns", UID: "u", ResourceVersion: "7", Labels: map[string]string{"app": "a", batchv1.JobNameLabel: "x"},
		Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "u"}}
	j.Spec.Template.Labels = map[string]string{batchv1.ControllerUidLabel: "u"}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	j.Status.Succeeded = 1
	text, err := ManifestOf(j)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: batch/v1
kind: Job
metadata:
  labels:
    app: a
  name: x
  namespace: ns
spec:
  template:
    metadata: {}
    spec:
      containers:
      - image: i
        name: c
        resources: {}
`
	if strings.ReplaceAll(text, "    metadata:\n      creationTimestamp: null\n", "    metadata: {}\n") != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// What JSON has and YAML has not does not keep a Job from being reported.
func TestManifestOfOddStrings(t *testing.T) {
	j := &batchv1.Job{}
	j.Annotations = map[string]string{"text": "\x7f\u009b31m\u202e\uffff"}
	text, err := ManifestOf(j)
	if err != nil {
		t.Fatal(err)
	}
	var back batchv1.Job
	if err := yaml.Unmarshal([]byte(text), &back); err != nil || back.Annotations["text"] != j.Annotations["text"] {
		t.Errorf("%q came back as %q, %v", j.Annotations, back.Annotations, err)
	}
}

// A JobSet is a page too, and what others have written is text in it.
func TestReportOfAJobSet(t *testing.T) {
	const hostile = "</script><script>alert(1)</script>"
	js := &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "u", Annotations: map[string]string{"a": hostile}}}
	js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{{Name: "g", Replicas: 2}}
	manifest, err := ManifestOfSet(js)
	if err != nil || strings.Contains(manifest, "uid:") || strings.Contains(manifest, "status:") || strings.Contains(manifest, "creationTimestamp") {
		t.Errorf("%v: %s", err, manifest)
	}
	drawn := picture.DrawSet(js, nil, time.Unix(1_900_000_000, 0))
	drawn.Decided = hostile
	var page bytes.Buffer
	if err := Write(&page, &Report{Set: drawn, Manifest: manifest}); err != nil {
		t.Fatal(err)
	}
	got := page.String()
	for _, want := range []string{"<title>JobSet s: Waiting</title>", "JobSet in namespace n, as of", "class SetPicture", "<th>restarts</th><td>0</td>"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(got, hostile) || strings.Contains(got, "import ") && strings.Contains(got, "from './picture.js'") {
		t.Error("what others have written is no text, or the page needs another file")
	}
}
