package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/hue"
	"github.com/jobd/jobd/internal/printable"
)

// Overview is a list of Jobs, one in a line.
type Overview struct {
	// Jobs are those to be shown, see Arrange, of so many.
	Jobs []batchv1.Job
	Of   int
	// Why has the reasons of some of them in a few words, by their UIDs.
	Why      map[types.UID]string
	Selected int
	// Namespaces: they may be of several, so that each line has its own.
	Namespaces bool
	// Filter is what is looked for, and Typing whether it is being typed.
	Filter string
	Typing bool
	Order  Order
}

// Order is the order of the Jobs of an Overview.
type Order int

var orders = []struct {
	name    string
	compare func(a, b *batchv1.Job) int
}{
	{"those that have not ended first", func(a, b *batchv1.Job) int { return ended(a) - ended(b) }},
	{"most failures first", func(a, b *batchv1.Job) int { return cmp.Compare(b.Status.Failed, a.Status.Failed) }},
	{"by name", func(a, b *batchv1.Job) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}},
	{"oldest first", func(a, b *batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }},
}

// Next is another order, one after the other.
func (o Order) Next() Order { return (o + 1) % Order(len(orders)) }

// Arrange returns the Jobs whose namespace, name or state has a filter, in an order; the latest of those that are alike first.
func Arrange(jobs []batchv1.Job, filter string, order Order) []batchv1.Job {
	filter = strings.ToLower(filter)
	found := slices.DeleteFunc(slices.Clone(jobs), func(j batchv1.Job) bool {
		return !strings.Contains(strings.ToLower(j.Namespace+"/"+j.Name+" "+batch.State(&j)), filter)
	})
	slices.SortFunc(found, func(a, b batchv1.Job) int {
		return cmp.Or(orders[order].compare(&a, &b), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

func ended(j *batchv1.Job) int {
	if batch.End(&j.Status) != nil {
		return 1
	}
	return 0
}

// overviewKeys are the keys of an overview, as it shows them.
const overviewKeys = "? keys  / filter  o order  Enter picture  l logs  w why  s suspend  x delete  q quit"

// Keys explains all keys.
const Keys = `Keys of the list
  up, down, j, k        choose a Job; Page Up, Page Down
  Enter                 its picture
  /                     filter by namespace, name or state; Enter keeps the filter, Esc drops it
  o                     another order: not ended first, most failures, name, oldest
  a                     all namespaces, or the one of before

Keys of the list and of a picture
  l                     log: of the Job or, in a picture, of the chosen failure
  w                     why: what it waits for, or has failed by
  d                     describe
  s                     suspend, or resume
  r                     retry what has failed
  x                     delete, after a question
  q                     quit

Keys of a picture
  up, down, j, k        choose a failure
  Esc                   back to the list

Keys of the picture of a JobSet
  up, down, j, k        choose a group
  Enter                 its Job, or the list of its Jobs; Esc goes back
  w, d                  why, describe
`

// Draw makes the lines of the list.
func (o *Overview) Draw(now time.Time, s Style) []string {
	count := map[string]int{}
	for i := range o.Jobs {
		count[batch.State(&o.Jobs[i])]++
	}
	title := fmt.Sprintf("%d Jobs", len(o.Jobs))
	switch {
	case o.Filter != "":
		title = fmt.Sprintf("%d of %d Jobs", len(o.Jobs), o.Of)
	case len(o.Jobs) == 1:
		title = "1 Job"
	}
	title += fmt.Sprintf(", %d running, %d waiting, %d failed", count[batch.StateRunning], count[batch.StateWaiting], count[batch.StateFailed])
	if o.Order != 0 {
		title += "; " + orders[o.Order].name
	}
	if o.Filter != "" {
		title += "; with " + printable.Line(o.Filter)
	}
	room := max(1, s.Height-3)
	first := max(0, min(o.Selected-room/2, len(o.Jobs)-room))
	rows := make([]row, 0, room)
	for i := first; i < min(len(o.Jobs), first+room); i++ {
		rows = append(rows, o.row(&o.Jobs[i], now))
	}
	wide := row{name: "NAME", state: "STATE", done: "DONE", failed: "FAILED", age: "AGE"}.widths()
	for _, r := range rows {
		for i, w := range r.widths() {
			wide[i] = max(wide[i], w)
		}
	}
	wide[0] = min(wide[0], max(12, s.Width*2/5))
	head := row{name: "NAME", state: "STATE", done: "DONE", failed: "FAILED", age: "AGE", why: "WHY"}
	lines := []string{s.strong(title), s.paint(245, "  "+head.line(wide, s))}
	for i, r := range rows {
		lines = append(lines, s.chosen(r.line(wide, s), first+i == o.Selected))
	}
	keys := overviewKeys
	if o.Typing {
		keys = "/" + printable.Line(o.Filter) + "_  Enter keeps it, Esc drops it"
	}
	return s.fit(lines, keys)
}

// row is a Job in words.
type row struct {
	name, state, done, failed, age, why string

	job *batchv1.Job // nil in the heading
}

func (o *Overview) row(j *batchv1.Job, now time.Time) row {
	r := row{
		name: printable.Line(j.Name), state: batch.State(j), done: fmt.Sprint(j.Status.Succeeded), age: age(now.Sub(j.CreationTimestamp.Time)),
		why: printable.Line(o.Why[j.UID]), job: j,
	}
	if o.Namespaces {
		r.name = printable.Line(j.Namespace + "/" + j.Name)
	}
	if n := ptr.Deref(j.Spec.Completions, 0); n > 0 {
		r.done += fmt.Sprint("/", n)
	}
	if n := j.Status.Failed; n > 0 {
		r.failed = fmt.Sprint(n)
	}
	return r
}

func (r row) columns() [5]string { return [5]string{r.name, r.state, r.done, r.failed, r.age} }

func (r row) widths() (all [5]int) {
	for i, text := range r.columns() {
		all[i] = ansi.StringWidth(text)
	}
	return all
}

// barred is how wide a terminal is that has room for bars, of so many places.
const barred, places = 90, 12

func (r row) line(wide [5]int, s Style) string {
	line := ""
	for i, text := range r.columns() {
		text = ansi.Truncate(text, wide[i], "…")
		gap := strings.Repeat(" ", wide[i]-ansi.StringWidth(text))
		switch {
		case i == 1 && r.job != nil:
			text = s.paint(hue.Of(r.state).Wide(), text)
		case i == 2 && s.Width >= barred:
			text = r.bar(s) + " " + text
		case i == 3:
			text = s.paint(166, text)
		}
		line += text + gap + "  "
	}
	return line + s.paint(245, r.why)
}

// bar shows how far a Job is: what has succeeded, runs, and has failed.
func (r row) bar(s Style) string {
	if r.job == nil {
		return strings.Repeat(" ", places)
	}
	succeeded, ready, failed := int(r.job.Status.Succeeded), int(ptr.Deref(r.job.Status.Ready, 0)), int(r.job.Status.Failed)
	all := max(int(ptr.Deref(r.job.Spec.Completions, 0)), succeeded+ready+failed, 1)
	bar, sum, at := "", 0, 0
	for _, part := range []struct {
		n      int
		color  int
		letter string
	}{{succeeded, 36, "#"}, {ready, 74, ">"}, {failed, 166, "X"}, {all, 238, "."}} {
		sum = min(all, sum+max(0, part.n))
		end := min(places, (sum*places+all/2)/all)
		mark := part.letter
		if s.Color {
			mark = "━"
		}
		bar += s.paint(part.color, strings.Repeat(mark, max(0, end-at)))
		at = max(at, end)
	}
	return bar
}

func age(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
