package picture

import (
	"cmp"
	"slices"

	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/internal/heap"
)

const (
	// maxTasks is how many pods are shown one by one.
	maxTasks = 1500
	// rows and columns are what more of them are drawn into.
	rows, columns = 32, 240
)

// task is a pod in the stream.
type task struct {
	start, end int64
	cell       int32
	state      byte
}

// stream puts the pods into slots: each into the lowest that is free when it starts.
func (d *drawer) stream() *picture.Stream {
	tasks := make([]task, 0, len(d.all)+len(d.running))
	for i := range d.all {
		t := &d.all[i]
		if t.start != 0 && t.end >= t.start {
			tasks = append(tasks, task{int64(t.start), int64(t.end), t.cell, t.state})
		}
	}
	now := d.now.Unix()
	for i := range d.running {
		r := &d.running[i]
		cell := r.Index
		if !d.indexed {
			cell = int32(d.Len() + i)
		}
		tasks = append(tasks, task{r.Since, max(now, r.Since), cell, r.state()})
	}
	out := &picture.Stream{}
	if len(tasks) == 0 {
		return out
	}
	slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	out.From, out.To = tasks[0].start, tasks[0].end
	slots := make([]int, len(tasks))
	var free heap.Heap[slot]
	var busy heap.Heap[busySlot]
	for i, t := range tasks {
		out.To = max(out.To, t.end)
		for len(busy) > 0 && busy[0].end <= t.start {
			free.Push(busy.Pop().slot)
		}
		if len(free) > 0 {
			slots[i] = int(free.Pop())
		} else {
			slots[i] = out.Slots
			out.Slots++
		}
		busy.Push(busySlot{t.end, slot(slots[i])})
	}
	out.To = max(out.To, out.From+1)
	if len(tasks) <= maxTasks {
		for i, t := range tasks {
			out.Tasks = append(out.Tasks, slots[i], int(t.start-out.From), int(t.end-t.start), int(t.cell)/d.per, int(t.state))
		}
		return out
	}
	out.Columns = columns
	height := min(rows, out.Slots)
	raster := make([]byte, height*columns)
	for i := range raster {
		raster[i] = '-'
	}
	length := out.To - out.From
	for i, t := range tasks {
		row := raster[slots[i]*height/out.Slots*columns:][:columns]
		first := int((t.start - out.From) * (columns - 1) / length)
		last := int((t.end - out.From) * (columns - 1) / length)
		for x := first; x <= last; x++ {
			if row[x] == '-' || ranks[t.state] > ranks[row[x]] {
				row[x] = t.state
			}
		}
	}
	for row := range slices.Chunk(raster, columns) {
		out.Rows = append(out.Rows, picture.Runs(row))
	}
	return out
}

// slot is one in which nothing runs; the lowest comes first.
type slot int

func (s slot) Before(other slot) bool { return s < other }
func (s slot) Moved(int)              {}

// busySlot is a slot in which something runs until its end.
type busySlot struct {
	end  int64
	slot slot
}

func (s busySlot) Before(other busySlot) bool { return s.end < other.end }
func (s busySlot) Moved(int)                  {}
