package notices

import "time"

// Path is where the daemon answers on its socket:
//
//	GET /jobd/v1/receivers              a List
//	POST /jobd/v1/receivers?test=NAME   delivers a notice of the kind test, and answers once that has ended
const Path = "/jobd/v1/receivers"

// List is all receivers, by name.
type List struct {
	Items []Receiver `json:"items"`
}

// Receiver is a receiver and how it has fared.
type Receiver struct {
	Name string `json:"name"`
	// Kind is webhook, mail, command or healthcheck, and To says to whom, without what is secret. Both are empty for one that the
	// settings do not have, or no more, and that was not told of something lately; Others stands for many of them.
	Kind string `json:"kind"`
	To   string `json:"to"`
	// Pending is how many notices are to be delivered.
	Pending int `json:"pending"`
	// Unwritten is why it cannot be written down what came of the last attempt; empty if it can. Until it can, nothing more is
	// delivered, and after a restart that notice is delivered once more.
	Unwritten string `json:"unwritten,omitempty"`
	Standing
}

// Standing is what is remembered of a receiver.
type Standing struct {
	Delivered   int        `json:"delivered"`
	DeliveredAt *time.Time `json:"deliveredAt,omitempty"` // the last time
	// LastError is why the last attempt failed, if it did.
	LastError string     `json:"lastError,omitempty"`
	FailedAt  *time.Time `json:"failedAt,omitempty"`
	// Lost are notices that could not be delivered, LostLast is the object of the last one.
	Lost     int        `json:"lost,omitempty"`
	LostLast string     `json:"lostLast,omitempty"`
	LostAt   *time.Time `json:"lostAt,omitempty"`
	// LostError is why that was.
	LostError string `json:"lostError,omitempty"`
	// Refused are notices that were not even written, the same way.
	Refused      int        `json:"refused,omitempty"`
	RefusedLast  string     `json:"refusedLast,omitempty"`
	RefusedAt    *time.Time `json:"refusedAt,omitempty"`
	RefusedError string     `json:"refusedError,omitempty"`
}

// Others is the name of receivers that the settings do not have, and that are too many to be counted by name. None can have it.
const Others = "(others)"
