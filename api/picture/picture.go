package picture

import (
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/forecast"
)

// APIVersion and Kind are those of every Picture. Within the version fields may be added, and none changes its meaning.
const (
	APIVersion = "picture.jobd.dev/v1"
	Kind       = "Picture"
)

// MaxCells is how many cells a Picture has at most. A Job of more indexes has several in each cell, see Cells.Per.
const MaxCells = 100_000

// States of a cell, as the symbols of Cells.States.
const (
	Waiting   = 'w' // it has no pod that runs, and has not ended
	Running   = 'r'
	Succeeded = 's'
	Failed    = 'f'
	BackOff   = 'b' // it has failed, and will be run again
	Suspended = 'p' // the Job is suspended, and it has not ended
	Stopped   = 't' // its pod is being stopped, or was stopped before it had ended
)

// Picture is a Job at one moment. Parts that are nil have not changed since the cursor of the request; without one, all
// are there.
type Picture struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Cursor is for the next request: ?cursor=... It is opaque.
	Cursor string `json:"cursor,omitempty"`
	// Delta: parts that are missing are as they were.
	Delta bool `json:"delta,omitempty"`
	// At is when this was, in milliseconds since 1970.
	At int64 `json:"at"`

	Job *Job `json:"job,omitempty"`
	// Cells are all cells. Changed are those that have changed, in an answer that has no Cells.
	Cells   *Cells  `json:"cells,omitempty"`
	Changed *Change `json:"changed,omitempty"`

	Stream     *Stream     `json:"stream,omitempty"`
	Histograms *Histograms `json:"histograms,omitempty"`
	Failures   *Failures   `json:"failures,omitempty"`
	// Progress is nil also if no pod has ever said how far it is.
	Progress *Progress `json:"progress,omitempty"`
}

// Job is the Job as a whole. Times are in seconds since 1970; 0 is none.
type Job struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is one of package batch (State), or Deleted of a Job that was deleted before it had finished; Reason and Message
	// are those of the condition that has ended it, or is about to.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Indexed: cells are indexes. Else they are pods, in the order of their ends.
	Indexed     bool  `json:"indexed"`
	Completions int   `json:"completions,omitempty"` // 0: the Job is a queue of work
	Parallelism int   `json:"parallelism"`
	Created     int64 `json:"created"`
	Started     int64 `json:"started,omitempty"`
	Ended       int64 `json:"ended,omitempty"`
	// Forecast is when it is expected to start and to end, if it has not ended.
	Forecast *forecast.Forecast `json:"forecast,omitempty"`
	// Counts are how many cells have each state, by its symbol.
	Counts map[string]int `json:"counts"`
	// EndedPods is how many pods have ended, Retries how many of them ran what had failed before, with restarts of
	// containers in place. Unknown is how many pods have ended of which nothing more than that is known.
	EndedPods int `json:"endedPods"`
	Retries   int `json:"retries"`
	Unknown   int `json:"unknown,omitempty"`
	// CPUSeconds is what all have used.
	CPUSeconds float64 `json:"cpuSeconds"`
	// After is for which other Jobs and JobSets it waits (jobd.dev/after), each followed by those for which that waits in turn.
	After []Link `json:"after,omitempty"`
}

// Link is a Job, or a JobSet, for which another waits. The name of a JobSet comes after jobsets/.
type Link struct {
	Name string `json:"name"`
	// For is the one that waits, When what it waits for: ok, any or failed. Met: that is so.
	For  string `json:"for"`
	When string `json:"when"`
	Met  bool   `json:"met,omitempty"`
	// State is as that of a Job, or the result in the history; empty if there is no such Job.
	State string `json:"state,omitempty"`
	// Depth is how many Jobs are between it and the one that is drawn.
	Depth int `json:"depth,omitempty"`
}

// Cells are the columns of the cells.
type Cells struct {
	// Count is how many there are. Each stands for Per indexes; of several the worst state is shown.
	Count int `json:"count"`
	Per   int `json:"per"`
	// Longest is the duration, in seconds, of the highest level.
	Longest int64 `json:"longest"`
	// States has a symbol for each cell, and Details another, see Detail. Both are Runs.
	States  string `json:"states"`
	Details string `json:"details"`
	// Values are those of each cell's index, as people read them (batch.IndexWords), if the indexes have any (jobd.dev/index-env,
	// jobd.dev/array) and are not too many.
	Values []string `json:"values,omitempty"`
}

// Change are new values of some cells.
type Change struct {
	// Cells are the cells: the first of a run of them, then how many, then the first of the next run ...
	Cells []int `json:"cells"`
	// States and Details are those of all runs, one after the other.
	States  string `json:"states"`
	Details string `json:"details"`
}

