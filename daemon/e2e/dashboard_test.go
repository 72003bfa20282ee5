package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/forecast"
)

// TestDashboard looks at Jobs in a browser, one of which writes what it wants into names, logs and messages.
func TestDashboard(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	d := start(t)
	const hostile = `no row 3</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>`
	d.apply(jobOf("many", fmt.Sprintf(`[ $JOB_COMPLETION_INDEX != 2 ] || { echo '%s'; exit 3; }`, hostile),
		"  completions: 4\n  parallelism: 2\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n"))
	d.apply(jobOf("chatty", `i=0; while :; do echo "line $i of many"; i=$((i + 1)); sleep 0.05; done`))
	d.jobctl("wait", "--for=condition=Failed", "jobs/many", "--timeout=10m")
	link := d.dashboard()
	b.do(chromedp.Navigate(link))
	b.shows("many")
	b.shows("chatty")
	_, token, _ := strings.Cut(link, "#")
	if href := value[string](b, "location.href"); strings.Contains(href, token) {
		t.Error("the token of the link stays in the address")
	}

	b.shows("Processors, since the page was opened")
	if past := d.jobctl("get", "--raw", "/api/v1/nodes/"+d.node()+"/usage"); !strings.HasPrefix(past, `{"at":[`) {
		t.Errorf("what the machine has used is %s", past)
	}

	t.Run("the link works once", func(t *testing.T) {
		other := openBrowser(t)
		other.do(chromedp.Navigate(link))
		other.shows("the link has been used")
	})
	t.Run("the index that fails and its cause are found", func(t *testing.T) {
		b.at("jobs/default/many")
		b.shows("no row 3</script>")
		b.click(2, 4, `document.body.innerText.includes('Index 2: failed')`)
		pod := d.pods("many")
		var failed string
		for _, p := range pod {
			if p.Labels[batchv1.JobCompletionIndexAnnotation] == "2" {
				failed = p.Name
			}
		}
		b.until(fmt.Sprintf(`[...document.querySelectorAll('a')].some(a => a.textContent === %q)`, failed))
		b.at("pods/default/" + failed)
		b.until(fmt.Sprintf(`document.querySelector('.log')?.textContent.includes(%q)`, hostile))
	})
	t.Run("what a pod prints stays text", func(t *testing.T) {
		if hacked := value[string](b, "typeof window.hacked"); hacked != "undefined" || value[int](b, "document.images.length") > 0 {
			t.Errorf("a script of a pod has run: %s", hacked)
		}
	})
	t.Run("of a line without an end there is as much as anybody reads", func(t *testing.T) {
		d.apply(jobOf("endless", `head -c 3000000 /dev/zero | tr '\0' a; echo; echo after it`))
		d.complete("endless")
		b.at("pods/default/" + d.pods("endless")[0].Name)
		b.until(`document.querySelector('.log')?.textContent.includes('after it')`)
		if n := value[int](b, "document.querySelector('.log .line').textContent.length"); n < 60_000 || n > 70_000 {
			t.Errorf("%d characters", n)
		}
	})
	t.Run("a log goes on after the daemon was killed", func(t *testing.T) {
		b.at("pods/default/" + d.pods("chatty")[0].Name)
		b.shows("line 20 of many")
		d.kill()
		d.serve()
		lines := "document.querySelectorAll('.log .line').length"
		had := value[int](b, lines)
		b.until(fmt.Sprintf("%s > %d", lines, had+20))
		wrong := value[string](b, `(() => { const lines = [...document.querySelectorAll('.log .line')].map(l => l.textContent);
			const at = lines.findIndex((l, i) => l !== 'line ' + i + ' of many\n'); return at < 0 ? '' : at + ': ' + lines[at]; })()`)
		if wrong != "" {
			t.Errorf("the log has a hole, or a line twice, at %s", wrong)
		}
	})
	t.Run("an action is asked for once", func(t *testing.T) {
		b.at("jobs/default/chatty")
		b.until(`[...document.querySelectorAll('button.action')].some(a => a.textContent === 'Suspend' && !a.disabled)`)
		b.do(chromedp.Click(chromedp.Search(`//button[text()="Suspend"]`)))
		b.shows("Suspend Job default/chatty?")
		b.do(chromedp.Click(chromedp.CSS("#yes")))
		d.until("chatty", "suspended", func(j *batchv1.Job) bool { return ptr.Deref(j.Spec.Suspend, false) })
	})
	t.Run("changes by others are seen", func(t *testing.T) {
		b.until(`document.querySelector('.badge')?.textContent === 'Suspended'`)
		began := time.Now()
		if _, err := d.BatchV1().Jobs("default").Patch(t.Context(), "chatty", "application/merge-patch+json",
			[]byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		b.until(`document.querySelector('.badge')?.textContent !== 'Suspended'`)
		t.Logf("seen after %v", time.Since(began))
	})
	b.sound()
}

// TestStatesInABrowser holds the word that the page has for a Job's state against the one of everything else (batch.State).
func TestStatesInABrowser(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	d := start(t)
	b.do(chromedp.Navigate(d.dashboard()))
	b.shows("There are no Jobs")
	var jobs []*batchv1.Job
	var want []string
	conditions := []batchv1.JobConditionType{
		batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet, batchv1.JobSuspended, "",
	}
	for n := range 1 << 3 * len(conditions) * len(conditions) * 2 {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(n&1 > 0)}, Status: batchv1.JobStatus{Ready: ptr.To(int32(n >> 1 & 1))}}
		if n&4 > 0 {
			j.DeletionTimestamp = ptr.To(metav1.Now())
		}
		status := corev1.ConditionTrue
		if n&8 > 0 {
			status = corev1.ConditionFalse
		}
		for _, kind := range []batchv1.JobConditionType{conditions[n>>4%len(conditions)], conditions[n>>4/len(conditions)%len(conditions)]} {
			if kind != "" {
				j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: status})
				status = corev1.ConditionTrue
			}
		}
		jobs, want = append(jobs, j), append(want, batch.State(j))
	}
	paused := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batch.PausedAnnotation: "2026-01-01T00:00:00Z"}}}
	jobs, want = append(jobs, paused), append(want, batch.State(paused))
	for _, by := range []string{batch.AfterAnnotation, batch.StartAtAnnotation} {
		held := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
		held.Annotations = map[string]string{by: map[string]string{batch.AfterAnnotation: "a", batch.StartAtAnnotation: "2036-01-01T00:00:00Z"}[by]}
		jobs, want = append(jobs, held), append(want, batch.State(held))
		too := held.DeepCopy()
		too.Annotations[batch.PausedAnnotation] = "2026-01-01T00:00:00Z"
		jobs, want = append(jobs, too), append(want, batch.State(too))
	}
	for _, reason := range []string{batch.Preempted, batch.PodsPreempted} {
		j := &batchv1.Job{}
		j.Status.Conditions = []batchv1.JobCondition{{Type: batch.JobPaused, Status: corev1.ConditionTrue, Reason: reason}}
		jobs, want = append(jobs, j), append(want, batch.State(j))
	}
	text, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	got := value[[]string](b, `import('./ui.js').then(ui => `+string(text)+`.map(j => ui.jobState(j).state))`)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("of %+v the page says %q, and everything else %s", jobs[i], got[min(i, len(got)-1)], want[i])
		}
	}
	// So it is with how sure an expected time is.
	for _, basis := range []string{forecast.StartTime, forecast.Window, forecast.Deadline, forecast.Rate, forecast.History} {
		for _, runs := range []int{1, 2} {
			e := &forecast.Expected{At: metav1.Now(), Basis: basis, Runs: runs}
			text, err := json.Marshal(&forecast.Forecast{Starts: e})
			if err != nil {
				t.Fatal(err)
			}
			said := value[[]string](b, `import('./picture.js').then(p => p.forecasts(`+string(text)+`, Date.now()))`)
			if len(said) != 1 || !strings.HasSuffix(said[0], " ("+e.Sure()+")") {
				t.Errorf("of %s the page says %q, and everything else %q", text, said, e.Sure())
			}
		}
	}
	// And the reasons of those that wait or have failed are the words of "jobctl why".
	d.apply(list(
		jobManifest{name: "nosecret", container: "envFrom: [{secretRef: {name: db}}]"},
		jobManifest{name: "lacks", container: "resources: {requests: {cpu: 1000}}"},
		failing("fails", "exit 3"),
	))
	b.shows("Secret db does not exist")
	b.shows("never fits: it requests 1k of cpu")
	b.shows("exit code 3 of container c")
	b.shows("2\nwaiting")
	b.sound()
}

