package joblogs

import (
	"context"
	"errors"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// follow reads what is there, and then everything that is written after a version of the store, until the Job has
// ended.
func (l *jobLogs) follow(ctx context.Context, from uint64) error {
	f := newFollowing(ctx, l)
	defer f.readers.Wait()
	return f.run(from)
}

// following is a Job whose logs are read while they are written.
type following struct {
	*jobLogs
	ctx     context.Context
	stop    context.CancelFunc
	readers sync.WaitGroup
	seen    map[attemptLog]bool // the logs that have been read or are being read
	begun   bool                // the logs that were there at first are in seen
	// open are the logs that are being read, by their pods: a change of one pod is not to look at what all others have
	// written. The channel tells the reader that the log has ended.
	open map[types.UID]map[attemptLog]chan struct{}

	mu  sync.Mutex
	err error
}

func newFollowing(ctx context.Context, l *jobLogs) *following {
	f := &following{jobLogs: l, seen: map[attemptLog]bool{}, open: map[types.UID]map[attemptLog]chan struct{}{}}
	f.ctx, f.stop = context.WithCancel(ctx)
	return f
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
			// By now everything that the Job's end was decided on is in the store.
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
		if jobOver && len(f.open) == 0 {
			f.readers.Wait()
			return f.failure()
		}
	}
}

// watchPods sends the changes of pods, and nil if some were missed.
func (f *following) watchPods(from uint64, changes chan<- []store.Change) {
	prefix := store.Key(objects.Pods, f.job.Namespace, "")
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
	_ = watch(f.ctx, f.store, objects.Key(objects.Jobs, f.job), func(o store.Object, ok bool) (bool, error) {
		if !ok || o.UID != string(f.job.UID) {
			return true, nil
		}
		j := &batchv1.Job{}
		err := objects.Decode(o, j)
		return err == nil && objects.Finished(j), err
	})
}

// look takes in all of the Job's pods as they are now.
func (f *following) look() error {
	records := f.ofJob(f.job.UID) // before the pods: a record without a pod then means that the pod is gone
	live := map[types.UID]*corev1.Pod{}
	if err := f.eachPod(func(p *corev1.Pod) { live[p.UID] = p }); err != nil {
		return err
	}
	for uid := range f.open {
		if live[uid] == nil {
			f.endAll(uid)
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
		f.remaining(r) // it came and went unseen
	}
	return nil
}

// ended returns the logs that are wanted, were there at first and will not grow. They come first, in the order of the
// pods.
func (f *following) ended(of []logRecord, live map[types.UID]*corev1.Pod) (all []recorded) {
	for _, log := range f.there(of) {
		if p := live[log.pod]; p == nil || over(p, log.attemptLog) {
			all = append(all, log)
			f.seen[log.attemptLog] = true
		}
		for a := range log.attempt { // earlier attempts are in the list too, or are not wanted
			f.seen[attemptLog{log.pod, log.container, a}] = true
		}
	}
	return all
}

// change takes in a change of a pod.
func (f *following) change(c store.Change) error {
	if !slices.Contains(c.Object.Owners, string(f.job.UID)) {
		return nil
	}
	p := &corev1.Pod{}
	if err := objects.Decode(c.Object, p); err != nil {
		return err
	}
	r, ok := f.ofPod(f.job.UID, p.UID)
	if ok {
		f.observe(p, r, true)
	}
	switch {
	case c.Deleted && ok:
		f.remaining(r)
	case c.Deleted: // its logs have been removed already
		f.endAll(p.UID)
	}
	return nil
}

// observe starts to read what a pod has begun to write, and ends the logs that are complete.
func (f *following) observe(p *corev1.Pod, r logRecord, whole bool) {
	for _, c := range f.containers {
		status := podspec.ContainerStatus(p, c)
		if status == nil {
			continue
		}
		for _, a := range f.attempts(&r, c) {
			if a < int(status.RestartCount) || a == int(status.RestartCount) && status.ContainerID != "" {
				f.begin(recorded{attemptLog: attemptLog{p.UID, c, a}, record: r}, whole)
			}
		}
	}
	f.end(p.UID, func(log attemptLog) bool { return over(p, log) })
}

// remaining reads what a pod that is gone has written and was not yet read.
func (f *following) remaining(r logRecord) {
	for _, c := range f.containers {
		for _, a := range f.attempts(&r, c) {
			f.begin(recorded{attemptLog: attemptLog{r.UID, c, a}, record: r}, true)
		}
	}
	f.endAll(r.UID)
}

func (f *following) begin(log recorded, whole bool) {
	if f.seen[log.attemptLog] {
		return
	}
	f.seen[log.attemptLog] = true
	over, err := f.shares.follow(f.ctx)
	if err != nil {
		f.fail(err)
		return
	}
	ended := make(chan struct{})
	if f.open[log.pod] == nil {
		f.open[log.pod] = map[attemptLog]chan struct{}{}
	}
	f.open[log.pod][log.attemptLog] = ended
	f.readers.Go(func() {
		defer over()
		if err := f.read(f.ctx, log, whole, ended); err != nil {
			f.fail(err)
		}
	})
}

// fail ends the whole with the first error.
func (f *following) fail(err error) {
	f.mu.Lock()
	if f.err == nil && f.ctx.Err() == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.stop()
}

// end tells the readers of some of a pod's logs that nothing more will be written to them.
func (f *following) end(pod types.UID, which func(attemptLog) bool) {
	for log, ended := range f.open[pod] {
		if which(log) {
			close(ended)
			delete(f.open[pod], log)
		}
	}
	if len(f.open[pod]) == 0 {
		delete(f.open, pod)
	}
}

func (f *following) endAll(pod types.UID) { f.end(pod, func(attemptLog) bool { return true }) }

func (f *following) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// over reports whether an attempt will write nothing more. The state of the pod before the attempt never says so: a
// container writes before its start is reported, and changes may arrive late.
func over(p *corev1.Pod, log attemptLog) bool {
	status := podspec.ContainerStatus(p, log.container)
	switch {
	case podspec.Ended(p):
		return true
	case status == nil || int(status.RestartCount) < log.attempt:
		return false
	case int(status.RestartCount) > log.attempt:
		return true
	}
	return status.ContainerID != "" && status.State.Running == nil
}
