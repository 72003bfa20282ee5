// Package inspection is how `jobd debug` asks a running daemon what it is doing. It is for those who develop jobd or look
// for what is wrong with it; it is no API of Kubernetes, may change with every version, and is served on the socket only:
//
//	GET /jobd/v1/debug   a Daemon
//
// Answering is what makes the control loop note its passes, for a minute: before the first question there are none.
package inspection

import "time"

// Path is where it is served.
const Path = "/jobd/v1/debug"

// Daemon is what a daemon is doing at one moment.
type Daemon struct {
	At time.Time `json:"at"`
	// Version is that of the last change of the store.
	Version    uint64 `json:"version"`
	Goroutines int    `json:"goroutines"`
	// Sections are what the watchdog watches.
	Sections []Section `json:"sections"`
	// Loop is nil if the loop did not answer, which LoopError says then.
	Loop      *Loop   `json:"loop,omitempty"`
	LoopError string  `json:"loopError,omitempty"`
	Workers   Workers `json:"workers"`
	// Manifests is nil unless a directory of manifests is applied.
	Manifests *Manifests `json:"manifests,omitempty"`
	// Waiting is why the API is not served yet on some of its addresses.
	Waiting []string `json:"waiting,omitempty"`
}

// Manifests is what has become of the directory of manifests.
type Manifests struct {
	Dir      string            `json:"dir"`
	Objects  int               `json:"objects"`
	Problems []ManifestProblem `json:"problems,omitempty"`
	// Warnings are what the API has said of objects that it has taken.
	Warnings []ManifestProblem `json:"warnings,omitempty"`
}

// ManifestProblem is what is wrong with a file, or with an object in it. File is empty if it is the directory.
type ManifestProblem struct {
	File    string `json:"file,omitempty"`
	Message string `json:"message"`
}

// Section is work that the watchdog watches, and a lock as long as it is held.
type Section struct {
	Name string `json:"name"`
	Busy bool   `json:"busy"`
	// Concern is the part of the program that is at work, and Object what it is at work on.
	Concern string `json:"concern,omitempty"`
	Object  string `json:"object,omitempty"`
	// Disk says that it waits for the disk.
	Disk bool `json:"disk,omitempty"`
	// Lasts is how long the work has lasted, in whole samples of a second.
	Lasts time.Duration `json:"lasts,omitempty"`
	// Turns is how often work was begun.
	Turns uint64 `json:"turns"`
}

// Loop is the control loop between two passes.
type Loop struct {
	// Folded is the version of the store up to which everything was taken in.
	Folded uint64 `json:"folded"`
	// Reports are from workers, and wait to be taken in.
	Reports int `json:"reports"`
	// More says that the last pass has used up its budget.
	More bool `json:"more,omitempty"`
	// Concerns are in the order in which they decide.
	Concerns []Concern `json:"concerns"`
	// Passes are the last ones, the oldest first, as far as they were noted.
	Passes []Pass `json:"passes,omitempty"`
}

// Concern is a controller of the loop.
type Concern struct {
	Name string `json:"name"`
	// Dirty says that it has a decision to take.
	Dirty bool `json:"dirty,omitempty"`
	// Timers are how many times it waits for, and Next is the first of them.
	Timers int        `json:"timers,omitempty"`
	Next   *time.Time `json:"next,omitempty"`
}

// Pass is a pass of the loop.
type Pass struct {
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	// Joined says that it was written in the transaction of a client's change.
	Joined       bool `json:"joined,omitempty"`
	Observations int  `json:"observations,omitempty"`
	Written      int  `json:"written,omitempty"` // objects
	Bytes        int  `json:"bytes,omitempty"`   // of objects that it has read and written
	// Steps is work that neither reads nor writes objects.
	Steps     int  `json:"steps,omitempty"`
	Exhausted bool `json:"exhausted,omitempty"`
	// Error says that it was not written.
	Error string `json:"error,omitempty"`
	// Concerns are how long each was at work.
	Concerns map[string]time.Duration `json:"concerns,omitempty"`
}

// Workers are what works on pods.
type Workers struct {
	// Pods are those that are set up, Stuck how many of them are in a step that has lasted for two minutes.
	Pods  int `json:"pods"`
	Stuck int `json:"stuck,omitempty"`
	// Free slots let a pod be worked on at once, and Waiting pods wait for one.
	Free    int `json:"free"`
	Waiting int `json:"waiting,omitempty"`
	// Tenants are the namespaces that have slots or wait for some, those that have most first.
	Tenants []Tenant `json:"tenants,omitempty"`
	// Steps are those under way, the oldest first.
	Steps []Step `json:"steps,omitempty"`
}

// Tenant is a namespace among which slots are divided.
type Tenant struct {
	Namespace string `json:"namespace"`
	// Held slots are in use, and Lent ones as well, by steps that take so long that others may use their slots meanwhile.
	Held int `json:"held"`
	Lent int `json:"lent,omitempty"`
	// Waiting are its pods that wait for a slot.
	Waiting int `json:"waiting,omitempty"`
}

// Step is what is done for a pod just now.
type Step struct {
	Pod   string    `json:"pod"` // namespace/name
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	// Queued is what is to be done after it.
	Queued []string `json:"queued,omitempty"`
}
