package protocol

import "time"

// State is where a container is in its life.
type State string

const (
	// Starting: its start is recorded, and the OCI runtime is at work.
	Starting State = "starting"
	Running  State = "running"
	// Exited: ExitCode tells how, or StartError why it never began.
	Exited State = "exited"
	// Lost: it was started, its shard died, and how it ended cannot be known any more. Nothing of it runs.
	Lost State = "lost"
)

// Ended reports whether the container has come to its end.
func (s State) Ended() bool { return s == Exited || s == Lost }

// Mount is one mount of a root file system, in the form that containerd's snapshotters use. Target is relative to the
// root.
type Mount struct {
	Type    string   `json:"type"`
	Source  string   `json:"source"`
	Target  string   `json:"target,omitempty"`
	Options []string `json:"options,omitempty"`
}

// Start says what to start.
type Start struct {
	// ID is unique among all shards. It becomes a directory name and must not hold a slash.
	ID string `json:"id"`
	// Spec is the OCI runtime spec as JSON. Its root path is set by the shard, to where it has mounted Rootfs; its
	// cgroups path must be absolute and the container's own.
	Spec []byte `json:"-"`
	// Facts are those of the spec (FactsOf). With them the shard takes the spec as it is and does not read it. A shard of an
	// older version does not know of them.
	Facts *SpecFacts `json:"facts,omitempty"`
	// Pins are those of the namespaces in the spec that the host's mounts do not lead to. CanFindPins says that a shard
	// knows of this.
	Pins *Pins `json:"pins,omitempty"`
	// Rootfs is mounted, in order, in a mount namespace that ends with the container: nobody has to unmount it.
	Rootfs []Mount `json:"rootfs"`
	// Host: it runs a command of the host. CanShowHost says that a shard knows of this.
	Host *Host `json:"host,omitempty"`
	// Login is the user of the host whom the kernel's audit log names for what the container does; nil: none. A shard of an older
	// version does not know of this.
	Login *uint32 `json:"login,omitempty"`
	// Stdin: the container has a stdin, which is written to by those who attach. It never ends, except that with
	// StdinOnce it ends when the first of them says so; that of a terminal never ends.
	Stdin     bool `json:"stdin,omitempty"`
	StdinOnce bool `json:"stdinOnce,omitempty"`
	// LogPath is the file to which stdout and stderr, or the output of the terminal if the spec has one, are written in
	// the CRI format. Empty: output is dropped.
	LogPath string `json:"logPath,omitempty"`
	// LogMaxSize is how large a file of the log grows before it is rotated, 0 is no limit; LogMaxFiles are kept.
	LogMaxSize  int64 `json:"logMaxSize,omitempty"`
	LogMaxFiles int   `json:"logMaxFiles,omitempty"`
	// MessagePath is the host's path of the termination message file, read at the container's end.
	MessagePath string `json:"messagePath,omitempty"`
	// Runtime is the path of the OCI runtime, RuntimeArgs are its global options before "run".
	Runtime     string   `json:"runtime"`
	RuntimeArgs []string `json:"runtimeArgs,omitempty"`
	// ForeignRuntime: it is neither crun nor runc. It is executed where it lies, not from a copy in memory, and is asked
	// itself to send signals and to remove what it has left. CanRunForeign says that a shard knows of this.
	ForeignRuntime bool `json:"foreignRuntime,omitempty"`
	// RuntimeTimeout is how long one call of the OCI runtime for this container may take, in nanoseconds. After that
	// the call is killed and fails. 0: DefaultRuntimeTimeout.
	RuntimeTimeout time.Duration `json:"runtimeTimeout,omitempty"`
	// Labels are kept with the container and returned with it. They mean nothing to the shard.
	Labels map[string]string `json:"labels,omitempty"`
}

// Host says where the mounts of the spec find the host's files.
type Host struct {
	// At is an empty directory at which they are shown, with all that is mounted there, to the OCI runtime alone.
	At string `json:"at"`
	// Without are directories below which nothing that is mounted is shown.
	Without []string `json:"without,omitempty"`
	// Own are names in the root that the container has of its own: no symlinks of the host's.
	Own []string `json:"own,omitempty"`
}

// Pins are pinned namespaces.
type Pins struct {
	// In is the path of the mount namespace in which Paths lead to them.
	In    string   `json:"in"`
	Paths []string `json:"paths"`
}

// DefaultRuntimeTimeout is how long an OCI runtime may take, as a kubelet has it (runtimeRequestTimeout).
const DefaultRuntimeTimeout = 2 * time.Minute

// Container is what a shard knows about one of its containers.
type Container struct {
	ID         string            `json:"id"`
	State      State             `json:"state"`
	PID        int               `json:"pid,omitempty"`
	StartedAt  time.Time         `json:"startedAt,omitzero"`
	FinishedAt time.Time         `json:"finishedAt,omitzero"`
	LogPath    string            `json:"logPath,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`

	// ExitCode is 128+n when signal n ended the process, and 128 when it could not be started.
	ExitCode int `json:"exitCode"`
	// Signal is the one that ended the process, if one did.
	Signal    int  `json:"signal,omitempty"`
	OOMKilled bool `json:"oomKilled,omitempty"`
	// CPUTime is the processor time that all processes of the container have taken, in nanoseconds, and PeakMemory the
	// most memory, in bytes, that they had at once, page cache included. Both are set at its end; 0: not known.
	CPUTime    time.Duration `json:"cpuTime,omitempty"`
	PeakMemory int64         `json:"peakMemory,omitempty"`
	// StartError holds the OCI runtime's error message when the process could not be started at all.
	StartError string `json:"startError,omitempty"`
	// Message is the termination message, at most MaxMessage bytes of it.
	Message string `json:"message,omitempty"`
	// LogError says why part of the log was lost, if any was: the disk was full, for example.
	LogError string `json:"logError,omitempty"`
}

// MaxMessage is how much is read of a termination message file, as a kubelet does.
const MaxMessage = 4096
