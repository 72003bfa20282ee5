// Package aside remembers which objects the control loop leaves alone because it hung while it worked on them. Otherwise it
// would hang on them again after the next start. When it has hung on several objects of one owner, all of these are.
//
// Hangs come in from the watchdog, and changes of objects from the loop. Answers whether a concern of the loop may work on
// an object go out. They are kept in a small file in the root directory, since the database may be what hangs; no other
// file is touched.
package aside

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jobd/jobd/internal/files"
)

// List is what is set aside. It is safe for concurrent use; a nil List is empty.
type List struct {
	path    string
	version string
	some    atomic.Bool // whether there are entries: mostly there are none

	mu      sync.Mutex
	entries []Entry
	byKey   map[string][]Entry // the same
}

// Open reads the file, if there is one. version is that of this jobd. After an error the List is good, and empty.
func Open(path, version string) (*List, error) {
	l := &List{path: path, version: version}
	content, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &l.entries)
	}
	if err != nil {
		l.entries = nil
		return l, fmt.Errorf("objects that were set aside: %s: %w", path, err)
	}
	l.index()
	return l, nil
}

// Hang notes that the loop hung. It may be called while the loop hangs, and takes as long as the disk does.
func (l *List) Hang(h Hang) error {
	return l.change(func(entries []Entry) []Entry { return after(entries, h, l.version) })
}

// Begin compares what is noted with what is stored, at start. It returns what is set aside now.
func (l *List) Begin(stored Stored, now time.Time) ([]Entry, error) {
	if l == nil || !l.some.Load() {
		return nil, nil
	}
	var failed error
	err := l.change(func(entries []Entry) (held []Entry) {
		held, failed = withOwners(begin(entries, stored, l.version, now), stored, l.version)
		return held
	})
	return l.Entries(), errors.Join(err, failed)
}

// Knows reports whether changes of an object are to be taken in.
func (l *List) Knows(key string) bool {
	if l == nil || !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey[key]) > 0
}

// Arrived takes in a change, which may not be durable yet, before the loop is at work on it: it may be the one that the loop
// has hung on before, and that was lost.
func (l *List) Arrived(c Change) error {
	l.mu.Lock()
	now, is := arrived(l.entries, c)
	l.mu.Unlock()
	if !is {
		return nil
	}
	return l.change(func([]Entry) []Entry { return now })
}

// Changed takes in that somebody else than the loop has changed objects, and returns the keys of those that were set aside and
// are not any more: then the records of the loop are to be made anew.
func (l *List) Changed(changes []Change) (released []string, err error) {
	if l == nil || !l.some.Load() {
		return nil, nil
	}
	l.mu.Lock()
	now, any := l.entries, false
	for _, c := range changes {
		if len(l.byKey[c.Key]) == 0 {
			continue
		}
		next, touched, free := changed(now, c)
		if touched {
			now, any = next, true
		}
		if free {
			released = append(released, c.Key)
		}
	}
	l.mu.Unlock()
	if !any {
		return nil, nil
	}
	return released, l.change(func([]Entry) []Entry { return now })
}

// Told takes in that the events about what is set aside are written.
func (l *List) Told(told []Entry) error {
	return l.change(func(entries []Entry) []Entry {
		for i := range entries {
			if slices.ContainsFunc(told, entries[i].same) {
				entries[i].Told = true
			}
		}
		return entries
	})
}

// change changes the entries, and the file before anything else happens by them. If the file cannot be written, they hold
// as long as this process does.
func (l *List) change(by func([]Entry) []Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = by(slices.Clone(l.entries))
	l.index()
	if len(l.entries) == 0 {
		return os.RemoveAll(l.path)
	}
	content, err := json.MarshalIndent(l.entries, "", "  ")
	if err == nil {
		err = files.ReplaceDurably(l.path, append(content, '\n'), 0o600)
	}
	return err
}

// index notes what is asked of the entries often: there may be some thousands, if they are the pods of a Job.
func (l *List) index() {
	l.some.Store(len(l.entries) > 0)
	l.byKey = make(map[string][]Entry, len(l.entries))
	for _, e := range l.entries {
		l.byKey[e.Key] = append(l.byKey[e.Key], e)
	}
}

// Has reports whether a concern of the loop has to leave an object alone.
func (l *List) Has(concern, key string) bool {
	if l == nil || !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.byKey[key], func(e Entry) bool { return e.Active() && e.of(concern) })
}

// Entries returns what is set aside now.
func (l *List) Entries() []Entry {
	if l == nil || !l.some.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.entries), func(e Entry) bool { return !e.Active() })
}