// Stream shows which pods ran at a time, each in a slot: as many slots as have run at once. Times are in seconds.
type Stream struct {
	// From and To are when it begins and ends, since 1970.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Slots is how many there are.
	Slots int `json:"slots"`
	// Tasks are the pods, if they are not too many: for each its slot, when it began after From, how long it took, its
	// cell, and the code of its state's symbol.
	Tasks []int `json:"tasks,omitempty"`
	// Rows are instead of too many tasks: each stands for some slots, and has Columns symbols of states as Runs, with
	// '-' where nothing ran.
	Rows    []string `json:"rows,omitempty"`
	Columns int      `json:"columns,omitempty"`
}

// Histograms are those of the pods that have ended by themselves. One of which nothing is known is nil.
type Histograms struct {
	Duration *Histogram `json:"duration,omitempty"` // seconds
	CPU      *Histogram `json:"cpu,omitempty"`      // processors, on average over the pod's life
	Memory   *Histogram `json:"memory,omitempty"`   // bytes, the most of one container
}

// Histogram counts values: Counts[i] are those from i*Width on, below (i+1)*Width.
type Histogram struct {
	Width  float64 `json:"width"`
	Counts []int   `json:"counts"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Most   float64 `json:"most"`
	// Request and Limit are those of the pod's template; 0 is none.
	Request float64 `json:"request,omitempty"`
	Limit   float64 `json:"limit,omitempty"`
}

// Failures are the pods that have failed, those together that have failed in the same way, the most frequent first.
type Failures struct {
	Groups []Failure `json:"groups"`
	// More is how many pods have failed in ways that are in none of the groups.
	More int `json:"more,omitempty"`
}

// Failure is a way to fail.
type Failure struct {
	// ExitCode is nil if no container has ended by itself. Reason is OOMKilled, Evicted, Error ...
	ExitCode *int   `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Line is the last line that the first of the pods has printed, if that is known. Those of the others differ from it
	// in numbers at most.
	Line string `json:"line,omitempty"`
	Pods int    `json:"pods"`
	// Cells are the cells of the first of these pods, as status.failedIndexes has them: "3,7-9". More: there are more.
	Cells string `json:"cells"`
	More  bool   `json:"more,omitempty"`
	// Final is how many of the cells have failed for good.
	Final int `json:"final"`
	// Pod is the last one, Cell its cell and Ended when it ended.
	Pod   string `json:"pod"`
	Cell  int    `json:"cell"`
	Ended int64  `json:"ended"`
}

// CellPods is the answer to a request with ?cell=N: the pods of one cell, in the order of the ends.
type CellPods struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // CellPodsKind
	Cell       int    `json:"cell"`
	State      string `json:"state"` // a symbol
	// Values are those of its index (jobd.dev/index-env, jobd.dev/array).
	Values []batch.IndexValue `json:"values,omitempty"`
	Pods   []CellPod          `json:"pods"`
}

// CellPodsKind is the kind of CellPods.
const CellPodsKind = "PictureCellPods"

// CellPod is a pod of a cell.
type CellPod struct {
	Pod string `json:"pod"`
	// State is a symbol: Running, Succeeded, Failed or Stopped.
	State    string `json:"state"`
	Started  int64  `json:"started,omitempty"`
	Ended    int64  `json:"ended,omitempty"`
	ExitCode *int   `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// CPUSeconds and PeakMemory are as in the history: the latter in bytes, 0 if it is not known.
	CPUSeconds float64 `json:"cpuSeconds"`
	PeakMemory int64   `json:"peakMemory"`
	Restarts   int     `json:"restarts,omitempty"`
}

// Options are the parameters of a request.
type Options struct {
	// Cursor is what an answer said in cursor. One that is not known any more is answered as if there were none.
	Cursor string
	// Cell asks for CellPods instead of a Picture; nil: it does not.
	Cell *int
}

// Parameters returns the options as the parameters of a request.
func (o *Options) Parameters() url.Values {
	v := url.Values{}
	if o.Cursor != "" {
		v.Set("cursor", o.Cursor)
	}
	if o.Cell != nil {
		v.Set("cell", strconv.Itoa(*o.Cell))
	}
	return v
}

// GetObjectKind implements runtime.Object: apiserver reads the parameters of a request into objects.
func (*Options) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (o *Options) DeepCopyObject() runtime.Object {
	c := *o
	if o.Cell != nil {
		cell := *o.Cell
		c.Cell = &cell
	}
	return &c
}
