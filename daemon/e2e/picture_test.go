package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/picture"
)

// report is what this test reads of what jobctl report --json writes.
type report struct {
	Picture    picture.Picture
	Cells      []picture.CellPods
	Logs       map[string]string
	Events     []any
	Accounting *history.Job
	Manifest   string
}

// TestReport finds the index that fails, and why, in the report of a Job, also when the Job is gone.
func TestReport(t *testing.T) {
	t.Parallel()
	d := start(t)
	const hostile = `cannot open row 3 of 7</script><script>alert(1)</script>`
	d.apply(jobOf("many", fmt.Sprintf(`if [ $JOB_COMPLETION_INDEX = 2 ]; then echo '%s'; exit 3; fi`, hostile),
		"  completions: 4\n  parallelism: 2\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n"))
	d.jobctl("wait", "--for=condition=Failed", "jobs/many", "--timeout=10m")
	read := func() (r report) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.jobctl("report", "jobs/many", "--json")), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read()
	if got := r.Picture.Cells.States; got != "s2fs" {
		t.Errorf("states %q", got)
	}
	groups := r.Picture.Failures.Groups
	if len(groups) != 1 || *groups[0].ExitCode != 3 || groups[0].Cells != "2" || groups[0].Line != hostile ||
		!strings.Contains(r.Logs[groups[0].Pod], hostile) {
		t.Errorf("failures %+v, logs %q", groups, r.Logs)
	}
	if len(r.Cells) != 1 || len(r.Cells[0].Pods) != 1 || r.Cells[0].Pods[0].Pod != groups[0].Pod || len(r.Events) == 0 ||
		r.Accounting == nil || !strings.Contains(r.Manifest, "completionMode: Indexed") {
		t.Errorf("report %+v", r)
	}
	page := d.jobctl("report", "many")
	if strings.Contains(page, "<script>alert") || !strings.Contains(page, "cannot open row 3 of 7&lt;/script&gt;") {
		t.Error("what the pod has printed is not text in the page")
	}
	var p picture.Picture
	of := "/apis/batch/v1/namespaces/default/jobs/many/picture"
	if err := json.Unmarshal([]byte(d.jobctl("get", "--raw", of+"?cursor=unknown")), &p); err != nil || p.Cells == nil || p.Delta {
		t.Errorf("with a cursor that is not known: %+v, %v", p, err)
	}
	var next picture.Picture
	if err := json.Unmarshal([]byte(d.jobctl("get", "--raw", of+"?cursor="+p.Cursor)), &next); err != nil || next.Cells != nil || !next.Delta {
		t.Errorf("with a cursor: %+v, %v", next, err)
	}
	for query, want := range map[string]string{"?cell=x": "not the number of a cell", "?cell=4": "no cell 4"} {
		if out, err := d.try("jobctl", nil, "get", "--raw", of+query); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s", query, err, out)
		}
	}
	d.jobctl("delete", "job", "many")
	r = read()
	if groups := r.Picture.Failures.Groups; r.Picture.Job.State != "Failed" || r.Picture.Cells.States != "s2fs" || len(groups) != 1 ||
		groups[0].Cells != "2" || r.Accounting == nil {
		t.Errorf("what is left in the history: %+v", r.Picture)
	}
	if out, err := d.try("jobctl", nil, "report", "jobs/never"); err == nil || !strings.Contains(out, `"never" not found`) {
		t.Errorf("a Job that never was: %v, %s", err, out)
	}
}

// TestWatch finds the index that fails, and why, in a terminal of 80 columns and 24 lines.
func TestWatch(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(jobOf("many", `if [ $JOB_COMPLETION_INDEX = 2 ]; then echo 'cannot open row 3 of 7'; exit 3; fi`,
		"  completions: 4\n  parallelism: 2\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n"))
	d.jobctl("wait", "--for=condition=Failed", "jobs/many", "--timeout=10m")
	d.apply(jobOf("other", "sleep 1000000"))
	term := openTmux(t, d, 80, 24)
	term.types("NO_COLOR=1 jobctl watch; echo code $?", "Enter")
	term.shows("2 Jobs")
	term.shows("> other")
	term.types("?")
	term.shows("another order")
	term.types("Escape")
	term.shows("> other") // with Escape at once before it, a key is another one
	term.types("/")
	term.types("fail")
	term.shows("/fail_")
	term.types("Enter")
	term.shows("1 of 2 Jobs")
	term.shows("> many")
	term.types("Escape")
	term.shows("  other") // and not only "1 of 2 Jobs"
	term.types("a")
	term.shows("default/many")
	term.types("a")
	term.shows("> other")
	term.types("Down")
	term.shows("> many")
	term.types("w")
	term.shows("why jobs/many")
	term.shows("exit code 3")
	term.types("Escape")
	term.shows("> many")
	term.types("Enter")
	term.shows("3  2  cannot open row 3 of 7")
	term.shows("##X#")
	term.shows("last lines of pods/many-2-")
	term.do("resize-window", "-x", "50", "-y", "12")
	term.shows("many  Failed  3 of 4 succeeded")
	term.types("l")
	term.shows("pods/many-2-")
	term.types("Escape")
	term.shows("##X#")
	term.types("Escape")
	term.shows("> many")
	term.types("r")
	term.shows("job many runs again what has failed")
	term.types("x")
	term.shows("Delete job many and its pods? y/n")
	term.types("y")
	term.shows("1 Job,")
	term.types("s")
	term.shows("Suspended")
	term.types("q")
	term.shows("code 0")
	term.types("stty -a", "Enter")
	term.shows(" echo ")
	out, errOut, code := exitOf(t, d.jobctlWith("watch"), "")
	if code == 0 || !strings.Contains(errOut, "no terminal") {
		t.Errorf("without a terminal: %d, %s%s", code, out, errOut)
	}
}
