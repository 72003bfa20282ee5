// Package joblogs keeps and reads what containers write: ROOT/logs/NAMESPACE_POD_UID/CONTAINER/ATTEMPT.log.
//
// Workers ask where an attempt of a container writes, the control loop says which pods and Jobs are gone, and the API
// server reads the logs of a pod or of all pods of a Job. Only this package creates and removes directories below
// ROOT/logs.
package joblogs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
)

// Options are what Logs need.
type Options struct {
	// Dir is the directory of all logs.
	Dir   string
	Store *store.Store
	// Node is the name of this machine: what pods of others print is not here.
	Node string
	// MaxAge is how long the logs of a pod that is gone are kept at most, and MaxSize how many bytes the logs of all
	// such pods may take.
	MaxAge  time.Duration
	MaxSize int64
	// Limit bounds the log of a container that is brought from elsewhere.
	Limit  logs.Limit
	Logger *slog.Logger
}

// Logs keeps the logs of a Job's pods after the pods are gone, until the Job is removed, unless they outlive it, or until they are too
// old or too large. Logs of other pods go with their pods. It knows all logs of each Job. Its methods may be called from any
// goroutine.
type Logs struct {
	podLogs
	maxAge  time.Duration
	maxSize int64
	limit   logs.Limit
	now     func() time.Time
	logger  *slog.Logger

	keeping sync.Mutex // while a log is written that was brought from elsewhere

	loaded chan struct{} // closed when what an earlier process has left is known
	wake   chan struct{}

	mu    sync.Mutex
	jobs  map[types.UID]map[types.UID]*logRecord // by the UIDs of Job and pod
	tries map[types.UID]map[indexAttempt]int32   // of each Job, the last pod of each index in each attempt
	left  map[jobName]leaver                     // by name the youngest of the Jobs that are gone and whose logs are kept
	all   bool                                   // what an earlier process has left is in jobs
	gone  []*logRecord                           // those of pods that are gone, the longest gone first
	size  int64                                  // of all those in gone
	sizes map[string]int64                       // of those of each namespace
	queue []func() error
}

// New makes Logs, which learn what an earlier process has left when they Run.
func New(o Options) *Logs {
	k := newLogs(podLogs{dir: o.Dir, store: o.Store, node: o.Node, watcher: &logs.Watcher{}, shares: newShares()}, o.MaxAge, o.MaxSize, o.Logger)
	k.limit = o.Limit
	return k
}

func newLogs(logs podLogs, maxAge time.Duration, maxSize int64, logger *slog.Logger) *Logs {
	return &Logs{
		podLogs: logs, maxAge: maxAge, maxSize: maxSize, now: time.Now, logger: logger,
		loaded: make(chan struct{}), wake: make(chan struct{}, 1), jobs: map[types.UID]map[types.UID]*logRecord{},
		tries: map[types.UID]map[indexAttempt]int32{}, left: map[jobName]leaver{}, sizes: map[string]int64{},
	}
}

// keptAttempts is for how many attempts of a container logs are kept.
const keptAttempts = 5

// Begin creates the directory for the logs of an attempt that is about to start, and removes the logs of the
// container's oldest attempts. It may be called again.
func (k *Logs) Begin(p *corev1.Pod, container string, attempt int) error {
	if err := files.MkdirAll(k.podDir(p), 0o755); err != nil {
		return err
	}
	r := newLogRecord(p)
	if err := k.prune(r, container, attempt-keptAttempts); err != nil {
		return err
	}
	if r.JobUID == "" {
		return nil
	}
	if err := k.bindOutlives(r); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.jobs[r.JobUID][r.UID] != nil {
		return nil
	}
	if r.Index != nil && k.all {
		r.Try = int(k.tries[r.JobUID][r.indexAttempt()]) + 1
	}
	if err := k.write(r); err != nil {
		return err
	}
	k.add(r)
	return nil
}

// prune removes the logs of a container's attempts up to and including last.
func (k *Logs) prune(r *logRecord, container string, last int) error {
	if last < 0 {
		return nil
	}
	dir := filepath.Join(k.recordDir(r), container)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if n, ok := attemptOfFile(e.Name()); ok && n <= last {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// PodGone takes in that a pod's object is gone. It returns at once; Run does what follows.
func (k *Logs) PodGone(p *corev1.Pod) {
	k.later(func() error { return k.podGone(newLogRecord(p)) })
}

// JobGone takes in that a Job's object is gone. It returns at once; Run does what follows.
func (k *Logs) JobGone(uid types.UID) {
	k.later(func() error { return k.jobGone(uid) })
}

func (k *Logs) later(do func() error) {
	k.mu.Lock()
	k.queue = append(k.queue, do)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run removes logs and limits their size until ctx ends, beginning with what an earlier process has left.
func (k *Logs) Run(ctx context.Context) {
	k.warn(k.load(ctx))
	close(k.loaded)
	old := time.NewTimer(0)
	defer old.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-old.C:
		}
		k.mu.Lock()
		queue := k.queue
		k.queue = nil
		k.mu.Unlock()
		for _, do := range queue {
			k.warn(do())
		}
		k.warn(k.bound())
		if next, ok := k.nextTooOld(); ok {
			old.Reset(max(next, time.Second))
		}
	}
}

func (k *Logs) warn(err error) {
	if err != nil {
		k.logger.Warn("cannot keep the logs of pods within bounds", "error", err)
	}
}

// load finds what is there. A crash can have come between the end of a pod's object and what follows from it.
func (k *Logs) load(ctx context.Context) error {
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var failed []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil
		}
		if namespace, name, uid, ok := podOfDir(e.Name()); ok {
			failed = append(failed, k.loadPod(logRecord{Namespace: namespace, Name: name, UID: types.UID(uid)}))
		}
	}
	k.mu.Lock()
	k.all = true
	slices.SortStableFunc(k.gone, func(a, b *logRecord) int { return a.Gone.Compare(b.Gone) })
	k.mu.Unlock()
	return errors.Join(failed...)
}