// TestDashboardOverTheNetwork signs in by a token, as somebody who may only look.
func TestDashboardOverTheNetwork(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	address := freePort(t)
	d := start(t, "--listen", address)
	d.apply(jobOf("held", "sleep 1000000"))
	d.jobctl("create", "serviceaccount", "looker")
	d.jobctl("create", "rolebinding", "looker", "--clusterrole=view", "--serviceaccount=default:looker")
	token := strings.TrimSpace(d.jobctl("create", "token", "looker"))

	b.do(chromedp.Navigate("https://" + address + "/dashboard/"))
	b.shows("Enter a token")
	b.do(chromedp.SendKeys(chromedp.CSS("input[type=password]"), "nonsense"+kb.Enter))
	b.until(`document.querySelector('input[type=password]')?.value === ''`)
	b.do(chromedp.SendKeys(chromedp.CSS("input[type=password]"), token+kb.Enter))
	b.shows("system:serviceaccount:default:looker")
	b.at("jobs/default/held")
	b.until(`[...document.querySelectorAll('button.action')].filter(a => a.disabled && a.title).length === 2`)
	if address := value[string](b, "location.href + document.cookie"); strings.Contains(address, token) {
		t.Error("the token is in the address, or in a cookie")
	}
	code := value[int](b, `fetch('../apis/batch/v1/namespaces/default/jobs/held',
		{method: 'DELETE', headers: {Authorization: 'Bearer ' + sessionStorage.getItem('jobd-token')}}).then(a => a.status)`)
	if code != 403 {
		t.Errorf("a Job is deleted with the answer %d", code)
	}
	b.do(chromedp.Reload())
	b.shows("system:serviceaccount:default:looker")
	b.sound()
}

