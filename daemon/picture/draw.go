package picture

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/api/picture"
)

// Running is a pod that runs, or is being stopped.
type Running struct {
	Name     string
	Index    int32 // -1 for none
	Since    int64 // seconds since 1970
	Restarts int32
	Stopping bool
	// Crashed says that its containers have failed and wait to be started again.
	Crashed bool
}

// state returns what the cell of the pod shows.
func (r *Running) state() byte {
	switch {
	case r.Stopping:
		return picture.Stopped
	case r.Crashed:
		return picture.BackOff
	}
	return picture.Running
}

// Subject is the Job that is drawn, as an object or, if that is gone, from the history.
type Subject struct {
	Job *batchv1.Job
	// Past is set instead if the object is gone.
	Past *history.Job
	// Forecast is when the Job is expected to start and to end; nil if nobody was asked.
	Forecast *forecast.Forecast
	// After is for which Jobs it waits.
	After []picture.Link
	// Words returns the values of an index, see picture.Cells; nil if the indexes have none.
	Words func(index int) string
}

// Drawing is a Picture whose cells are not coded yet.
type Drawing struct {
	*picture.Picture
	states, details []byte
}

// worst has the states from the one that a cell of several indexes shows last to the one that it shows first.
const worst = string(picture.Succeeded) + string(picture.Waiting) + string(picture.Suspended) + string(picture.Stopped) +
	string(picture.Running) + string(picture.BackOff) + string(picture.Failed)

var ranks = func() (ranks [128]int8) {
	for i := range worst {
		ranks[worst[i]] = int8(i + 1)
	}
	return ranks
}()

// cell is what is known of a cell while it is drawn.
type cell struct {
	state    byte  // 0: not decided yet
	last     byte  // state of the last pod, 0 for none
	failures uint8 // bounded
	duration uint32
}

// Draw draws a Job with its pods that have ended and those that run.
func Draw(of Subject, a *Ended, running []Running, now time.Time) *Drawing {
	d := &drawer{Ended: a, now: now, job: describe(of)}
	d.job.EndedPods = a.Len()
	slices.SortFunc(running, func(x, y Running) int {
		return cmp.Or(cmp.Compare(x.Since, y.Since), cmp.Compare(x.Name, y.Name))
	})
	d.running = running
	d.cells(of)
	p := &picture.Picture{APIVersion: picture.APIVersion, Kind: picture.Kind, At: now.UnixMilli(), Job: d.job}
	out := &Drawing{Picture: p}
	p.Cells, out.states, out.details = d.columns()
	if of.Words != nil && d.indexed && d.per == 1 && p.Cells.Count <= maxValues {
		for index := range p.Cells.Count {
			p.Cells.Values = append(p.Cells.Values, of.Words(index))
		}
	}
	p.Stream = d.stream()
	p.Histograms = d.histograms(of.Job)
	p.Failures = a.Failures(out, true)
	return out
}

// maxValues is of how many cells the values are in a picture; of one of more, ?cell= has them.
const maxValues = 5000

type drawer struct {
	*Ended
	now     time.Time
	job     *picture.Job
	running []Running

	list []cell
	per  int // indexes for each cell
	told []byte
}

// describe returns what the Job says of itself.
func describe(of Subject) *picture.Job {
	if h := of.Past; h != nil {
		out := &picture.Job{
			Namespace: h.Namespace, Name: h.Name, UID: h.UID, State: h.Result, Reason: h.Reason,
			Created: h.Created.Unix(), Ended: h.Ended.Unix(), Retries: h.Retries,
		}
		if h.Started != nil {
			out.Started = h.Started.Unix()
		}
		return out
	}
	j := of.Job
	out := &picture.Job{
		Forecast:  of.Forecast,
		Namespace: j.Namespace, Name: j.Name, UID: string(j.UID), State: batch.State(j),
		Indexed:     ptr.Deref(j.Spec.CompletionMode, "") == batchv1.IndexedCompletion,
		Completions: int(ptr.Deref(j.Spec.Completions, 0)), Parallelism: int(ptr.Deref(j.Spec.Parallelism, 1)),
		Created: j.CreationTimestamp.Unix(), After: of.After,
	}
	if t := j.Status.StartTime; t != nil {
		out.Started = t.Unix()
	}
	end := batch.End(&j.Status)
	if end != nil {
		out.Ended = end.LastTransitionTime.Unix()
	}
	if c := cmp.Or(end, batch.Ending(&j.Status)); c != nil {
		out.Reason, out.Message = c.Reason, c.Message
	}
	return out
}

