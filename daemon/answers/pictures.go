package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/picture"
	"github.com/jobd/jobd/store"
)

const (
	// A Job is drawn at most every canvasPause or, if drawing it takes long, less often, but at least every canvasLate.
	canvasPause = 200 * time.Millisecond
	canvasLate  = 800 * time.Millisecond
	// linesAtOnce is of how many failed pods the last line is read for one request.
	linesAtOnce = 100
	// The output of pods that run is looked at every progressPause for how far they say they are, in its last lines.
	progressPause = time.Second
	progressLines = 50
	progressBytes = 64 << 10
)

// Pictures draws Jobs and JobSets. What it has drawn is shared by all who look at one at the same time. It implements
// server.Pictures.
type Pictures struct {
	Sources

	canvases shelf[canvas]
	sketches shelf[sketch]
}

// NewPictures makes what draws, which has drawn nothing.
func NewPictures(from Sources) *Pictures { return &Pictures{Sources: from} }

// canvas is one Job that somebody looks at.
type canvas struct {
	id string // part of its cursors

	mu      sync.Mutex
	past    *picture.Ended
	next    uint64 // number in the history where further pods are
	rolls   [2]picture.Roll
	texts   map[string][]byte // answers of the last picture, by what they are for
	drawn   time.Time
	took    time.Duration
	running []picture.Running
	// progress is how far pods that run say they are, by their names; nil if none has said so. looked is when that was looked at.
	progress map[string]wire.PodProgress
	looked   time.Time
	values   *batch.IndexValues // nil if there are none, or not yet
	still    string             // the same while an ended Job is as it was
}

// Picture implements server.Pictures.
func (p *Pictures) Picture(ctx context.Context, j *batchv1.Job, o *wire.Options, withLogs bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	c := p.canvases.get(j.UID, func() *canvas { return &canvas{id: string(uuid.NewUUID())[:8]} })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.refresh(ctx, c, j); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, apierrors.NewTimeoutError("the daemon is too busy to draw anything", 1)
		}
		return nil, err
	}
	roll := &c.rolls[0]
	if withLogs {
		roll = &c.rolls[1]
	}
	if o.Cell != nil {
		return c.cell(*o.Cell)
	}
	return c.answer(roll, o.Cursor, withLogs)
}

// refresh draws a Job, unless that was done just now.
func (p *Pictures) refresh(ctx context.Context, c *canvas, j *batchv1.Job) error {
	if stillFresh(c.drawn, c.took) {
		return nil
	}
	begin := time.Now()
	running, err := p.Loop.RunningPods(ctx, j.UID)
	if err != nil {
		return err
	}
	if c.past == nil {
		c.past = picture.NewEnded(j.Name, ptr.Deref(j.Spec.CompletionMode, "") == batchv1.IndexedCompletion)
	}
	j, after, err := p.read(c, j)
	if err != nil {
		return err
	}
	still := fmt.Sprint(j.UID, j.ResourceVersion, c.next)
	if len(running) == 0 && still == c.still && batch.End(&j.Status) != nil { // it does not change any more
		c.drawn = time.Now()
		return nil
	}
	c.still = still
	ended := c.past.Names()
	c.running = c.running[:0]
	for _, r := range running {
		if !ended(r.Name) { // it has ended since the loop was asked
			c.running = append(c.running, picture.Running{
				Name: r.Name, Index: r.Index, Since: r.Since, Restarts: r.Restarts, Stopping: r.Stopping,
				Crashed: !r.Ready && r.Restarts > 0,
			})
		}
	}
	now := time.Now()
	subject := picture.Subject{Job: j, After: after}
	if c.values != nil {
		subject.Words = c.values.Words
	}
	if p.Forecasts != nil {
		if subject.Forecast, err = p.Forecasts.forecast(ctx, j); err != nil {
			return err
		}
	}
	plain := picture.Draw(subject, c.past, c.running, now)
	c.past.ReadLines(linesAtOnce, func(pod, container string) string { return p.lastLine(ctx, j.Namespace, pod, container) })
	progress := p.readProgress(ctx, c, j, now)
	if err := c.show(plain, progress); err != nil {
		return err
	}
	p.canvases.grown(j.UID, c.past.Len())
	c.drawn = time.Now()
	c.took = c.drawn.Sub(begin)
	return nil
}

// read takes in what is stored of a Job: the pods that have ended, and the values of its indexes. It returns the Job of the same moment,
// so that it agrees with its pods, and which Jobs it comes after.
func (p *Pictures) read(c *canvas, j *batchv1.Job) (now *batchv1.Job, after []wire.Link, err error) {
	now = j
	err = p.Store.View(func(s *store.Snapshot) (err error) {
		c.past.Tail(nil)
		if c.next, err = history.Pods(s, j.Namespace, j.Name, string(j.UID), c.next, c.past.Add); err != nil {
			return err
		}
		if o, ok := s.Get(store.Key(objects.Accounts, "", string(j.UID))); ok {
			a, err := history.DecodeAccount(o.Value)
			if err != nil {
				return err
			}
			c.past.Tail(a.Job.Pods)
		}
		stored := &batchv1.Job{}
		if ok, err := objects.Read(s, store.Key(objects.Jobs, j.Namespace, j.Name), stored); err != nil {
			return err
		} else if ok && stored.UID == j.UID {
			now = stored
		}
		if c.values == nil {
			if c.values, err = objects.IndexValues(s, now); err != nil {
				return err
			}
		}
		after, err = hold.Chain(s, now)
		return err
	})
	return now, after, err
}

