package aside

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// All is the concern of an entry that holds for every concern of the loop.
	All = "*"
	// maxHangs is how often an object may hang one version of jobd before no change of it is enough.
	maxHangs = 3
	// pendingTime is how long an object that was never stored is waited for.
	pendingTime = time.Hour
)

// Entry is an object that the loop has hung on.
type Entry struct {
	// Concern is the concern of the loop that hung.
	Concern string `json:"concern"`
	// Key is the object's key in the store.
	Key string `json:"key"`
	// UID is the object's, empty while that is not known: the store could not be read when it hung.
	UID string `json:"uid,omitempty"`
	// Owner is the key of the object that controls it, if that was set aside for what it controls, see owners.
	Owner string `json:"owner,omitempty"`
	// For is the resource of what it controls, if it was set aside for those.
	For string `json:"for,omitempty"`
	// Hangs counts how often it has hung this Version of jobd, At is the last time. It is 0 if only others of its Owner have.
	Hangs   int       `json:"hangs"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Pending says that the change at which it hung was never stored, so that it holds for the next change.
	Pending bool `json:"pending,omitempty"`
	// Released says that the object is worked on again.
	Released bool `json:"released,omitempty"`
	// Since is the version of the store at which a change made it hold; 0: it held from the start.
	Since uint64 `json:"since,omitempty"`
	// Told says that there is an event about it.
	Told bool `json:"told,omitempty"`
}

// Active reports whether the object is set aside now.
func (e Entry) Active() bool { return !e.Released && !e.Pending }

// Final reports whether a change of the object does not release it.
func (e Entry) Final() bool { return e.Hangs >= maxHangs }

// Message says in a sentence what was done and what to do.
func (e Entry) Message() string {
	what := fmt.Sprintf("it (%s)", e.Concern)
	if e.For != "" {
		what = fmt.Sprintf("several of its %ss", kinds[e.For])
	}
	switch {
	case e.with():
		owner := kinds[resourceOf(e.Owner)] + " " + e.Owner[strings.LastIndexByte(e.Owner, '/')+1:]
		return fmt.Sprintf("jobd broke down while it was at work on several other %ss of %s (%s), and leaves it alone until it or %s is changed",
			kinds[resourceOf(e.Key)], owner, e.Concern, owner)
	case e.Final():
		return fmt.Sprintf("jobd has broken down %d times while it was at work on %s, and leaves it alone until it is deleted or "+
			"there is another version of jobd",
			e.Hangs, what)
	}
	return fmt.Sprintf("jobd broke down while it was at work on %s, and leaves it alone until it is changed", what)
}

// with reports whether only others of its owner have hung jobd.
func (e Entry) with() bool { return e.Hangs == 0 && e.Owner != "" }

func (e Entry) of(concern string) bool { return e.Concern == concern || e.Concern == All }

func (e Entry) same(o Entry) bool { return e.Concern == o.Concern && e.Key == o.Key }

// Hang is what was at work when the loop hung.
type Hang struct {
	Concern, Key string
	// Unstored says that it was at work on a change that a client had just made, and that was not yet stored.
	Unstored bool
	At       time.Time
}

// Change is a change of an object by somebody else than the loop.
type Change struct {
	Key, UID string
	// Version is that of the store.
	Version uint64
	// Deleted says that the object is gone, Deleting that it is to go.
	Deleted, Deleting bool
}

// Stored is what is found in the store.
type Stored interface {
	// UID returns the UID of a stored object, and whether there is one.
	UID(key string) (uid string, ok bool)
	// Controller returns the stored object of a resource that controls the one at a key; none if the key is empty.
	Controller(key, resource string) (Object, error)
	// Controlled returns the stored objects of a resource that an object controls.
	Controlled(by Object, resource string) ([]Object, error)
}

// Object is a stored object.
type Object struct{ Key, UID string }

// after returns the entries after a hang. If it has hung again on an object that its concern leaves alone, another concern
// was at work on it, and from now on all leave it alone.
func after(entries []Entry, h Hang, version string) []Entry {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key == h.Key && e.of(h.Concern) })
	if i < 0 {
		return append(entries, Entry{Concern: h.Concern, Key: h.Key, Hangs: 1, Version: version, At: h.At, Pending: h.Unstored})
	}
	e := &entries[i]
	if e.Active() {
		e.Concern = All
	}
	if e.Version != version {
		e.Hangs = 0
	}
	e.Hangs, e.Version, e.At = e.Hangs+1, version, h.At
	e.Pending = h.Unstored && !e.Released && e.UID == "" && !e.Pending // the second time it is not waited for
	e.Released, e.Told, e.Owner, e.For = false, false, "", ""
	return entries
}

// begin returns the entries that hold at a start.
func begin(entries []Entry, stored Stored, version string, now time.Time) (held []Entry) {
	for _, e := range entries {
		uid, ok := stored.UID(e.Key)
		switch {
		case e.Pending:
			if now.Sub(e.At) > pendingTime || e.Version != version {
				continue
			}
		case ok && e.UID == "":
			e.UID = uid
		case ok && e.UID != uid, !ok && e.UID != "":
			continue // it is gone
		case !ok && e.Hangs == 1:
			if parent, uid := parentOf(e.Key, stored); parent.Key != "" {
				parent.UID, parent.Hangs, parent.Version, parent.At = uid, e.Hangs, e.Version, e.At
				e = parent
			}
		case !ok && now.Sub(e.At) > pendingTime:
			continue
		}
		if e.Version != version && e.with() {
			continue
		}
		if e.Version != version {
			e.Released, e.Version, e.Hangs, e.Owner, e.For = true, version, 0, "", "" // it may be mended
		}
		if !slices.ContainsFunc(held, e.same) {
			held = append(held, e)
		}
	}
	return held
}

// parents are the kinds of objects that the loop makes: the resource, and the resource and the concern of what it makes
// them for.
var parents = map[string]Entry{
	"pods":       {Key: "jobs.batch", Concern: "jobs"},
	"jobs.batch": {Key: "cronjobs.batch", Concern: "cronJobs"},
}

// kinds are how people call an object of a resource.
var kinds = map[string]string{"pods": "pod", "jobs.batch": "Job", "cronjobs.batch": "CronJob"}

func resourceOf(key string) string {
	resource, _, _ := strings.Cut(key, "/")
	return resource
}

// parentOf returns an entry for what the loop has made an object for that was never stored: it would make another one, which
// hangs as well. The names of those begin with the name of the one.
func parentOf(key string, stored Stored) (parent Entry, uid string) {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) != 3 {
		return Entry{}, ""
	}
	of, ok := parents[parts[0]]
	if !ok {
		return Entry{}, ""
	}
	for name := parts[2]; ; {
		i := strings.LastIndexByte(name, '-')
		if i < 0 {
			return Entry{}, ""
		}
		name = name[:i]
		at := of.Key + "/" + parts[1] + "/" + name
		if uid, ok := stored.UID(at); ok {
			return Entry{Concern: of.Concern, Key: at}, uid
		}
	}
}

// arrived returns the entries after a change that may be what some of them wait for, and whether it is.
func arrived(entries []Entry, c Change) (now []Entry, is bool) {
	for _, e := range entries {
		if e.Key == c.Key && !c.Deleted && (e.Pending || e.UID == "") {
			e.Pending, e.Released, e.Told, e.UID, e.Since = false, false, false, c.UID, c.Version
			is = true
		}
		now = append(now, e)
	}
	return now, is
}

// changed returns the entries after a change, whether they have changed, and whether the object was released.
func changed(entries []Entry, c Change) (now []Entry, touched, released bool) {
	for _, e := range entries {
		if e.Key != c.Key {
			now = append(now, e)
			continue
		}
		switch {
		case c.Deleted:
			touched = true
			continue
		case e.UID != "" && e.UID != c.UID:
			touched, released = true, true
			continue
		case c.Deleting, e.Released, e.Pending, e.Final(), c.Version <= e.Since:
		default:
			touched, released = true, true
			e.Released = true
		}
		now = append(now, e)
	}
	if released {
		now = releaseOwned(now, c.Key)
	}
	return now, touched, released
}
