package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
)

// jobLogs are the logs of a Job's pods as somebody has asked for them.
type jobLogs struct {
	*keptLogs
	job        *batchv1.Job
	opts       *batch.JobLogOptions
	containers []string
	out        *lineMerger
}

// attemptLog is one log: what an attempt of a container of a pod has written.
type attemptLog struct {
	pod       types.UID
	container string
	attempt   int
}

// OpenJob implements api/server's JobLogs.
func (k *keptLogs) OpenJob(ctx context.Context, j *batchv1.Job, o *batch.JobLogOptions) (io.ReadCloser, error) {
	select {
	case <-k.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l := &jobLogs{keptLogs: k, job: j, opts: o, containers: o.Containers(j)}
	there := l.there(l.Of(j.UID))
	if len(there) == 0 && (!o.Follow || o.Previous) {
		if err := l.whyNone(); err != nil {
			return nil, err
		}
	}
	reading, stop := context.WithCancel(ctx)
	r, w := io.Pipe()
	l.out = &lineMerger{w: w, remaining: -1, enough: stop}
	if o.LimitBytes != nil {
		l.out.remaining = *o.LimitBytes
	}
	go func() {
		defer stop()
		var err error
		if o.Follow && !o.Previous {
			err = l.follow(reading, l.store.Version())
		} else {
			err = l.readAll(reading, there)
		}
		if l.out.full() {
			err = nil
		}
		w.CloseWithError(err)
	}()
	return logStream{r, stop}, nil
}

// whyNone tells why a Job has no log, in the words that its youngest pod's would be refused with.
func (l *jobLogs) whyNone() error {
	if l.opts.Previous {
		return apierrors.NewBadRequest(fmt.Sprintf("previous terminated container %s in job %q not found", quoted(l.containers), l.job.Name))
	}
	var youngest *corev1.Pod
	if err := l.eachPod(func(p *corev1.Pod) {
		if youngest == nil || youngest.CreationTimestamp.Before(&p.CreationTimestamp) {
			youngest = p
		}
	}); err != nil || youngest == nil {
		return err
	}
	_, err := attemptOf(youngest, &corev1.PodLogOptions{Container: l.containers[0]})
	return err
}

func quoted(names []string) string {
	var q []string
	for _, n := range names {
		q = append(q, strconv.Quote(n))
	}
	return strings.Join(q, ", ")
}

// recorded is a log with what stands before its lines.
type recorded struct {
	attemptLog
	record logRecord
}

// there lists the logs of some pods that are wanted and there.
func (l *jobLogs) there(of []logRecord) (all []recorded) {
	for _, r := range of {
		for _, c := range l.containers {
			attempts := l.attempts(&r, c)
			switch n := len(attempts); {
			case l.opts.AllAttempts || n == 0:
			case l.opts.Previous:
				attempts = attempts[max(0, n-2) : n-1]
			default:
				attempts = attempts[n-1:]
			}
			for _, a := range attempts {
				all = append(all, recorded{attemptLog{r.UID, c, a}, r})
			}
		}
	}
	return all
}

func (l *jobLogs) readAll(ctx context.Context, all []recorded) error {
	for _, log := range all {
		if err := l.read(ctx, log, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// read brings one log to the reader. A log that has gone meanwhile has nothing to say.
func (l *jobLogs) read(ctx context.Context, log recorded, whole bool, ended <-chan struct{}) error {
	o := readOptions(l.opts.Pod())
	o.Follow, o.LimitBytes, o.Watcher = ended != nil, nil, l.watcher
	if whole {
		o.TailLines = nil
	}
	if l.opts.Prefix {
		o.Prefix = log.prefix
	}
	lines := &lineSource{to: l.out}
	err := logs.Read(ctx, l.path(log), o, lines, ended)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, lines.Close())
}

func (l *jobLogs) path(log recorded) string {
	return filepath.Join(l.recordDir(&log.record), log.container, strconv.Itoa(log.attempt)+".log")
}

func (log recorded) prefix(s logs.Stream) string {
	index := ""
	if log.record.Index != nil {
		index = fmt.Sprintf(" index=%d", *log.record.Index)
	}
	return fmt.Sprintf("[pod/%s/%s%s attempt=%d %s] ", log.record.Name, log.container, index, log.attempt, s)
}

// eachPod calls fn with the Job's pods as they are now.
func (l *jobLogs) eachPod(fn func(*corev1.Pod)) error {
	return l.store.View(func(s *store.Snapshot) error {
		var failed error
		s.Owned(string(l.job.UID), "", func(key string) bool {
			if !strings.HasPrefix(key, pods+"/") {
				return true
			}
			o, ok := s.Get(key)
			if !ok {
				return true
			}
			p := newPod()
			if failed = decode(o, p); failed != nil {
				return false
			}
			fn(p)
			return true
		})
		return failed
	})
}

// lineMerger brings lines of several logs to one reader, each whole.
type lineMerger struct {
	w         io.Writer
	remaining int64  // negative: no limit
	enough    func() // called when the limit is reached

	mu   sync.Mutex
	open *lineSource // whose line has no end yet, or never will
}

var errEnough = errors.New("as much as was asked for")

func (m *lineMerger) write(from *lineSource, lines []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != nil && m.open != from { // each log begins on a line of its own
		lines = append([]byte{'\n'}, lines...)
	}
	if m.open = nil; lines[len(lines)-1] != '\n' {
		m.open = from
	}
	if m.remaining >= 0 {
		lines = lines[:min(int64(len(lines)), m.remaining)]
	}
	if _, err := m.w.Write(lines); err != nil {
		return err
	}
	if m.remaining >= 0 {
		if m.remaining -= int64(len(lines)); m.remaining == 0 {
			m.enough()
			return errEnough
		}
	}
	return nil
}

func (m *lineMerger) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remaining == 0
}

// maxHeldLine is how much of a line is held back until its end comes.
const maxHeldLine = 1 << 20

// lineSource is the end of a lineMerger for one log.
type lineSource struct {
	to   *lineMerger
	held []byte
}

func (s *lineSource) Write(b []byte) (int, error) {
	s.held = append(s.held, b...)
	end := bytes.LastIndexByte(s.held, '\n') + 1
	if end == 0 && len(s.held) > maxHeldLine {
		end = len(s.held)
	}
	if end > 0 {
		if err := s.to.write(s, s.held[:end]); err != nil {
			return 0, err
		}
		s.held = append(s.held[:0], s.held[end:]...)
	}
	return len(b), nil
}

// Close writes a last line that has no end.
func (s *lineSource) Close() error {
	if len(s.held) == 0 {
		return nil
	}
	return s.to.write(s, s.held)
}

// follow reads what is there, and then, by the changes since a version, all that is written until the Job is over.
func (l *jobLogs) follow(ctx context.Context, from uint64) error {
	ctx, stop := context.WithCancel(ctx)
	f := &following{jobLogs: l, ctx: ctx, stop: stop, seen: map[attemptLog]chan struct{}{}}
	defer f.readers.Wait()
	return f.run(from)
}

// following is a Job whose logs are being read while they are written.
type following struct {
	*jobLogs
	ctx     context.Context
	stop    context.CancelFunc
	readers sync.WaitGroup
	// seen are the logs that are read or were, with what tells their readers that they have ended; nil when that was said.
	seen  map[attemptLog]chan struct{}
	begun bool // the logs that were there at first are in seen

	mu  sync.Mutex
	err error
}

func (f *following) run(from uint64) error {
	over, changes := make(chan struct{}), make(chan []store.Change)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer f.stop()
	watching.Go(func() {
		defer close(over)
		f.awaitJob()
	})
	watching.Go(func() { f.watchPods(from, changes) })
	if err := f.look(); err != nil {
		return err
	}
	for jobOver := false; ; {
		select {
		case <-over:
			over, jobOver = nil, true
			// What the Job's end was decided on is in the store.
			if err := f.look(); err != nil {
				return err
			}
		case seen := <-changes:
			if err := f.take(seen); err != nil {
				return err
			}
		case <-f.ctx.Done():
			return errors.Join(f.failure(), f.ctx.Err())
		}
		if jobOver && !f.reading() {
			f.readers.Wait()
			return f.failure()
		}
	}
}

// watchPods gives the changes of pods, and nil when it cannot tell some of them.
func (f *following) watchPods(from uint64, changes chan<- []store.Change) {
	prefix := store.Key(pods, f.job.Namespace, "")
	for cursor := f.store.Cursor(from, prefix); ; {
		seen, _, err := cursor.Next(f.ctx, 64)
		switch {
		case errors.Is(err, store.ErrCompacted):
			cursor, seen = f.store.Cursor(f.store.Version(), prefix), nil
		case err != nil:
			return
		}
		select {
		case changes <- seen:
		case <-f.ctx.Done():
			return
		}
	}
}

func (f *following) take(changes []store.Change) error {
	if changes == nil {
		return f.look()
	}
	for _, c := range changes {
		if err := f.change(c); err != nil {
			return err
		}
	}
	return nil
}

// awaitJob returns when the Job has finished or is gone.
func (f *following) awaitJob() {
	key := keyOf(jobs, f.job)
	for cursor := f.store.Cursor(f.store.Version(), key); ; {
		j, over := newJob(), false
		err := f.store.View(func(s *store.Snapshot) error {
			o, ok := s.Get(key)
			if over = !ok || o.UID != string(f.job.UID); over {
				return nil
			}
			return decode(o, j)
		})
		if err != nil || over || finished(j) {
			return
		}
		if _, _, err := cursor.Next(f.ctx, 1); err != nil && !errors.Is(err, store.ErrCompacted) {
			return
		}
		if at := f.store.Version(); at > cursor.At() {
			cursor = f.store.Cursor(at, key)
		}
	}
}

// look takes in all of the Job's pods as they are now.
func (f *following) look() error {
	records := f.Of(f.job.UID) // before the pods: whose pod is not there has lost it
	live := map[types.UID]*corev1.Pod{}
	if err := f.eachPod(func(p *corev1.Pod) { live[p.UID] = p }); err != nil {
		return err
	}
	for uid := range f.unended() {
		if live[uid] == nil {
			f.end(func(log attemptLog) bool { return log.pod == uid })
		}
	}
	first := !f.begun
	if first {
		f.begun = true
		if err := f.readAll(f.ctx, f.ended(records, live)); err != nil {
			return err
		}
	}
	for _, r := range records {
		if p := live[r.UID]; p != nil {
			f.observe(p, r, !first)
			continue
		}
		f.remaining(r) // it has come and gone unseen
	}
	return nil
}

// ended are the logs that are wanted, were there at first and will not grow. They come first, in the order of the pods.
func (f *following) ended(of []logRecord, live map[types.UID]*corev1.Pod) (all []recorded) {
	for _, log := range f.there(of) {
		if p := live[log.pod]; p == nil || over(p, log.attemptLog) {
			all = append(all, log)
			f.seen[log.attemptLog] = nil
		}
		for a := range log.attempt { // those before it are among what is wanted, or not wanted
			f.seen[attemptLog{log.pod, log.container, a}] = nil
		}
	}
	return all
}

// unended are the pods whose logs are being read.
func (f *following) unended() map[types.UID]bool {
	of := map[types.UID]bool{}
	for log, ended := range f.seen {
		if ended != nil {
			of[log.pod] = true
		}
	}
	return of
}

func (f *following) reading() bool { return len(f.unended()) > 0 }

// change takes in what has become of a pod.
func (f *following) change(c store.Change) error {
	if !slices.Contains(c.Object.Owners, string(f.job.UID)) {
		return nil
	}
	p := newPod()
	if err := decode(c.Object, p); err != nil {
		return err
	}
	for _, r := range f.Of(f.job.UID) {
		if r.UID != p.UID {
			continue
		}
		f.observe(p, r, true)
		if c.Deleted {
			f.remaining(r)
		}
	}
	if c.Deleted {
		f.end(func(log attemptLog) bool { return log.pod == p.UID })
	}
	return nil
}

// observe begins to read what a pod has begun to write, and says what has ended.
func (f *following) observe(p *corev1.Pod, r logRecord, whole bool) {
	for _, c := range f.containers {
		status := statusOf(p, c)
		if status == nil {
			continue
		}
		for _, a := range f.attempts(&r, c) {
			if a < int(status.RestartCount) || a == int(status.RestartCount) && status.ContainerID != "" {
				f.begin(recorded{attemptLog{p.UID, c, a}, r}, whole)
			}
		}
		f.end(func(log attemptLog) bool { return log.pod == p.UID && log.container == c && over(p, log) })
	}
}

// remaining reads what a pod that is gone has written and was not yet seen.
func (f *following) remaining(r logRecord) {
	for _, c := range f.containers {
		for _, a := range f.attempts(&r, c) {
			f.begin(recorded{attemptLog{r.UID, c, a}, r}, true)
		}
	}
	f.end(func(log attemptLog) bool { return log.pod == r.UID })
}

func (f *following) begin(log recorded, whole bool) {
	if _, ok := f.seen[log.attemptLog]; ok {
		return
	}
	ended := make(chan struct{})
	f.seen[log.attemptLog] = ended
	f.readers.Go(func() {
		if err := f.read(f.ctx, log, whole, ended); err != nil {
			f.mu.Lock()
			if f.err == nil && f.ctx.Err() == nil {
				f.err = err
			}
			f.mu.Unlock()
			f.stop()
		}
	})
}

// end says of some logs that nothing will be written to them any more.
func (f *following) end(which func(attemptLog) bool) {
	for log, ended := range f.seen {
		if ended != nil && which(log) {
			close(ended)
			f.seen[log] = nil
		}
	}
}

func (f *following) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// over tells whether nothing more will be written by an attempt. What a pod was like before the attempt never says so:
// a container writes before it is known to have begun, and changes may be told late.
func over(p *corev1.Pod, log attemptLog) bool {
	status := statusOf(p, log.container)
	switch {
	case pod.Terminal(p):
		return true
	case status == nil || int(status.RestartCount) < log.attempt:
		return false
	case int(status.RestartCount) > log.attempt:
		return true
	}
	return status.ContainerID != "" && status.State.Running == nil
}