func (k *Logs) loadPod(r logRecord) error {
	live, err := k.exists(store.Key(objects.Pods, r.Namespace, r.Name), r.UID)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(k.recordDir(&r), logRecordFile))
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	switch {
	case live && err != nil: // it has no Job, or an older jobd wrote it without a record: the end of the pod decides
		return nil
	case live:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.add(&r)
		return nil
	case err != nil:
		return os.RemoveAll(k.recordDir(&r))
	}
	return k.podGone(&r)
}

// podGone keeps what a pod has left, if its Job still exists.
func (k *Logs) podGone(r *logRecord) error {
	there := false
	if r.JobUID != "" {
		var err error
		if there, err = k.exists(store.Key(objects.Jobs, r.Namespace, r.Job), r.JobUID); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.jobs[r.JobUID][r.UID]; known != nil {
		if !known.Gone.IsZero() {
			return nil
		}
		r.Try = known.Try
		if r.Outlives != nil {
			r.Outlives = known.Outlives
		}
	}
	outlives := false
	if !there {
		var err error
		if outlives, err = k.outlives(r); err != nil {
			return err
		}
	}
	if !there && !outlives {
		k.drop(r)
		return os.RemoveAll(k.recordDir(r))
	}
	size, files, err := diskUse(k.recordDir(r))
	if err != nil {
		return err
	}
	if files == 0 { // no container was started
		k.drop(r)
		return os.RemoveAll(k.recordDir(r))
	}
	r.Size = size
	if r.Gone.IsZero() {
		r.Gone = k.now()
		if err := k.write(r); err != nil {
			return err
		}
	}
	k.add(r)
	k.gone = append(k.gone, r)
	k.countSize(r)
	if outlives {
		k.leave(r)
	}
	return nil
}

func (k *Logs) jobGone(uid types.UID) error {
	k.mu.Lock()
	var left []*logRecord
	for _, r := range k.jobs[uid] {
		switch {
		case r.Outlives != nil:
			k.leave(r)
			continue
		case !r.Gone.IsZero():
			left = append(left, r)
		}
		k.drop(r)
	}
	k.mu.Unlock()
	return k.remove(left)
}

// remove removes what some pods that are gone have left, and that is known no more.
func (k *Logs) remove(records []*logRecord) error {
	if len(records) == 0 {
		return nil
	}
	k.mu.Lock()
	removed := make(map[*logRecord]bool, len(records))
	for _, r := range records {
		removed[r] = true
		k.forgetSize(r)
	}
	k.gone = slices.DeleteFunc(k.gone, func(r *logRecord) bool { return removed[r] })
	k.mu.Unlock()
	var failed []error
	for _, r := range records {
		failed = append(failed, os.RemoveAll(k.recordDir(r)))
	}
	return errors.Join(failed...)
}

// ofJob returns the pods of a Job that have written something, by index and then by age.
func (k *Logs) ofJob(uid types.UID) []logRecord {
	k.mu.Lock()
	var of []logRecord
	for _, r := range k.jobs[uid] {
		of = append(of, *r)
	}
	k.mu.Unlock()
	index := func(r logRecord) int {
		if r.Index == nil {
			return 0
		}
		return *r.Index
	}
	slices.SortFunc(of, func(a, b logRecord) int {
		return cmp.Or(cmp.Compare(index(a), index(b)), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return of
}

// ofPod returns a pod of a Job, if it has written something. It is for what happens at each change of a pod: while ofJob
// copies the records of a large Job, no container of any pod can start.
func (k *Logs) ofPod(job, pod types.UID) (logRecord, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.jobs[job][pod]; r != nil {
		return *r, true
	}
	return logRecord{}, false
}

func (k *Logs) add(r *logRecord) {
	of := k.jobs[r.JobUID]
	if of == nil {
		of = map[types.UID]*logRecord{}
		k.jobs[r.JobUID] = of
	}
	of[r.UID] = r
	if r.Index == nil {
		return
	}
	if k.tries[r.JobUID] == nil {
		k.tries[r.JobUID] = map[indexAttempt]int32{}
	}
	k.tries[r.JobUID][r.indexAttempt()] = max(k.tries[r.JobUID][r.indexAttempt()], int32(r.Try))
}

func (k *Logs) drop(r *logRecord) {
	delete(k.jobs[r.JobUID], r.UID)
	if len(k.jobs[r.JobUID]) == 0 {
		delete(k.jobs, r.JobUID)
		delete(k.tries, r.JobUID)
		if k.left[r.jobName()].uid == r.JobUID {
			delete(k.left, r.jobName())
		}
	}
}

func (k *Logs) recordDir(r *logRecord) string {
	return filepath.Join(k.dir, r.Namespace+"_"+r.Name+"_"+string(r.UID))
}

func (k *Logs) write(r *logRecord) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := files.Replace(filepath.Join(k.recordDir(r), logRecordFile), content, 0o600); err != nil {
		return fmt.Errorf("logs of pod %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

func (k *Logs) exists(key string, uid types.UID) (there bool, err error) {
	err = k.store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(key)
		there = ok && o.UID == string(uid)
		return nil
	})
	return there, err
}

// attempts returns the attempts of a container that have a log, oldest first.
func (k *Logs) attempts(r *logRecord, container string) []int {
	entries, _ := os.ReadDir(filepath.Join(k.recordDir(r), container)) // without a log there is no directory
	found := map[int]bool{}
	for _, e := range entries {
		if n, ok := attemptOfFile(e.Name()); ok {
			found[n] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