// show puts a drawing on both rolls: on that for everybody, and on that for those who may read logs.
func (c *canvas) show(plain *picture.Drawing, progress *wire.Progress) error {
	for i, failures := range []*wire.Failures{c.past.Failures(plain, false), c.past.Failures(plain, true)} {
		d := *plain
		whole := *plain.Picture
		whole.Failures = failures
		if i == 1 {
			whole.Progress = progress
		}
		d.Picture = &whole
		before := c.rolls[i].At()
		at, err := c.rolls[i].Show(&d)
		if err != nil {
			return err
		}
		if at != before {
			c.texts = map[string][]byte{}
		}
	}
	return nil
}

// stillFresh reports whether what was drawn at a time, which took so long, need not be drawn again.
func stillFresh(drawn time.Time, took time.Duration) bool {
	now := time.Now()
	return now.Sub(drawn) < min(max(canvasPause, 5*took), canvasLate) && now.After(drawn)
}

// answer returns what has changed since a cursor.
func (c *canvas) answer(r *picture.Roll, cursor string, withLogs bool) ([]byte, error) {
	key := fmt.Sprint(withLogs, cursor)
	if text, ok := c.texts[key]; ok {
		return text, nil
	}
	var out *wire.Picture
	if id, number, ok := strings.Cut(cursor, "-"); ok && id == c.id {
		if at, err := strconv.ParseUint(number, 16, 64); err == nil {
			out, _ = r.Since(at)
		}
	}
	if out == nil {
		key, out = fmt.Sprint(withLogs), r.Whole()
		if text, ok := c.texts[key]; ok {
			return text, nil
		}
	}
	out.Cursor = c.id + "-" + strconv.FormatUint(r.At(), 16)
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	if len(c.texts) < 20 { // those who look at the same time have mostly the same cursors
		c.texts[key] = text
	}
	return text, nil
}

// cell returns the pods of a cell.
func (c *canvas) cell(n int) ([]byte, error) {
	out := &wire.CellPods{APIVersion: wire.APIVersion, Kind: wire.CellPodsKind, Cell: n}
	state, per, ok := c.rolls[0].Cell(n)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("parameter cell: the Job has no cell %d", n))
	}
	out.State, out.Pods = state, c.past.Of(n, per, c.running)
	if per == 1 {
		out.Values = c.values.Of(n)
	}
	text, err := json.Marshal(out)
	return append(text, '\n'), err
}

// readProgress returns how far the first of the pods that run say they are; nil if none ever did. A line that is too far from the end by
// now is remembered.
func (p *Pictures) readProgress(ctx context.Context, c *canvas, j *batchv1.Job, now time.Time) *wire.Progress {
	look := now.Sub(c.looked) >= progressPause
	if look {
		c.looked = now
	}
	said := map[string]wire.PodProgress{}
	out := &wire.Progress{Pods: []wire.PodProgress{}}
	container := (&batch.JobLogOptions{}).Containers(j)[0]
	for _, r := range c.running[:min(len(c.running), wire.MaxProgress)] {
		one, known := c.progress[r.Name]
		if look {
			if percent, words, ok := p.lastProgress(ctx, j.Namespace, r.Name, container); ok {
				one, known = wire.PodProgress{Pod: r.Name, Cell: int(r.Index), Percent: percent, Words: words}, true
			}
		}
		if known {
			said[r.Name] = one
			out.Pods = append(out.Pods, one)
		}
	}
	if c.progress == nil && len(said) == 0 {
		return nil
	}
	c.progress = said
	return out
}

// lastProgress returns how far a pod says it is, by the end of its container's output.
func (p *Pictures) lastProgress(ctx context.Context, namespace, name, container string) (percent int, words string, ok bool) {
	obj := &corev1.Pod{}
	if err := p.Store.View(func(s *store.Snapshot) error {
		_, err := objects.Read(s, store.Key(objects.Pods, namespace, name), obj)
		return err
	}); err != nil || obj.Name == "" {
		return 0, "", false
	}
	options := &corev1.PodLogOptions{Container: container, TailLines: ptr.To[int64](progressLines), LimitBytes: ptr.To[int64](progressBytes)}
	for _, line := range why.LogLines(p.Logs.Open(ctx, obj, options)) {
		if n, text, is := wire.ParseProgress(line); is {
			percent, words, ok = n, text, true
		}
	}
	return percent, words, ok
}

// lastLine returns the last line that a container has printed; nothing if it cannot be had.
func (p *Pictures) lastLine(ctx context.Context, namespace, name, container string) (last string) {
	obj := &corev1.Pod{}
	if err := p.Store.View(func(s *store.Snapshot) error {
		_, err := objects.Read(s, store.Key(objects.Pods, namespace, name), obj)
		return err
	}); err != nil || obj.Name == "" {
		return ""
	}
	for _, line := range why.LogLines(p.Logs.Open(ctx, obj, why.LogOptions(container, false))) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return last
}
