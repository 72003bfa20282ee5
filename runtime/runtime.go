// Package runtime defines what jobd needs of whatever runs its containers, in plain types. The real implementation is
// runtime/containerd (an embedded containerd over our shards), the other is runtime/simulated. It also names what both
// sides have to name alike: containers, control groups, the boot of the host.
package runtime

import (
	"context"
	"syscall"
	"time"

	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Runtime runs containers. Every call may be repeated after a crash: what was already done is found, not done twice. A
// container outlives the process that started it; its exit is kept until Remove.
//
// All errors carry a class of containerd's errdefs where a caller could act on it.
type Runtime interface {
	// Describe says for people what this is: "containerd 2.4.2 with crun 1.8.1 (/usr/bin/crun)".
	Describe() string

	// Containers lists every container that is held, ended ones included: what a restarted daemon finds.
	Containers(ctx context.Context) ([]Status, error)

	// Start creates and starts a container. A container of that ID which exists already is left as it is and its
	// status is returned, whatever its state: so a start in doubt is simply repeated. The exit is reported
	// to the function passed to OnExit, even when it comes before Start returns.
	Start(ctx context.Context, c Container) (Status, error)

	// Usage returns what a running container uses now. One that does not run is errdefs.ErrNotFound, as is every one of a
	// runtime without processes.
	Usage(podUID, id string) (Usage, error)

	// CallOff ends the start of a container that is under way: Start returns errdefs.ErrAborted then, and nothing runs.
	// The error is errdefs.ErrFailedPrecondition when the start is over, and errdefs.ErrNotFound when it has not begun.
	CallOff(ctx context.Context, id string) error

	// Signal sends a signal to the first process of a container, or with all to every process in it. One that has
	// ended or is not known is errdefs.ErrNotFound.
	Signal(ctx context.Context, id string, sig syscall.Signal, all bool) error

	// SignalOnce sends a signal to the first process of a container, unless it has done so before, whoever has asked for that.
	// The errors are those of Signal.
	SignalOnce(ctx context.Context, id string, sig syscall.Signal) error

	// Freeze stops the processes of a container of a pod, or lets them go on. A container that does not run is
	// errdefs.ErrNotFound, as is one that is not known. A host without a freezer is errdefs.ErrNotImplemented, and processes
	// that do not stop are errdefs.ErrUnavailable. A container stays frozen when the daemon ends, and ends when it is killed.
	Freeze(podUID, id string, freeze bool) error

	// Remove forgets an ended container: its root file system and its exit record. A running one is killed
	// first, and one that is being started is called off. One that is not known is no error. Logs stay.
	Remove(ctx context.Context, id string) error

	Executor
	Attacher

	// OnExit sets the function that is called with each exit, exactly once for each container while this process lives.
	// It is called once, before any Start, and must not block. Exits that happened before are found by Containers.
	OnExit(func(Status))

	// Close closes the runtime and leaves the containers running.
	Close() error
}

// Container is a container to be started.
type Container struct {
	ID      string // from ContainerID
	PodUID  string
	Name    string // the container's name in its pod
	Attempt int    // 0 for the first start, then counted up: restartCount at the time of the start

	Image Image
	// Handler is the OCI runtime that starts the container. It may differ from call to call: a container that was
	// created keeps its own.
	Handler Handler
	// Spec is complete except for its root path, which the runtime sets.
	Spec *specs.Spec
	// Alone: no process of another container can have got hold of one of its files, so the layer that it wrote to may
	// be used by another container after it.
	Alone bool
	// Joins: it is added to a pod whose other containers were started Alone, and are so no more.
	Joins bool
	// Stdin: it reads what those who attach write, and without them waits for it. With StdinOnce, and without a
	// terminal, it reads an end when the first of those has no more. Whether it has a terminal stands in Spec.
	Stdin, StdinOnce bool
	// LogPath is the file that gets stdout and stderr in the CRI format. Its directory exists.
	LogPath string
	// LogMaxSize is how large that file grows before it is rotated, 0 is no limit; LogMaxFiles are kept.
	LogMaxSize  int64
	LogMaxFiles int
}

// Handler is an OCI runtime that pods can name (RuntimeClass.Handler). The zero value is the one of pods that name none.
type Handler struct {
	Name string `json:"name"`
	// Path is the program's, Args are its global options.
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Foreign: it is neither crun nor runc, and joins no user namespace that was made for a pod.
	Foreign bool `json:"foreign,omitempty"`
}

// State is where a container is in its life.
type State string

const (
	Created State = "created" // known, its process not yet started
	Running State = "running"
	Exited  State = "exited"
	// Lost: it was started, and how it ended can no longer be known: its shard died, or the host went down.
	Lost State = "lost"
)

// Status is what is known of a container.
type Status struct {
	ID      string
	PodUID  string
	Name    string
	Attempt int
	// Image is the full name of the image that it was made from; empty where that is not known.
	Image string

	State State
	// User is whom the first process ran as when it was started, by the ids of the container. Nil: that is not known.
	User       *User
	PID        int
	StartedAt  time.Time
	FinishedAt time.Time
	// ExitCode is 128+n when signal n ended the process. Meaningful only once State is Exited.
	ExitCode  int
	Signal    int
	OOMKilled bool
	// Used is what the container has used until its end; it is zero before.
	Used Used
	// StartError is set when the process could not be started at all (no such command, bad mount, ...): the OCI
	// runtime's own error message. ExitCode is 128 then.
	StartError string
	// Message is the content of the termination message file, if the spec has one.
	Message string
}

// Used is what all processes of a container have used from its start to its end. A figure that is not known is 0.
type Used struct {
	CPU        time.Duration // processor time
	PeakMemory int64         // the most memory that they had at once, with the page cache, in bytes
}

// Usage is what a running container uses, as a kubelet shows it. A figure that is not known is 0. Memory is in bytes.
type Usage struct {
	// CPU is the processor time since the start, of which User and System are the parts.
	CPU, User, System time.Duration
	// Memory is all that is in use, with the page cache; PeakMemory is the most that it has been.
	Memory, PeakMemory int64
	// WorkingSet is Memory without the file pages that the kernel takes back first, Held without what it takes back before it ends
	// processes, RSS the anonymous memory, Cache the page cache.
	WorkingSet, Held, RSS, Cache int64
	// MajorFaults and MinorFaults count the page faults that did, and did not, wait for a disk.
	MajorFaults, MinorFaults int64
	// OOMKills is how many processes the kernel has killed for want of memory.
	OOMKills int
}

// User is the user of a process, and the groups that it has besides its primary one, which may be among them.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Image is an image that is present, unpacked and ready.
type Image struct {
	// Name is the full reference: docker.io/library/perl:5.34.0
	Name string
	// ID is the digest of the image's config: what pods show as imageID when there is no repository digest.
	ID string
	// Digest is that of the manifest or index that the name points to.
	Digest string
	// ChainID names the snapshot of the unpacked top layer.
	ChainID string
	// Size is that of its content, in bytes.
	Size    int64
	Created time.Time
	Config  imagespec.ImageConfig
	// Engine names the Docker or podman of this machine that it was taken from; empty if it was pulled or imported.
	Engine string
	// Local: no registry has given it under its name. It was imported, tagged by hand, or taken from an engine.
	Local bool
}

// ImageUsage is what an image has on the disk, in bytes: of that, others have Shared too.
type ImageUsage struct {
	Names        []string
	Size, Shared int64
}

// Pruned is what was removed of the images without a user, or would be.
type Pruned struct {
	Images []Image // with their names, digests and what they have on the disk
	Freed  int64   // bytes that only they have
	Kept   int     // images without a user that were kept because no registry could bring them back
}

// Credentials are what a registry is shown. An identity token stands for both of the others.
type Credentials struct{ Username, Password, IdentityToken string }

// ImagePresent are the words with which the error of a failed pull says that the image is on this machine all the same.
const ImagePresent = "the image is on this machine"

// Transfer is how far a pull or an import of an image is: bytes and layers of their totals, which are 0 if they are not
// known.
type Transfer struct {
	Name        string
	Import      bool
	Engine      string // that it is taken from; empty for a registry
	Bytes       int64
	TotalBytes  int64
	Layers      int
	TotalLayers int
}
