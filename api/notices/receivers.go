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
	// Kind is webhook, mail, command or healthcheck, and To says to whom, without what is secret.
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
}
