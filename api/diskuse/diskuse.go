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
}

// Use is one kind of what is on the disk.
type Use struct {
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
	// Bound says what keeps it from growing, and by which setting.
	Bound string `json:"bound"`
	// Owners are whose it is, those that have most first; at most MaxOwners of Count. Those of images share layers, so that what they
	// have can be more than there is.
	Owners []Owner `json:"owners,omitempty"`
	Count  int     `json:"count"`
}

// MaxOwners is how many owners of one kind are named.
const MaxOwners = 100

// Owner is an object, or an image, that has something on the disk.
type Owner struct {
	Name  string `json:"name"` // an image, or jobs/NAMESPACE/NAME and the like
	Bytes int64  `json:"bytes"`
}
