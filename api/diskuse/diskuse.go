// Package diskuse is how `jobctl df` asks what jobd has on the disk, what bounds it, and whose it is. It is served on the socket only:
//
//	GET /jobd/v1/disk   a Report
package diskuse

import "time"

// Path is where it is served.
const Path = "/jobd/v1/disk"

// Report is what jobd has on the disk of its root.
type Report struct {
	At   time.Time `json:"at"`
	Root string    `json:"root"`
	// Size is that of the file system, Free what is free of it, in bytes.
	Size int64 `json:"size"`
	Free int64 `json:"free"`
	// Uses are what there is, by kind. What stands in one is in no other.
	Uses []Use `json:"uses"`
	// Jobs are what each Job has of all kinds but claims, which outlive it; those that have most first, at most MaxOwners of JobCount.
	Jobs     []Job `json:"jobs,omitempty"`
	JobCount int   `json:"jobCount"`
}

// Job is what the pods of one Job have on the disk.
type Job struct {
	Name  string `json:"name"` // NAMESPACE/NAME
	Bytes int64  `json:"bytes"`
	// Kinds has what of that is of each kind.
	Kinds map[string]int64 `json:"kinds"`
}

// Use is one kind of what is on the disk.
type Use struct {
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
	// Bound says what keeps it from growing, and by which setting.
	Bound string `json:"bound"`
	// Owners are whose it is, those that have most first; at most MaxOwners of Count.
	Owners []Owner `json:"owners,omitempty"`
	Count  int     `json:"count"`
}

// MaxOwners is how many owners of one kind are named.
const MaxOwners = 100

// Owner is an object, or an image, that has something on the disk.
type Owner struct {
	Name  string `json:"name"` // jobs/NAMESPACE/NAME and the like; of an image its names, with commas between them
	Bytes int64  `json:"bytes"`
	// Shared is what of an image others have too, such as layers. It counts once in what there is of all.
	Shared int64 `json:"shared,omitempty"`
	// UsedBy names what needs an image or a claim now: pods or their Jobs; of images also Jobs that have not finished, and CronJobs. At most
	// MaxUsers of UserCount are named.
	UsedBy    []string `json:"usedBy,omitempty"`
	UserCount int      `json:"userCount,omitempty"`
}

// MaxUsers is how many users of one image or claim are named.
const MaxUsers = 20