// TestDashboardOfOneNamespace looks as somebody who may see one namespace: the page shows that, and never takes a refusal for
// an empty list.
func TestDashboardOfOneNamespace(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	d := start(t, "--listen", address)
	d.jobctl("create", "namespace", "team")
	apply := func(manifest string) {
		if out, err := d.try("jobctl", []byte(manifest), "apply", "-n", "team", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	apply(jobOf("ours", "sleep 1000000"))
	d.apply(jobOf("theirs", "sleep 1000000"))
	d.jobctl("create", "serviceaccount", "-n", "team", "looker")
	token := strings.TrimSpace(d.jobctl("create", "token", "-n", "team", "looker"))

	b := openBrowser(t)
	b.do(chromedp.Navigate("https://" + address + "/dashboard/"))
	b.shows("Enter a token")
	b.do(chromedp.SendKeys("input[type=password]", "no-such-token"+kb.Enter))
	b.shows("This token is not valid here")
	b.do(chromedp.SendKeys("input[type=password]", token+kb.Enter))
	b.shows("cannot list resource")
	if text := value[string](b, "document.body.innerText"); strings.Contains(text, "There are no") || strings.Contains(text, "0\nrunning") {
		t.Errorf("a refusal is taken for an empty list: %s", text)
	}
	d.jobctl("create", "rolebinding", "looker", "-n", "team", "--clusterrole=view", "--serviceaccount=team:looker")
	b.do(chromedp.Reload())
	b.shows("team/ours")
	b.until(`document.getElementById('namespace').value === 'team'`)
	b.shows("There are no CronJobs")
	b.at("history")
	b.shows("No Job has ended yet")
	apply(jobOf("past", "exit 3", "  backoffLimit: 0\n"))
	b.shows("team/past")

	// With a kubeconfig for a role in one namespace, by way of jobctl.
	file := filepath.Join(t.TempDir(), "team.kubeconfig")
	if err := os.WriteFile(file, []byte(d.jobctl("kubeconfig", "--role", "read", "--namespace", "team")), 0o600); err != nil {
		t.Fatal(err)
	}
	other := openBrowser(t)
	other.do(chromedp.Navigate(d.dashboard("--kubeconfig", file)))
	other.shows("team/ours")
	if text := value[string](other, "document.body.innerText"); strings.Contains(text, "theirs") {
		t.Error("it shows what is in another namespace")
	}
	// A Job that was deleted is on the page that the history links to.
	d.jobctl("delete", "job", "past", "-n", "team")
	other.at("jobs/team/past")
	other.shows("It was deleted")
	other.shows("BackoffLimitExceeded")
	b.sound()
	other.sound()
}

// TestDashboardOfManyIndexes finds indexes of 100,000 by mouse and keys.
func TestDashboardOfManyIndexes(t *testing.T) {
	t.Parallel()
	const count, failing = 100_000, 4711
	b := openBrowser(t)
	d := start(t, "--runtime", "simulated")
	d.apply(simulatedSweep(count, 40))
	d.running("sweep", 40)
	b.do(chromedp.Navigate(d.dashboard()))
	b.shows("sweep")
	began := time.Now()
	b.at("jobs/default/sweep")
	b.shows("0 of 100,000 succeeded")
	t.Logf("painted after %v", time.Since(began))
	for _, index := range []int{0, 39, 40, 777, failing, 65_536, count - 1} {
		b.point(index, count, fmt.Sprintf(`document.querySelector('.jp-tip').textContent.startsWith('Index %d: ')`, index))
	}
	var pod string
	for _, p := range d.pods("sweep") {
		if p.Labels[batchv1.JobCompletionIndexAnnotation] == "7" {
			pod = p.Name
		}
	}
	b.click(7, count, fmt.Sprintf(`[...document.querySelectorAll('.jp-detail a')].some(a => a.textContent === %q)`, pod))
	b.do(chromedp.KeyEvent(kb.End))
	b.until(`document.querySelector('.jp-tip').textContent.startsWith('Index 99999: waiting')`)
	b.sound()
}

// TestFiguresOfTheDashboard measures, for BENCHMARKS.md, what a person waits for at the page, in milliseconds.
func TestFiguresOfTheDashboard(t *testing.T) {
	if os.Getenv("JOBD_E2E_FIGURES") == "" {
		t.Skip("needs JOBD_E2E_FIGURES=1")
	}
	b := openBrowser(t)
	d := start(t, "--runtime", "simulated")
	d.apply(simulatedSweep(100_000, 40))
	d.running("sweep", 40)
	for i := range 10_000 {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%d", i)}}
		job.Spec.Suspend = ptr.To(true)
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox:1.36"}}}
		if _, err := d.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.do(chromedp.Navigate(d.dashboard()))
	b.shows("sweep")
	times := map[string][]int{}
	note := func(what string, action func()) {
		began := time.Now()
		action()
		times[what] = append(times[what], int(time.Since(began).Milliseconds()))
	}
	patch := func(suspend bool) {
		if _, err := d.BatchV1().Jobs("default").Patch(t.Context(), "job-77", "application/merge-patch+json",
			fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspend), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		b.at("node")
		b.shows("Capacity")
		note("overview with 10,000 Jobs", func() { b.at(""); b.until(`document.body.innerText.includes('9,801 more')`) })
		note("search among them", func() {
			b.do(chromedp.SendKeys(chromedp.CSS("#search"), "job-7777"))
			b.until(`document.querySelectorAll('tbody a').length === 1`)
		})
		b.at("jobs/default/job-77")
		b.shows("Suspended")
		note("a change by somebody else", func() { patch(false); b.until(`document.querySelector('.badge')?.textContent !== 'Suspended'`) })
		patch(true)
		b.at("node")
		b.shows("Capacity")
		note("picture of 100,000 indexes", func() {
			b.at("jobs/default/sweep")
			b.until(`document.querySelector('canvas')?.style.height`)
		})
	}
	for what, all := range times {
		slices.Sort(all)
		t.Logf("%s: %d (%d-%d)", what, all[2], all[0], all[4])
	}
	t.Logf("memory of the page: %d MB", value[int](b, "performance.memory.usedJSHeapSize")>>20)
}

// simulatedSweep is an Indexed Job whose pods never end.
func simulatedSweep(count, parallelism int) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: sweep}
spec:
  completions: %d
  parallelism: %d
  completionMode: Indexed
  backoffLimitPerIndex: 0
  template:
    metadata: {annotations: {jobd.dev/simulate-duration: 1000h}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox:1.36}]
`, count, parallelism)
}

// TestDashboardThatIsLoadedInPart: a file of the page, or the first answer, that does not come leaves no empty page, and the page is there
// as soon as it does.
func TestDashboardThatIsLoadedInPart(t *testing.T) {
	t.Parallel()
	d := start(t, "--runtime", "simulated")
	b := openBrowser(t)
	b.do(chromedp.Navigate(d.dashboard()))
	b.shows("There are no Jobs")
	for _, lost := range []string{"log.js", "app.js", "style.css", "selfsubjectreviews"} {
		b.loses("*://*:*/*" + lost + "*")
		b.do(chromedp.Reload())
		b.until(`document.body.innerText.includes('Loading…') || document.body.innerText.includes('Failed to fetch')`)
		b.loses()
		b.shows("There are no Jobs")
		b.until(`document.styleSheets.length === 2`)
	}
	b.sound()
}
