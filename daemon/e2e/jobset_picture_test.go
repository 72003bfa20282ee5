package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/runtime/simulated"
)

// groupOf is a group of a JobSet of simulated pods.
func groupOf(name string, replicas int, duration, more string) string {
	return fmt.Sprintf(`
  - name: %s
    replicas: %d
%s    template:
      spec:
        backoffLimit: 0
        template:
          metadata: {annotations: {%s: %s}}
          spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}
`, name, replicas, more, simulated.Duration, duration)
}

func dependsOn(group, status string) string {
	return fmt.Sprintf("    dependsOn: [{name: %s, status: %s}]\n", group, status)
}

// A JobSet is seen as a graph of its groups, in the browser, in a terminal and by programs: what runs, and what waits for which.
func TestThePictureOfAJobSet(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	d := start(t, "--runtime", "simulated", "--max-pods", "20000")
	d.apply("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: train}\nspec:\n  failurePolicy: {maxRestarts: 3}\n  replicatedJobs:" +
		groupOf("data", 3, "1s", "") + groupOf("leader", 1, "1000h", "") +
		groupOf("workers", 4, "1000h", "    dependsOn: [{name: leader, status: Ready}, {name: data, status: Complete}]\n") +
		groupOf("eval", 1, "1s", dependsOn("workers", "Complete")))
	d.eventually("its workers run", func() error {
		var p picture.SetPicture
		if err := json.Unmarshal([]byte(d.jobctl("get", "--raw", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train/picture")), &p); err != nil {
			return err
		}
		got := fmt.Sprintln(p.State, p.Groups[0].Jobs, p.Groups[2].Jobs, p.Groups[2].After[0].Met, p.Groups[3].After[0])
		if got != "Running s3 r4 true {workers complete 0 4 false}\n" {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	b.do(chromedp.Navigate(d.dashboard()))
	b.shows("JobSets")
	b.until(`[...document.querySelectorAll('a')].some(a => a.textContent === 'default/train')`)
	b.at("jobsets/default/train")
	b.shows("waits until all Jobs of workers are complete: 0 of 4 are")
	b.shows("✓ data complete")
	b.until(`document.querySelectorAll('.jp-edge.jp-met:not(.jp-tip-of)').length === 2 &&
		document.querySelectorAll('.jp-edge:not(.jp-met):not(.jp-tip-of)').length === 1`)
	d.jobctl("suspend", "jobsets/train")
	b.until(`document.querySelector('.badge')?.textContent === 'Suspended'`)
	d.jobctl("resume", "jobsets/train")
	b.until(`document.querySelector('.badge')?.textContent === 'Running'`)
	b.until(`document.querySelector('.jp-job[title="train-workers-3: running"]')?.click() ?? true`)
	b.shows("JobSet train")

	// A hundred groups, of which a few are shown, and a thousand Jobs of one.
	var chain []string
	for i := range 100 {
		duration, more := "1s", ""
		if i > 0 {
			more = dependsOn(fmt.Sprint("g", i-1), "Complete")
		}
		if i == 20 {
			duration = "1000h"
		}
		chain = append(chain, groupOf(fmt.Sprint("g", i), 1, duration, more))
	}
	d.apply("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: chain}\nspec:\n  replicatedJobs:" + strings.Join(chain, ""))
	d.apply("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: wide}\nspec:\n  replicatedJobs:" + groupOf("many", 1000, "1000h", ""))
	b.at("jobsets/default/chain")
	b.shows("g19")
	b.shows("And 76 more groups: ")
	b.until(`[...document.querySelectorAll('.jp-group')].some(g => g.innerText.startsWith('g20') && g.innerText.includes('Running'))`)
	b.do(chromedp.Click(chromedp.CSS(".jp-unfold")))
	b.until(`document.querySelectorAll('.jp-group').length === 100`)
	b.at("jobsets/default/wide")
	b.shows("1,000 Running")
	b.until(`document.querySelector('.jp-bar .jp-r')?.title.startsWith('1,000 running')`)
	b.at("jobsets/default/train")
	b.shows("train-workers-3")
	page := filepath.Join(t.TempDir(), "train.html")
	if err := os.WriteFile(page, []byte(d.jobctl("report", "jobsets/train")), 0o644); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate("file://" + page))
	b.shows("waits until all Jobs of workers are complete: 0 of 4 are")
	b.until(`document.querySelectorAll('.jp-job.jp-r').length === 5`)
	b.sound()

	term := openTmux(t, d, 100, 24)
	term.types("NO_COLOR=1 jobctl watch jobsets/train; echo code $?", "Enter")
	term.shows("jobsets/train  Running  3 of 9 Jobs succeeded")
	term.shows("workers  Running   >>>> 0/4  + leader ready, + data complete")
	term.types("Down")
	term.types("Down")
	term.types("Enter")
	term.shows("4 Jobs, 4 running")
	term.types("Escape")
	term.shows("jobsets/train  Running")
	term.types("w")
	term.shows("why jobsets/train")
	term.types("q")
	term.shows("code 0")
}

// The page has the same word for a JobSet's state as everything else.
func TestStatesOfJobSetsInABrowser(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	d := start(t)
	b.do(chromedp.Navigate(d.dashboard()))
	b.shows("There are no Jobs")
	var sets []*jobsetv1.JobSet
	var want []string
	for n := range 1 << 8 {
		js := &jobsetv1.JobSet{}
		js.Annotations = map[string]string{}
		if n&1 > 0 {
			js.DeletionTimestamp = ptr.To(metav1.Now())
		}
		js.Spec.Suspend = ptr.To(n&2 > 0)
		if n&4 > 0 {
			js.Annotations[batch.AfterAnnotation] = "a"
		}
		if n&8 > 0 {
			js.Annotations[batch.PausedAnnotation] = "2026-01-01T00:00:00Z"
		}
		if n&16 > 0 {
			js.Spec.ManagedBy = ptr.To("example.com/other")
		}
		if n&32 > 0 {
			js.Status.ReplicatedJobsStatus = []jobsetv1.ReplicatedJobStatus{{Name: "a", Ready: 1}}
		}
		if c := []jobsetv1.JobSetConditionType{"", jobsetv1.JobSetCompleted, jobsetv1.JobSetFailed, jobsetv1.JobSetRestarting}[n>>6]; c != "" {
			js.Status.Conditions = []metav1.Condition{{Type: string(c), Status: metav1.ConditionTrue}}
		}
		sets, want = append(sets, js), append(want, jobset.State(js))
	}
	text, err := json.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	got := value[[]string](b, `import('./ui.js').then(ui => `+string(text)+`.map(s => ui.setState(s).state))`)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("of %+v the page says %q, and everything else %s", sets[i], got[min(i, len(got)-1)], want[i])
		}
	}
	b.sound()
}