// cells decides what each cell shows.
func (d *drawer) cells(of Subject) {
	n := d.Len() + len(d.running)
	switch {
	case d.indexed && of.Job != nil:
		n = d.job.Completions
	case d.indexed: // as far as is known
		n = 0
		for i := range d.all {
			if c := d.all[i].cell; c < math.MaxInt32 {
				n = max(n, int(c)+1)
			}
		}
	case of.Job != nil && d.job.Ended == 0:
		succeeded := 0
		for i := range d.all {
			if d.all[i].state == picture.Succeeded {
				succeeded++
			}
		}
		n = max(n, d.Len()+d.job.Completions-succeeded)
	}
	d.told = d.onlyTold(of.Job)
	n = max(n, d.Len()+len(d.running)+len(d.told))
	d.per = max(1, (n+picture.MaxCells-1)/picture.MaxCells)
	if d.list = make([]cell, (n+d.per-1)/d.per); d.per == 1 {
		d.fill(of)
	} else {
		d.fillShared(of, n)
	}
}

// onlyTold returns the states of the pods that only the status of a Job tells of: it runs elsewhere, and the pods of a cluster have no
// records here. The indexes of an Indexed Job are in its status.
func (d *drawer) onlyTold(j *batchv1.Job) (states []byte) {
	if j == nil || j.Spec.ManagedBy == nil || d.indexed {
		return nil
	}
	known := map[byte]int32{picture.Running: int32(len(d.running))}
	for i := range d.all {
		known[d.all[i].state]++
	}
	for _, of := range []struct {
		state byte
		count int32
	}{{picture.Succeeded, j.Status.Succeeded}, {picture.Failed, j.Status.Failed}, {picture.Running, ptr.Deref(j.Status.Ready, 0)}} {
		states = append(states, bytes.Repeat([]byte{of.state}, int(max(0, of.count-known[of.state])))...)
	}
	return states[:min(len(states), picture.MaxCells-min(picture.MaxCells, d.Len()+len(d.running)))]
}

// fillShared decides cells of several indexes each, which show the worst of them.
func (d *drawer) fillShared(of Subject, n int) {
	show := func(index int32, state byte) *cell {
		if int(index) >= n || index < 0 {
			return &cell{}
		}
		c := &d.list[int(index)/d.per]
		if ranks[state] > ranks[c.state] {
			c.state = state
		}
		return c
	}
	counts := map[byte]int{}
	succeeded := make([]int, len(d.list))
	if of.Job != nil {
		indexes.EachRun(of.Job.Status.CompletedIndexes, func(first, last int32) {
			last = min(last, int32(n-1))
			counts[picture.Succeeded] += max(0, int(last)-int(first)+1)
			for i := int(first); i <= int(last); {
				next := min((i/d.per+1)*d.per, int(last)+1)
				succeeded[i/d.per] += next - i
				i = next
			}
		})
		indexes.EachRun(ptr.Deref(of.Job.Status.FailedIndexes, ""), func(first, last int32) {
			last = min(last, int32(n-1))
			counts[picture.Failed] += max(0, int(last)-int(first)+1)
			for i := int(first); i <= int(last); i = (i/d.per + 1) * d.per {
				show(int32(i), picture.Failed)
			}
		})
	}
	for i := range d.all {
		t := &d.all[i]
		c := show(t.cell, 0)
		c.last, c.duration = t.state, max(c.duration, t.seconds())
		if t.state == picture.Failed {
			c.failures = min(c.failures+1, 250)
		}
	}
	for i := range d.running {
		state := d.running[i].state()
		c := show(d.running[i].Index, state)
		c.duration = max(c.duration, uint32(max(0, d.now.Unix()-d.running[i].Since)))
		counts[state]++
	}
	rest := byte(picture.Waiting)
	if d.job.State == batch.StateSuspended {
		rest = picture.Suspended
	}
	for i := range d.list {
		size := min((i+1)*d.per, n) - i*d.per
		if c := &d.list[i]; c.state == 0 {
			if c.state = rest; succeeded[i] >= size {
				c.state = picture.Succeeded
			}
		}
	}
	rests := n
	for _, k := range counts {
		rests -= k
	}
	counts[rest] += max(0, rests)
	d.job.Counts = map[string]int{}
	for state, k := range counts {
		if k > 0 {
			d.job.Counts[string(rune(state))] = k
		}
	}
}

