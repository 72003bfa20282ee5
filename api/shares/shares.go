// Package shares is the format in which jobd says what everybody has used of the machine, where the queue is ordered by that (jobd serve
// --queue-order fair): GET /apis/shares.jobd.dev/v1/shares, which only jobd has, answers with a List as JSON.
package shares

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Group, Version and Kind are those of the answer.
const (
	Group   = "shares.jobd.dev"
	Version = "v1"
	Kind    = "ShareList"
	// Path is that of the request.
	Path = "/apis/" + Group + "/" + Version + "/shares"
)

// List is the use of all, the one that comes first in the queue in front.
type List struct {
	metav1.TypeMeta `json:",inline"`
	// HalfLife is how long it takes until use counts for half as much.
	HalfLife metav1.Duration `json:"halfLife"`
	Items    []Share         `json:"items"`
}

// Share is what one account has used.
type Share struct {
	// Account is a namespace ("namespace team") or a user ("user alice").
	Account string `json:"account"`
	// Used is its decayed use: seconds of the whole machine. Share is its weight, and the least Used by Share comes first.
	Used  float64 `json:"used"`
	Share float64 `json:"share"`
	// Running is the part of the machine that its pods have now, from 0 to 1 and more, and Waiting how many pods wait for room.
	Running float64 `json:"running"`
	Waiting int     `json:"waiting"`
}

// MachineTime formats seconds of the whole machine for people.
func MachineTime(seconds float64) string {
	return duration.HumanDuration(time.Duration(seconds * float64(time.Second)))
}
