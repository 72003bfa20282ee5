package store

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	bolt "go.etcd.io/bbolt"

	"github.com/jobd/jobd/internal/watchdog"
	"github.com/jobd/jobd/runtime/crash"
)

const (
	// A group is closed when it has this many transactions or bytes, so that its first member does not wait forever.
	maxGroup      = 256
	maxGroupBytes = 8 << 20
)

// request is one call of Update. Its function runs on the caller's goroutine, while the writer waits: so a panic, or a
// test that ends inside it, is the caller's alone.
type request struct {
	tx   chan *Tx
	ran  chan bool  // whether the function succeeded
	done chan error // the group's outcome
	// alone is set instead of a function by what needs the file for itself.
	alone    func() error
	follower bool
}

func newRequest() *request {
	return &request{tx: make(chan *Tx, 1), ran: make(chan bool, 1), done: make(chan error, 1)}
}

func (s *Store) submit(ctx context.Context, queue chan<- *request, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case queue <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	}
}

// run runs the function of a request, and returns when the outcome of its group is known. A function that fails has seen what the
// group wrote before it, so its error, too, is true only once that is durable.
func (r *request) run(tx *Tx, fn func(*Tx) error) error {
	err := r.call(tx, fn)
	return cmp.Or(<-r.done, err)
}

func (r *request) call(tx *Tx, fn func(*Tx) error) (err error) {
	ok := false
	defer func() { r.ran <- ok }()
	defer recoverCorruption(&err)
	crash.Hang("transaction")
	if err := fn(tx); err != nil {
		return err
	}
	if tx.err != nil {
		return tx.err
	}
	ok = true
	return nil
}

// write is the one writer. It takes what is queued, and commits when the queue is empty: nothing waits for a timer, and
// the more there is to do, the more shares one fsync.
func (s *Store) write() {
	defer close(s.closed)
	defer s.alarm.timer.Stop()
	for {
		s.writeGroups(s.following())
		select {
		case <-s.closing:
			return
		case <-s.alarm.timer.C:
			s.forgetNow()
		case r := <-s.follows:
			s.writeGroups(r)
		case r := <-s.requests:
			s.writeGroups(r)
		}
	}
}

// writeGroups runs a request, and what is queued when it ends the group that was begun.
func (s *Store) writeGroups(r *request) {
	for r != nil {
		if r.alone != nil {
			err := r.alone()
			s.keepReserve() // of a file that may be new
			r.done <- err
			return
		}
		r = s.writeGroup(r)
	}
}

// writeGroup runs and commits the transactions that are queued, beginning with first. It returns a request that it met
// and that cannot be part of a group.
func (s *Store) writeGroup(first *request) (next *request) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.options.Watch.Begin("", "")
	defer s.options.Watch.End()
	btx, err := s.bolt.Begin(true)
	if err != nil {
		first.done <- fmt.Errorf("begin: %w", classify(err))
		return nil
	}
	g := group{btx: btx, watch: s.options.Watch, notes: s.summary}
	for r := first; r != nil; r = s.queued() {
		if r.alone != nil {
			next = r
			break
		}
		if err = g.add(r); err != nil || len(g.members) >= maxGroup || g.bytes >= maxGroupBytes {
			break
		}
	}
	joined := false
	if err == nil && len(g.keys) > 0 {
		joined, err = s.invite(&g)
	}
	if err == nil {
		err = s.commit(&g)
	} else {
		_ = btx.Rollback()
	}
	if err == nil && len(g.keys) > 0 {
		s.version.Store(g.version)
		s.waiting.advance(g.version, g.keys)
		if !joined {
			s.miss()
		}
	}
	for _, r := range g.members {
		r.done <- err
	}
	s.options.Watch.Disk(true)
	s.keepReserve()
	return next
}

// following returns the request of the follower if that waits, or nil.
func (s *Store) following() *request {
	select {
	case r := <-s.follows:
		return r
	default:
		return nil
	}
}

// queued returns a request that waits, or nil; that of the follower first. Callers that a commit has just released need the processor once before
// they can queue again; without that, every second group would hold one transaction only.
func (s *Store) queued() *request {
	for range 2 {
		if r := s.following(); r != nil {
			return r
		}
		select {
		case r := <-s.requests:
			return r
		default:
			runtime.Gosched()
		}
	}
	return nil
}

type group struct {
	btx     *bolt.Tx
	members []*request // those whose function has run
	keys    []string   // that they changed
	bytes   int
	version uint64 // of the last change
	seen    uint64 // by the follower, if it is among the members; else 0
	cut     uint64
	watch   *watchdog.Section
	notes   *summary
}

// add runs a transaction. The error is one of the group, not of the transaction's function.
func (g *group) add(r *request) error {
	tx := newTx(newSnapshot(g.btx), g.watch, g.notes)
	r.tx <- tx
	_, err := g.take(r, tx)
	return err
}

// take waits until the function of a request has run, and adds what it wrote if it has succeeded.
func (g *group) take(r *request, tx *Tx) (ok bool, err error) {
	g.members = append(g.members, r)
	if !<-r.ran {
		return false, nil
	}
	g.cut = max(g.cut, tx.cut)
	if r.follower {
		g.seen = tx.next - 1
	}
	if len(tx.writes) == 0 {
		return true, nil
	}
	defer recoverCorruption(&err)
	n, err := tx.apply()
	if err != nil {
		return true, fmt.Errorf("write: %w", classify(err))
	}
	if !r.follower { // others have their turn in the same commit, however much it writes
		g.bytes += n
	}
	g.version = tx.next - 1
	for _, w := range tx.writes {
		g.keys = append(g.keys, w.object.Key)
	}
	return true, nil
}

// commit commits a group, and cuts the history.
func (s *Store) commit(g *group) (err error) {
	defer func() {
		// Harmless after a commit; after a panic it releases the file.
		_ = g.btx.Rollback()
	}()
	if len(g.keys) == 0 && g.cut == 0 {
		s.followed = max(s.followed, g.seen)
		return nil
	}
	defer recoverCorruption(&err)
	sn := newSnapshot(g.btx)
	err = trim(sn, s.keep(max(s.followed, g.seen)))
	if err == nil && g.cut > 0 {
		err = cut(sn, func(st state) bool { return st.horizon < g.cut })
	}
	due := s.alarm.due
	if err == nil && !s.copying.Load() { // a copy lacks what is cut before it has it
		due, _, err = forget(sn, sn.version-uint64(len(g.keys)), s.options)
	}
	if err != nil {
		return fmt.Errorf("cut history: %w", classify(err))
	}
	g.watch.Disk(true)
	defer g.watch.Disk(false)
	if err := g.btx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", classify(err))
	}
	s.alarm.set(due)
	s.followed = max(s.followed, g.seen)
	return nil
}
