package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/jobd/jobd/internal/filelock"
	"github.com/jobd/jobd/internal/watchdog"
)

const (
	// defaultHistoryBytes is how much of what was superseded is kept when Options do not say.
	defaultHistoryBytes = 64 << 20

	// The address space reserved for the file. Growing a mapping waits for every reader to finish, so it is taken large
	// enough never to be grown in practice; it costs no memory.
	mapBytes = 16 << 30

	// Our own lock is held by then: only a stray tool can have the file.
	lockTimeout = time.Millisecond
)

// Options are the options of a store. The zero value is right for a daemon.
type Options struct {
	// HistoryBytes bounds what is kept of superseded values, in bytes; 0 stands for defaultHistoryBytes. As much again is
	// kept of what the follower has not seen.
	HistoryBytes int64
	// HistoryAge bounds for how long what is superseded is kept; 0 stands for defaultHistoryAge.
	HistoryAge time.Duration
	// Reserve is disk space, in bytes, that the file holds beside what it uses: so much more can be written when others
	// have filled the disk. 0 is none.
	Reserve int64
	// NoSync leaves out fsync: a power failure may then lose or damage the database. For tests and benchmarks.
	NoSync bool
	// Logger reports migrations and compactions; nil is silent.
	Logger *slog.Logger
	// Words are by what Past.Range finds values without reading the others; nil: it reads all.
	Words Words
	// Watch is told of the writer's work, and that it waits for the disk; nil for none.
	Watch *watchdog.Section
}

func (o Options) withDefaults() Options {
	if o.HistoryBytes <= 0 {
		o.HistoryBytes = defaultHistoryBytes
	}
	if o.HistoryAge <= 0 {
		o.HistoryAge = defaultHistoryAge
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store is a database file opened by this process. It is safe for concurrent use; a transaction must not be begun
// inside another one.
type Store struct {
	path    string
	options Options
	lock    *filelock.Lock

	mu   sync.RWMutex // held for reading by every use of bolt, for writing to replace it
	bolt *bolt.DB
	// upkeep keeps a compaction from waiting, with all readers behind it, for what uses bolt for long.
	upkeep sync.RWMutex
	// copying: a compaction copies the file.
	copying atomic.Bool

	reserved reserve // of the writer
	alarm    alarm   // of the writer

	requests chan *request
	follows  chan *request // of the follower
	followed uint64        // of the writer: the follower has seen everything up to this version; 0 before it has seen any
	// invitations go to whoever follows the store, if anybody does.
	invitations chan *Invitation
	missed      chan struct{}
	closing     chan struct{} // closed by Close; nothing new is accepted
	closed      chan struct{} // closed when the writer has ended
	once        sync.Once

	version atomic.Uint64 // last durable
	summary *summary
	waiting waiting       // cursors that have read everything
	turns   chan struct{} // of sparing cursors, to read
}

// Open opens the database at path and creates it when there is none. It fails with a *LockedError when another process
// holds it, with a *FormatError when a newer jobd wrote it, and with an error of class ErrCorrupt when it is damaged.
func Open(path string, o Options) (*Store, error) {
	return open(path, o, format, migrations)
}

func open(path string, o Options, format uint64, migrations map[uint64]migration) (*Store, error) {
	o = o.withDefaults()
	lock, err := filelock.Take(path + ".lock")
	if held := (*filelock.HeldError)(nil); errors.As(err, &held) {
		return nil, &LockedError{Path: path, PID: held.PID}
	} else if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db, err := openBolt(path, o)
	if err == nil {
		if err = migrate(db, format, migrations, o.Logger.With("path", path)); err != nil {
			_ = db.Close()
		}
	}
	if err != nil {
		_ = lock.Close()
		var locked *LockedError
		if errors.As(err, &locked) {
			return nil, locked
		}
		return nil, fmt.Errorf("open %s: %w", path, classify(err))
	}
	s := &Store{
		path: path, options: o, lock: lock, bolt: db,
		requests:    make(chan *request),
		follows:     make(chan *request),
		invitations: make(chan *Invitation),
		missed:      make(chan struct{}, 1),
		closing:     make(chan struct{}),
		closed:      make(chan struct{}),
		turns:       make(chan struct{}, runtime.GOMAXPROCS(0)),
		summary:     newSummary(o.Words),
	}
	if err := s.View(func(sn *Snapshot) error { s.version.Store(sn.Version()); return nil }); err != nil {
		_ = db.Close()
		_ = lock.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := s.removeCopy(); err != nil {
		o.Logger.Warn("cannot remove what a compaction has left", "path", s.compactPath(), "error", err)
	}
	s.keepReserve()
	s.alarm.timer = time.NewTimer(0) // what was left when the store was closed may be old by now
	go s.write()
	return s, nil
}

func boltOptions(o Options) *bolt.Options {
	return &bolt.Options{
		Timeout:        lockTimeout,
		NoSync:         o.NoSync,
		NoGrowSync:     o.NoSync,
		NoFreelistSync: true,
		// It takes the first free pages that fit, where the other list takes any: that tears apart what larger values
		// need, and the file grows by a fifth and more. In return a commit costs 0.3 ms more for each 100,000 free pages.
		FreelistType:    bolt.FreelistArrayType,
		InitialMmapSize: mapBytes,
		NoStatistics:    true,
	}
}

func openBolt(path string, o Options) (_ *bolt.DB, err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := create(path, o); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	if err := probe(path); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	db, err := bolt.Open(path, 0o600, boltOptions(o))
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, &LockedError{Path: path}
	}
	return db, err
}

// Close waits for what is being committed and read, and closes the file. Every later call, and every waiting cursor,
// ends with ErrClosed.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		<-s.closed
		s.waiting.close()
		s.upkeep.Lock() // a compaction gives up first
		defer s.upkeep.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		err = s.bolt.Close()
		s.bolt = nil
		if unlockErr := s.lock.Close(); err == nil {
			err = unlockErr
		}
	})
	if err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// Path returns the path of the file that the store was opened from.
