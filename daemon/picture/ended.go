package picture

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/picture"
)

// maxFailed is of how many failed pods more is kept than of all pods.
const maxFailed = 2000

// Ended are the pods of one Job that have ended: about 40 bytes each. Those that were added last can be taken back, see
// Tail.
type Ended struct {
	job     string // its name
	indexed bool

	all     []endedPod
	tail    int               // that many of the last are the tail
	names   map[int32]string  // of pods, by their number, that are not called JOB-INDEX-xxxxx
	reasons []string          // by the code of endedPod.reason
	failed  map[int32]*failed // by the number of the pod
}

// endedPod is what is kept of a pod. Times are in seconds since 1970.
type endedPod struct {
	cell     int32
	start    uint32 // 0: not known
	end      uint32
	cpu      float32 // seconds
	memory   uint32  // KiB
	exitCode int16   // -1: none
	restarts uint16
	suffix   [5]byte // the end of the pod's name
	reason   uint8
	state    byte // a symbol of package api/picture
}

// failed is what else is kept of a pod that has failed.
type failed struct {
	container string // which has failed last
	line      string // that it has printed last
	read      bool   // line was looked for
}

// NewEnded returns no pods of a Job.
func NewEnded(job string, indexed bool) *Ended {
	return &Ended{job: job, indexed: indexed, names: map[int32]string{}, reasons: []string{""}, failed: map[int32]*failed{}}
}

// Len returns how many there are.
func (a *Ended) Len() int { return len(a.all) }

// Add adds a pod that has ended, behind those that are there. There must be no tail.
func (a *Ended) Add(p *history.Pod) { a.add(p) }

// Tail replaces what the last call of Tail has added.
func (a *Ended) Tail(pods []history.Pod) {
	lines := map[string]*failed{}
	for ; a.tail > 0; a.tail-- {
		n := int32(len(a.all) - 1)
		if f := a.failed[n]; f != nil {
			lines[a.name(n)] = f
		}
		delete(a.names, n)
		delete(a.failed, n)
		a.all = a.all[:n]
	}
	for i := range pods {
		n := a.add(&pods[i])
		if f := lines[pods[i].Name]; f != nil && a.failed[n] != nil {
			a.failed[n] = f
		}
	}
	a.tail = len(pods)
}

func (a *Ended) add(p *history.Pod) (number int32) {
	n := int32(len(a.all))
	t := endedPod{
		cell: n, exitCode: -1, end: uint32(max(0, p.Ended.Unix())), cpu: float32(p.CPUSeconds),
		memory: uint32(min(p.PeakMemory>>10, math.MaxUint32)), state: picture.Stopped, reason: a.reason(p.Reason),
	}
	if a.indexed {
		index, err := strconv.ParseInt(p.Index, 10, 32)
		if err != nil || index < 0 {
			index = math.MaxInt32 // of no cell
		}
		t.cell = int32(index)
	}
	if p.Started != nil {
		t.start = uint32(max(0, p.Started.Unix()))
	}
	if p.ExitCode != nil {
		t.exitCode = int16(min(max(*p.ExitCode, 0), math.MaxInt16))
	}
	for _, c := range p.Containers {
		t.restarts = uint16(min(int(t.restarts)+max(0, c.Restarts), math.MaxUint16))
	}
	switch p.Result {
	case history.PodSucceeded:
		t.state = picture.Succeeded
	case history.PodFailed:
		t.state = picture.Failed
		if len(a.failed) < maxFailed {
			f := &failed{}
			for _, c := range slices.Backward(p.Containers) {
				if c.ExitCode != 0 || c.Reason != "" {
					f.container = c.Name
					break
				}
			}
			a.failed[n] = f
		}
	}
	if prefix := a.prefix(t.cell); len(p.Name) == len(prefix)+len(t.suffix) && strings.HasPrefix(p.Name, prefix) {
		copy(t.suffix[:], p.Name[len(prefix):])
	} else {
		a.names[n] = p.Name
	}
	a.all = append(a.all, t)
	return n
}

// prefix is how the names of most pods of a cell begin.
func (a *Ended) prefix(cell int32) string {
	if a.indexed {
		return a.job + "-" + strconv.Itoa(int(cell)) + "-"
	}
	return a.job + "-"
}

func (a *Ended) name(number int32) string {
	if name, ok := a.names[number]; ok {
		return name
	}
	t := &a.all[number]
	return a.prefix(t.cell) + string(t.suffix[:])
}

func (a *Ended) reason(text string) uint8 {
	if i := slices.Index(a.reasons, text); i >= 0 {
		return uint8(i)
	}
	if len(a.reasons) > math.MaxUint8 {
		return 0
	}
	a.reasons = append(a.reasons, text)
	return uint8(len(a.reasons) - 1)
}

// ReadLines asks for the last lines of the containers that have made pods fail, each once, and for at most so many of them.
func (a *Ended) ReadLines(most int, read func(pod, container string) string) {
	numbers := make([]int32, 0, len(a.failed))
	for n, f := range a.failed {
		if !f.read {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers[:min(len(numbers), most)] {
		f := a.failed[n]
		f.read = true
		if f.container != "" {
			f.line = strings.Clone(cut(read(a.name(n), f.container)))
		}
	}
}

// maxLine is how many bytes of a line are kept.
const maxLine = 300

func cut(line string) string {
	if len(line) <= maxLine {
		return strings.ToValidUTF8(line, "\uFFFD")
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "…"
}

// Names returns a function that reports whether a pod of a name has ended lately: it knows the last ones.
func (a *Ended) Names() func(name string) bool {
	const lately = 2000
	names := map[string]bool{}
	for n := max(0, len(a.all)-lately); n < len(a.all); n++ {
		names[a.name(int32(n))] = true
	}
	return func(name string) bool { return names[name] }
}

// Of returns the pods of a cell that have ended, in the order of their ends, and then those that run. A cell is one of
// per indexes, see picture.Cells.
func (a *Ended) Of(cell, per int, running []Running) []picture.CellPod {
	out := []picture.CellPod{}
	for i := range a.all {
		t := &a.all[i]
		if int(t.cell)/per != cell {
			continue
		}
		one := picture.CellPod{
			Pod: a.name(int32(i)), State: string(rune(t.state)), Started: int64(t.start), Ended: int64(t.end),
			Reason: a.reasons[t.reason], CPUSeconds: math.Round(float64(t.cpu)*1000) / 1000, PeakMemory: int64(t.memory) << 10,
			Restarts: int(t.restarts),
		}
		if t.exitCode >= 0 {
			code := int(t.exitCode)
			one.ExitCode = &code
		}
		out = append(out, one)
	}
	for i, r := range running {
		if a.indexed && int(r.Index)/per != cell || !a.indexed && len(a.all)+i != cell {
			continue
		}
		out = append(out, picture.CellPod{Pod: r.Name, State: string(rune(r.state())), Started: r.Since, Restarts: int(r.Restarts)})
	}
	return out
}
