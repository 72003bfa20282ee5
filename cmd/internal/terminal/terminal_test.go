package terminal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/picture"
)

func viewOf(t *testing.T, states string, failures ...picture.Failure) *View {
	t.Helper()
	details := make([]byte, len(states))
	counts := map[string]int{}
	for i := range states {
		details[i] = picture.Detail(i%16, 0)
		counts[states[i:i+1]]++
	}
	v := &View{}
	if err := v.Update(&picture.Picture{
		At:    1_800_000_030_000,
		Job:   &picture.Job{Name: "x", State: "Running", Completions: len(states), Started: 1_800_000_000, Counts: counts},
		Cells: &picture.Cells{Count: len(states), Per: 1, States: picture.Runs([]byte(states)), Details: picture.Runs(details)},
		Failures: &picture.Failures{
			Groups: failures,
		},
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDrawWithoutColors(t *testing.T) {
	v := viewOf(t, "ssfrwb", picture.Failure{ExitCode: ptr.To(3), Cells: "2", Final: 1, Line: "no row\x1b[2J 7"})
	if err := v.Update(&picture.Picture{
		At: v.At, Delta: true, Changed: &picture.Change{Cells: []int{0, 1, 3, 2}, States: "wsr", Details: "A3"},
	}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(Draw(v, 0, Style{Width: 60, Height: 9}), "\n")
	want := `x  Running  2 of 6 succeeded  30s
X 1 failed  ! 1 to be retried  > 1 running  . 1 waiting  #…
.#X#>!
failed: exit code, indexes, last line
> 3  2  no row 7


` + "\n" + ansi.Truncate(v.keys(), 59, "…")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever there is to show, and however small the terminal, each line fits, and all lines do.
func TestEverythingFits(t *testing.T) {
	hostile := "\x1b]0;title\x07\x1b[2J" + strings.Repeat("世", 100) + "\r\n\x9b2J"
	jobs := make([]batchv1.Job, 50)
	for i := range jobs {
		jobs[i].Name, jobs[i].Status.Active, jobs[i].Status.Failed = hostile, 3, 4
	}
	for _, n := range []int{0, 1, 7, 1000, 99_999} {
		v := viewOf(t, strings.Repeat("sfrwbpt", n/7+1)[:n], slices.Repeat([]picture.Failure{{Cells: strings.Repeat("1,", 100), Line: hostile}}, 20)...)
		v.Job.Name, v.Job.Reason, v.Job.Message = hostile, hostile, hostile
		v.Reasons, v.LastOf, v.Last = strings.Repeat(hostile+"\n", 9), hostile, strings.Repeat(hostile+"\n", 99)
		for _, width := range []int{1, 2, 10, 80, 200} {
			for _, height := range []int{1, 2, 5, 24, 60} {
				for _, color := range []bool{true, false} {
					s := Style{width, height, color}
					for _, lines := range [][]string{
						Draw(v, 5, s), (&Overview{Jobs: jobs, Selected: 49, Filter: hostile, Namespaces: n > 7}).Draw(time.Now(), s),
						Text(hostile, strings.Repeat(hostile+"\n", 99), 90, s), {Note(hostile, s)},
					} {
						if len(lines) > height {
							t.Fatalf("%d cells in %dx%d: %d lines", n, width, height, len(lines))
						}
						for _, l := range lines {
							if got := ansi.StringWidth(l); got > max(1, width-1) {
								t.Fatalf("%d cells in %dx%d: a line of %d: %q", n, width, height, got, l)
							}
							if strings.ContainsAny(l, "\r\n\x07") || strings.Contains(l, "\x9b") ||
								strings.Contains(l, "\x1b[2J") || !color && strings.Contains(l, "\x1b") {
								t.Fatalf("a line could change the terminal: %q", l)
							}
						}
					}
				}
			}
		}
	}
}

// A failed cell is seen however many others share its place.
func TestFailedCellIsSeen(t *testing.T) {
	states := []byte(strings.Repeat("s", 100_000))
	states[4711] = picture.Failed
	lines := strings.Join(Draw(viewOf(t, string(states)), 0, Style{Width: 80, Height: 24}), "\n")
	if strings.Count(lines[strings.Index(lines, "succeeded  ")+20:], "X") != 1 {
		t.Errorf("got\n%s", lines)
	}
	if colored := strings.Join(Draw(viewOf(t, string(states)), 0, Style{80, 24, true}), "\n"); !strings.Contains(colored, "38;5;166") {
		t.Errorf("got\n%q", colored)
	}
}

func TestUpdateRefusesCellsThatItDoesNotHave(t *testing.T) {
	for _, cells := range [][]int{{5, 2}, {-1, 1}, {0, -1}, {0, 3}} {
		v := viewOf(t, "wwwwww")
		if err := v.Update(&picture.Picture{Delta: true, Changed: &picture.Change{Cells: cells, States: "s2", Details: "A2"}}); err == nil {
			t.Errorf("%v was taken", cells)
		}
	}
}

func TestArrange(t *testing.T) {
	at := func(name string, seconds int64, end batchv1.JobConditionType) batchv1.Job {
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(seconds, 0)}}
		if end != "" {
			j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: "True"}}
		}
		return j
	}
	jobs := []batchv1.Job{at("a", 1, ""), at("b", 3, batchv1.JobComplete), at("c", 2, batchv1.JobFailed), at("d", 2, "")}
	jobs[2].Status.Failed = 3
	for want, by := range map[string]struct {
		filter string
		order  Order
	}{"dabc": {}, "cbda": {order: 1}, "abcd": {order: 2}, "acdb": {order: 3}, "c": {filter: "fAIL"}, "": {filter: "e/d"}} {
		got := ""
		for _, j := range Arrange(jobs, by.filter, by.order) {
			got += j.Name
		}
		if got != want {
			t.Errorf("%v: got %s, want %s", by, got, want)
		}
	}
}

func TestOverviewWithoutColors(t *testing.T) {
	now := time.Unix(1000, 0)
	job := func(namespace, name string, succeeded, ready, failed int32) batchv1.Job {
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(940, 0)}}
		j.Spec.Completions = ptr.To[int32](10)
		j.Status.Succeeded, j.Status.Ready, j.Status.Failed, j.Status.Active = succeeded, &ready, failed, ready
		return j
	}
	jobs := []batchv1.Job{job("a", "train", 5, 3, 0), job("b", "sweep", 0, 0, 120)}
	o := Overview{Jobs: jobs, Of: 7, Why: map[types.UID]string{"sweep": "exit code 3 of container c"}, Selected: 1, Namespaces: true, Filter: "e", Order: 1}
	got := strings.Join(o.Draw(now, Style{Width: 100, Height: 6}), "\n")
	want := `2 of 7 Jobs, 1 running, 1 waiting, 0 failed; most failures first; with e
  NAME     STATE                 DONE  FAILED  AGE  WHY
  a/train  Running  ######>>>>.. 5/10          60s  
> b/sweep  Waiting  XXXXXXXXXXXX 0/10  120     60s  exit code 3 of container c

` + overviewKeys
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	o.Typing = true
	if lines := o.Draw(now, Style{Width: 80, Height: 6}); !strings.HasPrefix(lines[5], "/e_") || strings.Contains(lines[2], "#") {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
}

// What is left of the screen below the picture has the end of the log of the chosen failure, and why the Job is as it is.
func TestPictureFillsTheScreen(t *testing.T) {
	v := viewOf(t, "ssfr", picture.Failure{ExitCode: ptr.To(3), Cells: "2", Final: 1, Line: "no row 7"})
	v.Reasons, v.LastOf, v.Last = "Job x: runs\n- this\n- that\n", "x-2", strings.Repeat("before\n", 50)+"no row 7\n"
	got := strings.Join(Draw(v, 0, Style{Width: 60, Height: 17}), "\n")
	want := `x  Running  2 of 4 succeeded  30s
X 1 failed  > 1 running  # 2 succeeded  ` + `
##X>
failed: exit code, indexes, last line
> 3  2  no row 7

last lines of pods/x-2
before
before
no row 7

why
Job x: runs
- this
- that

` + ansi.Truncate(v.keys(), 59, "…")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
