package manifests

import (
	"fmt"
	"slices"
	"time"

	"github.com/jobd/jobd/api/history"
)

// Record is what is known of an object that was applied.
type Record struct {
	Ref
	File     string `json:"file"`
	Version  string `json:"version"`  // of the group
	Resource string `json:"resource"` // its plural
	// Hash is that with which it was applied last; empty if it never was.
	Hash string `json:"hash,omitempty"`
	// Begun is the hash with which it was begun to be applied at a time, and which is Hash once it was.
	Begun string    `json:"begun,omitempty"`
	At    time.Time `json:"at,omitzero"`
	// UID is that of the object.
	UID string `json:"uid,omitempty"`
	// Warnings are what the API said of it, a line each.
	Warnings string `json:"warnings,omitempty"`
}

// Plan returns which objects of the files are to be there, and which of those that were applied before are not. Of a file with an
// error nothing is applied and nothing removed: what it was to say is not known. While a file is being written, nothing is removed
// either, and what its last document has of Jobs waits: more may come.
func Plan(files []File, known []Record) (wanted []Object, gone []Record, problems []Problem) {
	named := map[Ref]string{}
	unknown := false
	for _, f := range files {
		if f.Err != nil {
			unknown = true
			problems = append(problems, Problem{f.Name, f.Err.Error()})
			continue
		}
		unknown = unknown || f.Moving
		for _, o := range f.Objects {
			if first, twice := named[o.Ref]; twice {
				problems = append(problems, Problem{f.Name, fmt.Sprintf("%s is in %s already", o.Ref, first)})
				continue
			}
			named[o.Ref] = f.Name
			if !f.Moving || !o.AtEnd || !o.starts() {
				wanted = append(wanted, o)
			}
		}
	}
	for _, r := range known {
		// One that is gone from its file may have moved to one that cannot be read, or that is being written.
		if _, is := named[r.Ref]; !is && !unknown {
			gone = append(gone, r)
		}
	}
	// What others need goes last.
	slices.SortFunc(gone, func(a, b Record) int { return compare(b.Ref, a.Ref) })
	return sorted(wanted), gone, problems
}

// Live is what there is of an object.
type Live struct {
	Exists bool
	// Ours says that it has the label, Deleting that it is being deleted.
	Ours, Deleting bool
	UID            string
	// Hash is that with which it was applied, of one that runs once.
	Hash string
	// Runs says that something of it runs, Finished that it has ended.
	Runs, Finished bool
	// RanSince says that it is gone, and that one of that name which was created since it was begun has run.
	RanSince bool
}

// Action is what is to be done about an object.
type Action string

// What may be done.
const (
	// Nothing: it is as it should be.
	Nothing Action = "nothing"
	// Remember that it was applied, by a jobd that did not get to write that down.
	Remember Action = "remember"
	Apply    Action = "apply"
	// Replace deletes it first.
	Replace Action = "replace"
	// Wait for what is there to end.
	Wait Action = "wait"
	// Refuse: others have made it.
	Refuse Action = "refuse"
)

// Decide returns what is to be done about an object. known is what was noted of it before. anew says that jobd has just begun:
// then what others have changed meanwhile is put right.
func Decide(o *Object, known Record, live Live, anew bool) Action {
	applied := known.Hash == o.Hash
	switch {
	case o.runsOnce() && applied:
		return Nothing // it runs or has run, whatever there is left of it
	case !o.runsOnce() && applied && live.Exists && live.Ours && !live.Deleting && !anew:
		return Nothing
	case live.Deleting:
		return Wait
	case !live.Exists && o.runsOnce() && known.Begun == o.Hash && live.RanSince:
		return Remember
	case !live.Exists:
		return Apply
	case !live.Ours && !o.isNamespace():
		return Refuse
	case o.runsOnce() && live.Hash == o.Hash:
		return Remember
	case o.runsOnce() && live.Finished:
		return Replace
	}
	return Apply
}

// Immutable returns what is to be done when the API has refused to change what is there: a Job's template cannot be changed.
func Immutable(o *Object, live Live) Action {
	switch {
	case !o.runsOnce():
		return Refuse
	case live.Runs:
		return Wait
	}
	return Replace
}

// isRunOf reports whether a Job of the history is one that was created from what was begun to be applied. Its label says so, whoever is
// said to have created it; it is missing in the history if the labels of a Job are very long.
func isRunOf(begun Record, j *history.Job) bool {
	ours := len(j.Labels) == 0 || j.Labels[PartOf] == SetID
	return ours && j.UID != begun.UID && j.Created.Unix() >= begun.At.Unix()
}

// Removes reports whether an object that is in no file any more is to be deleted: it has to be the very one that was applied. A
// namespace stays, since others may have made what is in it.
func Removes(r Record, live Live) bool {
	return live.Exists && live.Ours && !live.Deleting && !r.isNamespace() && (r.UID == "" || r.UID == live.UID)
}
