// Package provision creates, expands and deletes the volumes of claims outside of the control loop, since each of that
// takes a while.
//
// Tasks come in once they are durable, results go out. Tasks are idempotent, so nothing here has to survive a restart: the
// loop hands in again every task whose result it does not know.
package provision

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/jobd/jobd/internal/fairshare"
)

// Volumes are the volumes on this machine. Every call may be repeated.
type Volumes interface {
	// Provision ensures that a volume exists.
	Provision(ctx context.Context, v Volume) (Provisioned, error)
	// Expand ensures that a volume has at least that size in bytes.
	Expand(ctx context.Context, name string, size int64) error
	// Delete ensures that a volume does not exist.
	Delete(ctx context.Context, name string) error
}

// Volume is a volume that is to be created.
type Volume struct {
	Name string
	// Owner identifies whose claim the volume is for. Owners take turns, so that nobody waits for all the volumes of
	// another one.
	Owner string
	// Size is in bytes.
	Size int64
	// Loop makes it a file of that size, with a file system in it unless Block is set. Otherwise it is a directory.
	Loop, Block bool
	// FSType is the file system in such a file; empty for the default.
	FSType string
}

// Provisioned is a volume that exists.
type Provisioned struct {
	Path string
	// Enforced says that pods cannot write more to it than its size; if not, Warning says why.
	Enforced bool
	Warning  string
}

// Op is what is done with a volume.
type Op string

// What is done with volumes.
const (
	Create Op = "create"
	Expand Op = "expand"
	Delete Op = "delete"
)

// Task is something to be done with a volume. Of Volume, expanding uses Name, Owner and Size, deleting Name and Owner.
type Task struct {
	Op     Op
	Volume Volume
}

// Result is what became of a task.
type Result struct {
	Task
	Provisioned
	Err error
}

// atOnce is how many volumes are created and expanded at a time, and beside them how many are deleted; atOnceOfOwner is how
// many of these are of one owner. To delete a volume takes as long as it has files.
const (
	atOnce        = 4
	atOnceOfOwner = 2
)

// deleteTurn is how long it is until others have the place of what is deleted. Whoever keeps a directory of a volume open may make files
// in it for ever.
const deleteTurn = 5 * time.Second

func newPlaces() *fairshare.Places {
	return fairshare.New(fairshare.Limits{
		Total: atOnce, User: atOnceOfOwner, Queue: math.MaxInt, QueueAll: math.MaxInt, Wait: math.MaxInt64,
	})
}

// Worker carries out tasks: those of one volume one after the other. Its methods may be called from any goroutine.
type Worker struct {
	volumes Volumes
	nudge   func()
	ctx     context.Context
	stop    func()
	makers  *fairshare.Places
	takers  *fairshare.Places // of those that delete
	running sync.WaitGroup

	mu     sync.Mutex
	queued map[string][]Task // by volume; the first one runs
	done   []Result
}

// New makes a worker. nudge is called when there are results; it must not block.
func New(volumes Volumes, nudge func()) *Worker {
	w := &Worker{volumes: volumes, nudge: nudge, makers: newPlaces(), takers: newPlaces(), queued: map[string][]Task{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Do has a task done after the volume's others, unless the last of them is the same.
func (w *Worker) Do(t Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue := w.queued[t.Volume.Name]
	if n := len(queue); n > 0 && queue[n-1] == t {
		return
	}
	w.queued[t.Volume.Name] = append(queue, t)
	if len(queue) == 0 && w.ctx.Err() == nil {
		w.running.Go(func() { w.work(t.Volume.Name) })
	}
}

// work does the tasks of one volume until there are none left.
func (w *Worker) work(name string) {
	for {
		w.mu.Lock()
		t := w.queued[name][0]
		w.mu.Unlock()
		places := w.makers
		if t.Op == Delete {
			places = w.takers
		}
		release, ok := places.Take(w.ctx, fairshare.Client{Name: t.Volume.Owner})
		if !ok {
			return // it is being closed
		}
		result := w.do(t)
		release()
		if w.ctx.Err() != nil {
			return // the next start does it again
		}
		if t.Op == Delete && errors.Is(result.Err, context.DeadlineExceeded) {
			continue
		}
		w.mu.Lock()
		w.done = append(w.done, result)
		w.queued[name] = w.queued[name][1:]
		end := len(w.queued[name]) == 0
		if end {
			delete(w.queued, name)
		}
		w.mu.Unlock()
		w.nudge()
		if end {
			return
		}
	}
}

func (w *Worker) do(t Task) Result {
	r := Result{Task: t}
	switch t.Op {
	case Create:
		r.Provisioned, r.Err = w.volumes.Provision(w.ctx, t.Volume)
	case Expand:
		r.Err = w.volumes.Expand(w.ctx, t.Volume.Name, t.Volume.Size)
	case Delete:
		ctx, cancel := context.WithTimeout(w.ctx, deleteTurn)
		defer cancel()
		r.Err = w.volumes.Delete(ctx, t.Volume.Name)
	}
	return r
}

// Done reports whether there are results.
func (w *Worker) Done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.done) > 0
}

// Take returns the results since the last call.
func (w *Worker) Take() []Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.done
	w.done = nil
	return taken
}

// Close ends what is being done, and waits for that.
func (w *Worker) Close() {
	w.mu.Lock()
	w.stop()
	w.mu.Unlock()
	w.running.Wait()
}

// Simulated are volumes for pods without containers: nothing is created.
type Simulated struct{}

// Provision implements Volumes.
func (Simulated) Provision(_ context.Context, v Volume) (Provisioned, error) {
	return Provisioned{Path: "/simulated/" + v.Name, Enforced: true}, nil
}

// Expand implements Volumes.
func (Simulated) Expand(context.Context, string, int64) error { return nil }

// Delete implements Volumes.
func (Simulated) Delete(context.Context, string) error { return nil }