// fill decides cells of one index or pod each.
func (d *drawer) fill(of Subject) {
	at := func(index int32) *cell {
		if i := int(index); i >= 0 && i < len(d.list) {
			return &d.list[i]
		}
		return nil
	}
	retries := 0
	for i := range d.all {
		t := &d.all[i]
		retries += int(t.restarts)
		c := at(t.cell)
		if c == nil {
			continue
		}
		if c.last == picture.Failed {
			retries++
		}
		c.last = t.state
		c.duration = t.seconds()
		if t.state == picture.Failed && d.indexed {
			c.failures = min(c.failures+1, 250)
		}
		c.failures = uint8(min(int(c.failures)+int(t.restarts), 250))
	}
	for i := range d.running {
		r := &d.running[i]
		index := r.Index
		if !d.indexed {
			index = int32(d.Len() + i)
		}
		c := at(index)
		if c == nil {
			continue
		}
		if c.last == picture.Failed {
			retries++
		}
		c.failures = uint8(min(int(c.failures)+int(r.Restarts), 250))
		c.state, c.duration = r.state(), uint32(max(0, d.now.Unix()-r.Since))
	}
	for i, state := range d.told {
		if c := at(int32(d.Len() + len(d.running) + i)); c != nil {
			c.state = state
		}
	}
	if of.Job != nil {
		if d.indexed {
			mark := func(list string, state byte) {
				indexes.EachRun(list, func(from, to int32) {
					for i := int(from); i <= min(int(to), len(d.list)-1); i++ {
						d.list[i].state = state
					}
				})
			}
			mark(of.Job.Status.CompletedIndexes, picture.Succeeded)
			mark(ptr.Deref(of.Job.Status.FailedIndexes, ""), picture.Failed)
		}
		if d.job.Retries == 0 {
			d.job.Retries = retries
		}
	}
	counts := map[string]int{}
	for i := range d.list {
		c := &d.list[i]
		if c.state == 0 {
			c.state = d.rest(c)
		}
		if c.state == picture.Failed && c.failures > 0 && d.indexed {
			c.failures-- // the last failure was not followed by another try
		}
		counts[string(rune(c.state))]++
	}
	d.job.Counts = counts
}

// rest returns the state of a cell of which nothing runs, and that the status of the Job does not name.
func (d *drawer) rest(c *cell) byte {
	switch {
	case c.last == picture.Succeeded:
		return picture.Succeeded
	case c.last != 0 && (d.job.Ended != 0 || !d.indexed):
		return c.last
	case d.job.Ended != 0:
		return picture.Waiting
	case d.job.State == batch.StateSuspended:
		return picture.Suspended
	case c.last == picture.Failed:
		return picture.BackOff
	}
	return picture.Waiting
}

func (t *endedPod) seconds() uint32 {
	if t.start == 0 || t.end < t.start {
		return 0
	}
	return t.end - t.start
}

// columns codes the cells.
func (d *drawer) columns() (c *picture.Cells, states, details []byte) {
	longest := int64(1)
	for i := range d.list {
		longest = max(longest, int64(d.list[i].duration))
	}
	// The scale changes rarely, since all cells change with it.
	for power := int64(1); ; power *= 2 {
		if power >= longest {
			longest = power
			break
		}
	}
	levels := map[uint32]int{}
	states, details = make([]byte, len(d.list)), make([]byte, len(d.list))
	for i := range d.list {
		c := &d.list[i]
		states[i] = c.state
		level := 0
		if c.last != 0 || c.state == picture.Running || c.state == picture.Stopped {
			known, ok := levels[c.duration]
			if !ok {
				known = picture.Level(int64(c.duration), longest)
				levels[c.duration] = known
			}
			level = known
		}
		details[i] = picture.Detail(level, int(c.failures))
	}
	return &picture.Cells{
		Count: len(d.list), Per: d.per, Longest: longest, States: picture.Runs(states), Details: picture.Runs(details),
	}, states, details
}
