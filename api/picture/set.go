package picture

import "github.com/jobd/jobd/api/batch"

// SetKind is the kind of every SetPicture, which has the APIVersion of a Picture.
const SetKind = "SetPicture"

// Missing is the symbol of a Job of a JobSet that there is not: it was not made yet, or is gone. The others are those of cells.
const Missing = '-'

// SetPicture is a JobSet at one moment, as a graph: its groups, and what each waits for. GET .../jobsets/NAME/picture answers with it.
type SetPicture struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// At is when this was, in milliseconds since 1970.
	At int64 `json:"at"`

	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is one of package batch (State), or Restarting.
	State string `json:"state"`
	// Decided is which policy has ended the JobSet or begun it anew, in one line; empty if none has, or it goes on.
	Decided string `json:"decided,omitempty"`
	// Created and Ended are in seconds since 1970; 0 is none.
	Created int64 `json:"created"`
	Ended   int64 `json:"ended,omitempty"`
	// Restarts is how often it has begun anew, Counted how many of these count towards MaxRestarts, which is nil without a failure policy.
	Restarts    int  `json:"restarts"`
	Counted     int  `json:"counted"`
	MaxRestarts *int `json:"maxRestarts,omitempty"`
	// Former is how many Jobs of former attempts are not gone yet.
	Former int `json:"former,omitempty"`
	// InOrder: one group begins after the other.
	InOrder bool `json:"inOrder,omitempty"`
	// Groups are in the order of the manifest, in which none waits for a later one.
	Groups []Group `json:"groups"`
}

// Group is a replicated Job of a JobSet.
type Group struct {
	Name string `json:"name"`
	// State is that of its Jobs: Failed if one has failed, Complete if all are, Running if one runs, else what most are. It is Waiting or, once the
	// JobSet has ended, empty if none of them is there.
	State    string `json:"state,omitempty"`
	Replicas int    `json:"replicas"`
	// Jobs has a symbol for each of its Jobs by their indexes, as Runs. Counts are how many have each state, by its word; those that are missing have none.
	Jobs   string         `json:"jobs"`
	Counts map[string]int `json:"counts"`
	// Ready is how many of its Jobs are ready, as the status has it.
	Ready int `json:"ready"`
	// Layer is how many groups are before it on the longest way of what it waits for.
	Layer int `json:"layer,omitempty"`
	// After is what it waits for.
	After []Arrow `json:"after,omitempty"`
}

// Arrow is from a group to one that waits for it.
type Arrow struct {
	Group string `json:"group"`
	// Status is ready or complete. Has is how many Jobs of the group are so, Of how many have to be.
	Status string `json:"status"`
	Has    int    `json:"has"`
	Of     int    `json:"of"`
	// Met: that is so, or the group that waited has begun.
	Met bool `json:"met,omitempty"`
}

// Done is how many Jobs of the group are complete.
func (g *Group) Done() int { return g.Counts[batch.StateComplete] }