func (s *Store) Path() string { return s.path }

// Version returns the version of the last change that is durable.
func (s *Store) Version() uint64 { return s.version.Load() }

// View calls fn with a consistent snapshot of what is durable. The snapshot and the values it returned are valid until
// fn returns. A snapshot that is held for long keeps the file from reusing space.
func (s *Store) View(fn func(*Snapshot) error) (err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.bolt == nil {
		return ErrClosed
	}
	defer recoverCorruption(&err)
	return s.bolt.View(func(tx *bolt.Tx) error {
		sn := newSnapshot(tx)
		sn.summary = s.summary
		return fn(sn)
	})
}

// Update calls fn with a transaction and returns when what fn wrote is durable. Transactions run one after the other,
// each seeing what the ones before it wrote, and those that are queued while another is being committed share the next
// commit. When fn returns an error or panics, nothing of it is written and no version is used up. Its error is returned
// when what it has seen is durable; if that fails, the error says so instead.
//
// ctx bounds the wait for the turn only: once fn has run, Update returns when its outcome is known.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	return s.update(ctx, s.requests, newRequest(), fn)
}

// Follow is Update for the follower, who reads all changes by Snapshot.Changes. Its turn is the next one, however many wait, and
// what has been superseded since its last successful transaction is kept longer (Options.HistoryBytes): so it falls behind
// nobody who writes much.
func (s *Store) Follow(ctx context.Context, fn func(*Tx) error) error {
	r := newRequest()
	r.follower = true
	return s.update(ctx, s.follows, r, fn)
}

func (s *Store) update(ctx context.Context, queue chan<- *request, r *request, fn func(*Tx) error) error {
	if err := s.submit(ctx, queue, r); err != nil {
		return err
	}
	select {
	case err := <-r.done: // the transaction could not be begun
		return err
	case tx := <-r.tx:
		return r.run(tx, fn)
	}
}

// Stats are the sizes of a store.
type Stats struct {
	Version      uint64 // of the last durable change
	Horizon      uint64 // changes up to this version can no longer be read
	HistoryBytes int64  // superseded values that are kept
	FileBytes    int64  // size of the file
}

// Stats returns the store's sizes.
func (s *Store) Stats() (Stats, error) {
	var st Stats
	err := s.View(func(sn *Snapshot) error {
		m := readState(sn.meta)
		st = Stats{Version: m.version, Horizon: m.horizon, HistoryBytes: int64(m.history)}
		info, err := os.Stat(s.path)
		if err == nil {
			st.FileBytes = info.Size()
		}
		return err
	})
	return st, err
}
