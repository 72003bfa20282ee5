package pod

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
)

// What says which thing an Observation is about.
type What string

const (
	// SetUp: the set-up steps of the pod have been done. IPs are its addresses.
	SetUp What = "SetUp"
	// SetUpFailed: one of them has failed, and so this launch came to nothing. Reason is that of the event
	// (FailedMount, ...), Message the error. It is tried again after a back-off.
	SetUpFailed What = "SetUpFailed"
	// Pulling: the image is not here and is being pulled. Message names the pull secrets that cannot be had.
	Pulling What = "Pulling"
	// Pulled: the image is here. Took is zero when it was here before.
	Pulled What = "Pulled"
	// Started: the container's first process runs. Status says since when.
	Started What = "Started"
	// Exited: the container has ended, or its process could not be started (Status.StartError).
	Exited What = "Exited"
	// StartFailed: the launch came to nothing and left no container. Reason is that of the waiting state
	// (ErrImagePull, CreateContainerError, ...). It is tried again after a back-off.
	StartFailed What = "StartFailed"
	// Dropped: the launch was called off by a Stop before anything was started.
	Dropped What = "Dropped"
	// Lost: the container was started, or it cannot be told that it was not, and nobody knows how it ended.
	Lost What = "Lost"
	// Checked: a probe or hook of the running container has answered. OK says how; Verdict, that it is of consequence
	// now; Message, what was wrong.
	Checked What = "Checked"
	// Evicted: the pod takes more than it may, and is to end. Message says of what.
	Evicted What = "Evicted"
	// Rejected: this machine does not take the pod, and so this launch came to nothing. Reason and Message say why.
	Rejected What = "Rejected"
	// TornDown: everything that was set up for the pod is gone from the host; its logs stay.
	TornDown What = "TornDown"
)

// Observation is what a worker or the runtime says of a pod or of one container of it. Observations may come twice
// and, but for those of one launch, in any order.
type Observation struct {
	UID types.UID
	// Namespace and Name find the pod in the store. They are empty where only the UID is known.
	Namespace, Name string

	What      What
	Container string // empty for SetUp and TornDown
	Attempt   int

	// At is when it happened.
	At time.Time

	Reason, Message string
	Image           runtime.Image  // Pulled, Started
	Took            time.Duration  // Pulled
	Status          runtime.Status // Started, Exited
	IPs             []string       // SetUp
	Check           Check          // Checked
	OK, Verdict     bool           // Checked

	// Later: people see it, but nothing is decided from it, so it may wait a moment to be stored with others.
	Later bool
}
