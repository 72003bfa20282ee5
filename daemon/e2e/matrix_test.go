package e2e

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
)

// TestSubmitMatrix: one Job over the combinations of two variables. Each view says which values an index has; what failed runs again by its
// value; what the pods have left is listed beside their values, also when the Job is gone.
func TestSubmitMatrix(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	host := t.TempDir()
	script := `echo trains with $lr and $bs; echo "$1/$bs" >/dev/termination-log; [ $lr$bs != 0.132 ] || [ -e /h/good ]`
	out, errOut, code := exitOf(t, d.jobctlWith("submit", "--name", "sweep", "--image", "busybox:1.36", "--volume", host+":/h", "--prefix",
		"--param", "lr=0.1,0.01", "--param", "bs=32,64", "--", "sh", "-c", script, "sh", "$(lr)"), "")
	if code != 1 {
		t.Errorf("submit: %d\n%s%s", code, out, errOut)
	}
	values := []string{"lr=0.1,bs=32", "lr=0.1,bs=64", "lr=0.01,bs=32", "lr=0.01,bs=64"}
	saw := func(what, text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, text)
			}
		}
	}
	for i, v := range values {
		saw("the logs of submit", out, fmt.Sprintf(" index=%d(%s)", i, v))
		saw("the lines of submit", errOut, fmt.Sprintf(" (index %d: %s)", i, v))
		saw("the log of the Job", d.jobctl("logs", "jobs/sweep", "--prefix"), fmt.Sprintf(" index=%d(%s)", i, v))
	}
	saw("the logs of submit", out, "trains with 0.01 and 64")
	d.failed("sweep", batchv1.JobReasonFailedIndexes)
	saw("why", d.jobctl("why", "jobs/sweep"), "this pod for index 0 (lr=0.1,bs=32) failed")
	saw("watch", d.jobctl("watch", "jobs/sweep"), "(lr=0.1,bs=32)")
	saw("the cell", d.jobctl("get", "--raw", "/apis/batch/v1/namespaces/default/jobs/sweep/picture?cell=3"),
		`"values":[{"name":"lr","value":"0.01"},{"name":"bs","value":"64"}]`)
	saw("the picture", d.jobctl("get", "--raw", "/apis/batch/v1/namespaces/default/jobs/sweep/picture"), `"values":["lr=0.1,bs=32","lr=0.1,bs=64",`)
	for _, p := range d.pods("sweep") {
		if index := p.Annotations[batchv1.JobCompletionIndexAnnotation]; index == "0" {
			saw("why of a pod", d.jobctl("why", "pods/"+p.Name), "Its index is 0: lr=0.1,bs=32.")
		}
	}
	cm, err := d.CoreV1().ConfigMaps("default").Get(t.Context(), "sweep-values", metav1.GetOptions{})
	if err != nil || cm.Immutable == nil || !*cm.Immutable || len(cm.Data) != 8 || len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].Name != "sweep" {
		t.Errorf("the ConfigMap: %v %v", err, cm)
	}

	d.kill()
	d.serve()
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := d.try("jobctl", nil, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	refused(`no variable "momentum"`, "retry", "jobs/sweep", "--param", "momentum=1")
	refused("no index has lr=3", "retry", "jobs/sweep", "--param", "lr=3")
	refused("have succeeded", "retry", "jobs/sweep", "--param", "lr=0.01")
	refused("one or the other", "retry", "jobs/sweep", "--param", "lr=0.1", "--index", "0")
	refused("index 1 has succeeded", "retry", "jobs/sweep", "--index", "1")
	writeIn(t, host, "good")
	saw("retry", d.jobctl("retry", "jobs/sweep", "--param", "lr=0.1"), "attempt 2", "only index 0")
	d.complete("sweep")
	runs := map[string]int{}
	for _, p := range d.pods("sweep") {
		runs[p.Annotations[batchv1.JobCompletionIndexAnnotation]]++
	}
	if !maps.Equal(runs, map[string]int{"0": 2, "1": 1, "2": 1, "3": 1}) {
		t.Errorf("the pods of each index: %v", runs)
	}

	results := func(when string) {
		t.Helper()
		rows, err := csv.NewReader(strings.NewReader(d.jobctl("results", "jobs/sweep", "-o", "csv"))).ReadAll()
		if err != nil || len(rows) != 5 || !slices.Equal(rows[0], []string{"index", "lr", "bs", "result", "exitCode", "reason", "pod", "message"}) {
			t.Fatalf("%s: %v, results: %v", when, err, rows)
		}
		for i, row := range rows[1:] {
			got := fmt.Sprintf("%s lr=%s,bs=%s %s %s %s", row[0], row[1], row[2], row[3], row[4], row[7])
			if want := fmt.Sprintf("%d %s Succeeded 0 %s/%s", i, values[i], row[1], row[2]); got != want {
				t.Errorf("%s: row %d is %q, want %q", when, i, got, want)
			}
		}
		var r struct {
			Items []struct {
				Index   int
				Values  map[string]string
				Message string
			}
		}
		if err := json.Unmarshal([]byte(d.jobctl("results", "sweep", "-o", "json")), &r); err != nil || len(r.Items) != 4 ||
			r.Items[2].Values["lr"] != "0.01" || r.Items[2].Message != "0.01/32\n" {
			t.Errorf("%s: %v %+v", when, err, r)
		}
	}
	results("with the pods")
	saw("results", d.jobctl("results", "jobs/sweep"), "INDEX   LR     BS    RESULT      EXIT   MESSAGE")
	for _, p := range d.pods("sweep")[:3] {
		d.jobctl("delete", "pod", p.Name)
	}
	results("with some of the pods")
	d.jobctl("delete", "job", "sweep", "--cascade=foreground")
	results("of a Job that is gone")
	saw("the history", d.jobctl("history", "jobs/sweep", "--pods"), "VALUES", "lr=0.01,bs=64")
	refused(`"sweep-values" not found`, "get", "configmap", "sweep-values")

	// Rows of a file, with what CSV quotes; a Job that fails has results too.
	table := "name,\"full text\"\nx,1\n"
	if _, errOut, code := exitOf(t, d.jobctlWith("submit", "--image", "busybox:1.36", "--each", "-", "--", "true"), table); code != 1 ||
		!strings.Contains(errOut, `"full text" is no name of a variable`) {
		t.Errorf("a name with a space: %d %s", code, errOut)
	}
	table = "name,text\r\nfirst,\"a, b and \"\"c\"\"\"\r\nsecond,\"two\nlines\"\r\n"
	out, errOut, code = exitOf(t, d.jobctlWith("submit", "--name", "rows", "--image", "busybox:1.36", "--each", "-", "--progress", "quiet", "--",
		"sh", "-c", `printf '%s' "$text" >/dev/termination-log; exit 7`), table)
	if code != 7 {
		t.Errorf("rows: %d\n%s%s", code, out, errOut)
	}
	rows, err := csv.NewReader(strings.NewReader(d.jobctl("results", "rows", "-o", "csv"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][2] != `a, b and "c"` || rows[1][7] != `a, b and "c"` || rows[2][7] != "two\nlines" || rows[2][4] != "7" {
		t.Errorf("%v, results: %q", err, rows)
	}
	saw("why", d.jobctl("why", "jobs/rows"), `name=first,text="a, b and \"c\""`)

	// Pods of a Job without indexes are rows of their own.
	d.apply(jobOf("plain", "echo 42 >/dev/termination-log"))
	d.complete("plain")
	saw("results", d.jobctl("results", "jobs/plain"), "POD", "42")
	refused(`"none" not found`, "results", "jobs/none")

	// A manifest whose ConfigMap comes later, or lacks an index.
	manifest := func(more string) string {
		return jobOf("late", "echo got $LR", "  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n") + more
	}
	annotated := strings.Replace(manifest(""), "metadata: {name: late}", `metadata: {name: late, annotations: {jobd.dev/index-env: late-values}}`, 1)
	if out, err := d.try("jobctl", []byte(annotated), "apply", "-f", "-"); err == nil ||
		!strings.Contains(out, "no container of spec.template uses the ConfigMap") {
		t.Errorf("%v %s", err, out)
	}
	annotated = strings.Replace(annotated, "command:", "env: [{name: LR, valueFrom: {configMapKeyRef: {name: late-values, key: lr}}}], command:", 1)
	if out, err := d.try("jobctl", []byte(annotated), "apply", "-f", "-"); err != nil || !strings.Contains(out, `there is no ConfigMap "late-values" yet`) {
		t.Errorf("%v %s", err, out)
	}
	d.until("late", "its pods to wait", func(j *batchv1.Job) bool {
		return strings.Contains(d.jobctl("why", "jobs/late"), "ConfigMap late-values does not exist")
	})
	d.jobctl("create", "configmap", "late-values", "--from-literal=0.lr=1")
	d.until("late", "the index that has values", func(j *batchv1.Job) bool { return j.Status.CompletedIndexes == "0" })
	d.until("late", "the one that has none to say so", func(j *batchv1.Job) bool {
		return strings.Contains(d.jobctl("why", "jobs/late"), "couldn't find key 1.lr in ConfigMap default/late-values")
	})
	if _, err := d.try("jobctl", nil, "annotate", "--overwrite", "jobs/late", batch.IndexEnvAnnotation+"=other"); err == nil {
		t.Error("the annotation of a Job can be changed")
	}
}

// TestProgressOfPods: how far a pod says it is, in the block of a terminal, in watch and in the picture that the page draws.
func TestProgressOfPods(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	d.apply(jobOf("far", `echo "::progress 10 begins"; echo "::progress 40 epoch $JOB_COMPLETION_INDEX"; echo; until [ -e /go ]; do sleep 0.1; done`,
		"  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n"))
	pods := d.running("far", 2)
	picture := func(want string) {
		t.Helper()
		d.eventually("the picture has "+want, func() error {
			if text := d.jobctl("get", "--raw", "/apis/batch/v1/namespaces/default/jobs/far/picture"); !strings.Contains(text, want) {
				return errors.New(text)
			}
			return nil
		})
	}
	picture(`"cell":1,"percent":40,"words":"epoch 1"}`)
	term := openTmux(t, d, 100, 30)
	term.types("jobctl follow jobs/far; echo code $?", "Enter")
	term.shows("40% epoch 0")
	watching := openTmux(t, d, 100, 30)
	watching.types("jobctl watch jobs/far", "Enter")
	watching.shows("index 1  40%  epoch 1")
	for _, p := range pods {
		d.jobctl("exec", p.Name, "--", "touch", "/go")
	}
	term.shows("code 0")
	picture(`"progress":{"pods":[]}`)
}
