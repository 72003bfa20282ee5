package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/jobd/jobd/internal/files"
)

// format is the version of the layout that this package writes.
const format = 1

// migration turns a database of one format into one of the next, inside the transaction that also records the format.
type migration func(*bolt.Tx) error

// migrations by the format that they begin with.
var migrations = map[uint64]migration{}

var keyFormat = []byte("format")

// FirstVersion is the version of a new database, before any change; 0 means "any version" to Kubernetes clients.
const FirstVersion = 1

func buckets() [][]byte {
	return [][]byte{bucketMeta, bucketValues, bucketIndex, bucketOwners, bucketExpiry}
}

// create makes a new database. It appears under its name only when it is whole, so that an empty file is always damage.
func create(path string, o Options) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(tmp, 0o600, &bolt.Options{
		NoFreelistSync: true, NoSync: o.NoSync, NoGrowSync: o.NoSync, OpenFile: openInPlace,
	})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if err := meta.Put(keyFormat, versionKey(format)); err != nil {
			return err
		}
		return state{version: FirstVersion, horizon: FirstVersion}.put(meta)
	})
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil && !o.NoSync {
		err = files.SyncDirectory(filepath.Dir(path))
	}
	return err
}

// probe looks at an existing file before it is opened for writing. Bolt reads every page when it opens a file, on a
// goroutine of its own: damage that would make it panic there is found here and returned.
func probe(path string) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < int64(2*os.Getpagesize()) { // bolt's two meta pages
		return fmt.Errorf("%w: file has %d bytes only", ErrCorrupt, info.Size())
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout, NoStatistics: true})
	if errors.Is(err, berrors.ErrTimeout) {
		return &LockedError{Path: path}
	} else if errno := syscall.Errno(0); err != nil && !errors.As(err, &errno) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err) // what the system does not refuse, bolt does for what the file holds
	} else if err != nil {
		return err
	}
	defer db.Close()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	return db.View(func(tx *bolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("%w: file has %d of its %d bytes", ErrCorrupt, info.Size(), tx.Size())
		}
		if err := checkPages(path, tx, info.Size()); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		for _, name := range buckets() {
			b := tx.Bucket(name)
			if b == nil {
				return fmt.Errorf("%w: it has no bucket %q; is it a database of jobd?", ErrCorrupt, name)
			}
			b.Stats() // visits every page
			if err := checkOrder(b); err != nil {
				return fmt.Errorf("%w: bucket %q: %w", ErrCorrupt, name, err)
			}
		}
		return nil
	})
}

// checkOrder reads every key.
func checkOrder(b *bolt.Bucket) error {
	var last []byte
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if v == nil {
			return fmt.Errorf("key %q has no value", k)
		}
		if last != nil && bytes.Compare(last, k) >= 0 {
			return fmt.Errorf("key %q is after %q", k, last)
		}
		last = k
	}
	return nil
}

// migrate brings the database to a format, or refuses one that is newer.
func migrate(db *bolt.DB, format uint64, migrations map[uint64]migration, log *slog.Logger) (err error) {
	var found uint64
	err = db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketMeta).Get(keyFormat)
		if len(b) != 8 {
			return fmt.Errorf("%w: it has no format", ErrCorrupt)
		}
		found = binary.BigEndian.Uint64(b)
		return nil
	})
	if err != nil {
		return err
	}
	if found > format {
		return &FormatError{Found: found, Supported: format}
	}
	for ; found < format; found++ {
		step, ok := migrations[found]
		if !ok {
			return fmt.Errorf("no way from format %d to %d", found, found+1)
		}
		log.Info("migrating the database", "from", found, "to", found+1)
		err := db.Update(func(tx *bolt.Tx) error {
			if err := step(tx); err != nil {
				return err
			}
			return tx.Bucket(bucketMeta).Put(keyFormat, versionKey(found+1))
		})
		if err != nil {
			return fmt.Errorf("migrate from format %d to %d: %w", found, found+1, err)
		}
	}
	return nil
}
