package joblogs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bound removes logs that are too old, and, while all are too large together, the oldest of the namespace that has most: nobody makes room
// for their own by what others have.
func (k *Logs) bound() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		at := k.surplus()
		if at < 0 {
			return nil
		}
		r := k.gone[at]
		k.gone = slices.Delete(k.gone, at, at+1)
		k.forgetSize(r)
		k.drop(r)
		if err := os.RemoveAll(k.recordDir(r)); err != nil {
			return err
		}
	}
}

// surplus returns which of those that are gone is to be removed next; -1 for none.
func (k *Logs) surplus() int {
	switch {
	case len(k.gone) == 0:
		return -1
	case !k.now().Before(k.gone[0].Gone.Add(k.maxAge)):
		return 0
	case k.size <= k.maxSize:
		return -1
	}
	most := k.gone[0].Namespace
	for namespace, size := range k.sizes {
		if size > k.sizes[most] {
			most = namespace
		}
	}
	return slices.IndexFunc(k.gone, func(r *logRecord) bool { return r.Namespace == most })
}

// countSize and forgetSize keep the sizes up to date with what is in gone.
func (k *Logs) countSize(r *logRecord) {
	k.size += r.Size
	k.sizes[r.Namespace] += r.Size
}

func (k *Logs) forgetSize(r *logRecord) {
	k.size -= r.Size
	if k.sizes[r.Namespace] -= r.Size; k.sizes[r.Namespace] == 0 {
		delete(k.sizes, r.Namespace)
	}
}

func (k *Logs) nextTooOld() (time.Duration, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.gone) == 0 {
		return 0, false
	}
	return k.gone[0].Gone.Add(k.maxAge).Sub(k.now()), true
}

// diskUse returns the size and number of the files below a directory, without the record.
func diskUse(dir string) (size int64, files int, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() || e.Name() == logRecordFile:
			return nil
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
			files++
		}
		return nil
	})
	return size, files, err
}
