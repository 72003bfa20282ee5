package duty

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
)

// What is the kind of an Observation.
type What string

const (
	// SetUp: the set-up steps of the pod have succeeded. IPs are its addresses.
	SetUp What = "SetUp"
	// SetUpFailed: one of the steps has failed, and so has this launch. Reason is that of the event (FailedMount, ...),
	// Message the error. It is tried again after a back-off.
	SetUpFailed What = "SetUpFailed"
	// Pulling: the image is not present and is being pulled. Message names the pull secrets that cannot be had.
	Pulling What = "Pulling"
	// Pulled: the image is present. Took is zero if it was present before.
	Pulled What = "Pulled"
	// Started: the container's first process runs. Status says since when.
	Started What = "Started"
	// Exited: the container has ended, or its process could not be started (Status.StartError).
	Exited What = "Exited"
	// StartFailed: the launch has failed and left no container. Reason is that of the waiting state
	// (ErrImagePull, CreateContainerError, ...). It is tried again after a back-off.
	StartFailed What = "StartFailed"
	// Dropped: the launch was called off by a Stop before anything was started.
	Dropped What = "Dropped"
	// Lost: the container was started, or may have been, and it is not known how it ended.
	Lost What = "Lost"
	// Held: the runtime holds the container, whose start is not on record, since an earlier daemon ended between the two.
	// Status says how it is. The launch that is due finds it; if the pod is to end before, this is what is known of it.
	Held What = "Held"
	// SandboxLost: what was set up for the pod is gone, since the host went down. It is set up anew if the pod goes on.
	SandboxLost What = "SandboxLost"
	// Checked: a probe or hook of the running container has answered. OK is its result, and Verdict says that the
	// threshold is reached, so that the result has consequences. Message says what was wrong, or, with OK, doubtful.
	Checked What = "Checked"
	// Evicted: the pod takes more than it may, and is to end, or to keep its files no longer. Message says what it takes too
	// much of.
	Evicted What = "Evicted"
	// Preempted: the pod is to end, to make room for a critical pod.
	Preempted What = "Preempted"
	// HostStops: the machine goes down, and the pod is to end within Took.
	HostStops What = "HostStops"
	// HostStays: the machine is up again, or stays up after all, so that a pod goes on that was to end because of it.
	HostStays What = "HostStays"
	// Rejected: this machine does not take the pod, and so this launch has failed. Reason and Message say why.
	Rejected What = "Rejected"
	// Stuck: a step of what is done for the pod does not come to its end, or fails again and again. Reason and Message say
	// which, for people.
	Stuck What = "Stuck"
	// Doubted: something was set up for a container, and not as its pod asks for it. Reason and Message are those of the
	// event that says so.
	Doubted What = "Doubted"
	// Resized: a Resize was carried out, or, without OK, was not: Message says why.
	Resized What = "Resized"
	// Paused and Continued: a Pause or Continue was carried out or, without OK, was not: Message says why.
	Paused    What = "Paused"
	Continued What = "Continued"
	// SignalSent: a SendSignal was carried out or, without OK, was not: Message says why.
	SignalSent What = "SignalSent"
	// FilesDropped: the files of a pod that has ended are not kept any longer, for want of disk.
	FilesDropped What = "FilesDropped"
	// TornDown: everything that was set up for the pod is gone from the host; its logs stay.
	TornDown What = "TornDown"
)

// Observation is what a worker or the runtime reports about a pod or one of its containers. Observations may come twice
// and in any order, except that those of one launch come in order.
type Observation struct {
	UID types.UID
	// Namespace and Name find the pod in the store. They are empty where only the UID is known.
	Namespace, Name string

	What      What
	Container string // empty for what is about the pod
	Volume    string // Pulling, Pulled, StartFailed: the volume whose image it is about; empty for the container's own
	Attempt   int

	// At is when it happened.
	At time.Time

	Reason, Message string
	Image           runtime.Image  // Pulled, Started
	Took            time.Duration  // Pulled, HostStops
	Status          runtime.Status // Started, Exited, Held
	IPs             []string       // SetUp
	Check           Check          // Checked
	OK, Verdict     bool           // Checked; Resized, SignalSent, Paused and Continued have OK too
	Unanswered      bool           // Checked: the check could not be made, so it is neither a success nor a failure

	// Resized is what a Resize has changed, nil if it failed.
	Resized *Resizing
	// Resources are those that the container was started with (Started). Nil: those that it is to have.
	Resources *corev1.ResourceRequirements

	// Later says that the observation is only shown to users and that nothing is decided from it, so that it may wait a
	// moment to be stored together with others.
	Later bool
}

// String returns what an observation is about, for logs.
func (o Observation) String() string {
	if o.Container == "" {
		return string(o.What)
	}
	return fmt.Sprintf("%s %s/%d", o.What, o.Container, o.Attempt)
}

// Resizing is what a Resize has changed.
type Resizing struct {
	Containers []ResizedContainer
	// Whole are the resources of the whole pod (PodSpec.Resources); nil if it has none.
	Whole *corev1.ResourceRequirements
	// Partial: there are containers that are to be restarted first.
	Partial bool
}

// ResizedContainer is an attempt of a container, and the resources that it has now.
type ResizedContainer struct {
	Name      string
	Attempt   int
	Resources corev1.ResourceRequirements
}

// Reasons of StartFailed, as a kubelet has them.
const (
	ErrImagePull          = "ErrImagePull"
	ErrImageNeverPull     = "ErrImageNeverPull"
	InvalidImageName      = "InvalidImageName"
	CreateContainerConfig = "CreateContainerConfigError"
	CreateContainer       = "CreateContainerError"
	// RunContainer is the reason of a container whose process could not be started and that is about to be restarted.
	RunContainer = "RunContainerError"
)
