// Package control has the list of all concerns of the control loop (Control.controllers), and those that decide about pods and
// Jobs together. Each is in a file, the larger ones in a few.
//
// Changes of the store, observations of workers and the time come in through daemon/loop. Decisions are taken by the pure
// packages daemon/job, daemon/pod and daemon/node. This package gives them their input and carries out what they decide: it
// writes objects in the loop's passes, what it creates through daemon/door, and hands actions to the workers of pods once the
// pass is durable.
//
// Package daemon/tend looks after pods while they run, daemon/upkeep after what stands beside them, and daemon/kinds removes what others
// delete.
//
// The records of pods and Jobs, and the queue for the node, know no controller. Of the controllers that of pods comes first, then
// that of Jobs, then those that change Jobs or bind pods: each knows only what is in front of it.
package control

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/cards"
	"github.com/jobd/jobd/daemon/cronjobs"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/gang"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/jobsets"
	"github.com/jobd/jobd/daemon/kinds"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/namespace"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/notices"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/daemon/tend"
	"github.com/jobd/jobd/daemon/upkeep"
	"github.com/jobd/jobd/daemon/volumes"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/daemon/workloads"
	"github.com/jobd/jobd/internal/watchdog"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
)

// Config is what the control loop works with.
type Config struct {
	Store *store.Store
	// Inbox is where the workers and others report what they observe.
	Inbox *loop.Inbox
	// Workers carry out what is decided for pods.
	Workers *worker.Pool
	// Logs are told when the objects of pods and Jobs are gone.
	Logs Logs

	// Settings configure the decisions about Jobs.
	Settings job.Settings
	// PodSecurity decides which pods a namespace takes; nil means any.
	PodSecurity *podsecurity.Policy
	// Full returns why nothing more is to be created in a namespace, since the disk has no room for it. It waits for nobody. Nil: nobody knows.
	Full func(namespace string) error
	// HostRoot lets root run commands of this machine by the image jobd.dev/host.
	HostRoot bool
	// MultiKueue makes the machine a worker of MultiKueue.
	MultiKueue bool
	// MaxPods is how many pods may be on the node at once, Allocatable what they may request together; nil means no
	// limit.
	MaxPods     int
	Allocatable requests.Resources
	// StarvationAfter is how long the first in the queue waits until nothing is given to those behind it that it needs; 0 for ever.
	StarvationAfter time.Duration
	// Fair orders pods of the same priority by what everybody has used; nil: by age.
	Fair *fairness.Policy
	// NodeName and NodeIP are written into pods that are bound. NodeLabels are what pods select the node by until its
	// stored object says more.
	NodeName, NodeIP string
	NodeLabels       map[string]string
	// Node is the node's object as it should be, without devices; nil if there is none.
	Node *corev1.Node
	// Devices returns how many devices of each kind there are now (DevicesChanged). It may be called at any time; nil
	// means that there are none.
	Devices func() corev1.ResourceList
	// DeviceUses says who uses the devices; nil: nobody but pods, and each alone.
	DeviceUses DeviceUses
	// Sysctls are those that pods may set; the node rejects pods with others.
	Sysctls oci.Sysctls
	// RootCA is the certificate, in PEM, that verifies the API's certificate; empty if there is none.
	RootCA []byte
	// Tokens makes the tokens that Secrets are to keep.
	Tokens *tokens.Tokens
	// Epoch names the period for which containers last: at most until the host reboots.
	Epoch string

	// Volumes creates the volumes of claims. It has to nudge Inbox.
	Volumes *provision.Worker
	// UnknownStorageClassWaits says that claims of a storage class that does not exist wait for it. Otherwise they get
	// volumes of the default class.
	UnknownStorageClassWaits bool

	// Receivers are whom users may let be told of their Jobs; none: nobody.
	Receivers notify.Receivers

	// Occupied is told, after each pass, whether pods are on the node. It must not block, and may be nil.
	Occupied func(bool)

	// History bounds what is kept of Jobs that have ended.
	History history.Limits

	// Watch is told what the loop is at work on, and Aside knows what it leaves alone. Both may be nil.
	Watch *watchdog.Section
	Aside *aside.List
	// Panicked is told of a panic, see loop.Config. It may be nil.
	Panicked func(concern, object string, reason any)

	// Events limits the rate of events; each is removed EventTTL after it was last seen.
	Events   *events.Recorder
	EventTTL time.Duration
	Metrics  *metrics.Metrics
	Logger   *slog.Logger
	// Clock is the wall clock, which may be set at any time; nil means that of the machine.
	Clock func() time.Time
}

// DeviceUses is who uses devices. No method blocks.
type DeviceUses interface {
	// Kinds returns the kinds of which the amount does not say everything, and Moved says that it may return something else than at its
	// last call (Inbox).
	Kinds() map[corev1.ResourceName]cards.Devices
	Moved() bool
	// Wanted is told, after each pass, whether pods that request devices wait or run.
	Wanted(bool)
	// Of returns what a pod has had of GPUs.
	Of(*corev1.Pod) history.GPUs
}

// Logs are the logs of pods. No method may block.
type Logs interface {
	// PodGone reports that a pod's object is gone.
	PodGone(*corev1.Pod)
	// JobGone reports that a Job's object is gone.
	JobGone(types.UID)
	namespace.Logs
}

// Control is the daemon's control loop.
type Control struct {
	config Config
	loop   *loop.Loop
	// newEpoch is the epoch, if the store does not know it yet. It is written together with what the change of epochs
	// has ended.
	newEpoch string
	// devicesChanged says that Config.Devices may return something else than before.
	devicesChanged atomic.Bool
	// goesDown says that the machine goes down: no pod is bound.
	goesDown atomic.Bool

	// records are made anew when a pass was lost, and belong to the loop while it runs.
	records records
}

// records are what the controllers know, as far as others ask for it.
type records struct {
	jobs   *jobRecords
	pods   *podRecords
	queue  *queue
	claims *volumes.Uses
	ledger *history.Ledger
	holds  *hold.Holds
}

// New makes the control loop. It does nothing before Recover and Run.
func New(c Config) *Control {
	control := &Control{config: c}
	control.loop = loop.New(loop.Config{
		Store: c.Store, Inbox: c.Inbox, Controllers: control.controllers,
		Events: c.Events, EventTTL: c.EventTTL, Metrics: c.Metrics, Logger: c.Logger, Clock: c.Clock,
		Watch: c.Watch, Aside: c.Aside, Panicked: c.Panicked,
	})
	return control
}

// DevicesChanged makes the loop look again at the devices that there are (Config.Devices). It may be called from any
// goroutine.
func (c *Control) DevicesChanged() {
	c.devicesChanged.Store(true)
	c.config.Inbox.Nudge()
}

// Unstored reports whether the loop is at work on a change of an object that is not durable. It may be called from any
// goroutine.
func (c *Control) Unstored(key string) bool { return c.loop.Unstored(key) }

// Inspect returns what the loop is doing (loop.Loop.Inspect).
func (c *Control) Inspect(ctx context.Context) (*inspection.Loop, error) { return c.loop.Inspect(ctx) }

// Run runs the loop until ctx ends, and then returns nil. It returns an error when the store is unusable.
func (c *Control) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// controllers makes the concerns of the loop, in the order in which they decide: what has become of pods is known
// before decisions about Jobs are taken, and all that follows from those before waiting pods are admitted. They read
// their records in the reverse order: owners come first.
//
// Each is given what it needs when it is made. Those behind may change what is in front: records of pods, then the pods, then
// Jobs, then CronJobs. The other way they are told by followers.
func (c *Control) controllers(timers *loop.Timers, followers *loop.Followers) []loop.Controller {
	var (
		config   = &c.config
		capacity = config.capacity()
		notes    = gc.NewNotes()
		ledger   = history.NewLedger(timers, config.History, config.gpus())
		budgets  = upkeep.NewBudgets(timers)
		gate     = hold.NewGate()
		uses     = volumes.NewUses()
		doors    = door.New(config.PodSecurity, config.HostRoot, config.Full)
		gangs    = gang.New(capacity, config.Settings, doors)

		podRecords = newPodRecords(config.Workers, config.Aside)
		resizes    = newResizes(timers, capacity, podRecords)
		queue      = newQueue(podRecords, capacity, config.NodeName, uses, resizes, config.Aside, config.Fair)
		jobRecords = newJobRecords(config.Aside, notes, queue)
		claims     = volumes.New(timers, config.volumes(), uses, doors, waitingPods{podRecords, queue})

		pods      = newPods(timers, followers, podRecords, jobRecords, queue, notes, ledger, budgets, config.Logs)
		jobs      = newJobs(timers, followers, jobRecords, config.Settings, doors, pods, gangs, ledger, gate, config.Logs)
		cronJobs  = cronjobs.New(timers, jobs, notes, doors)
		teller    = notices.NewTeller(timers, config.Receivers)
		jobSets   = jobsets.New(timers, followers, jobs, claims, gangs, notes, doors, teller, ledger)
		holds     = hold.New(timers, jobs, jobSets, gate)
		objects   = &kinds.Kinds{Pods: pods, Jobs: jobs, CronJobs: cronJobs, Claims: claims}
		garbage   = gc.New(notes, objects, jobRecords)
		tended    = tendedPods{podRecords, pods}
		files     = tend.NewFiles(tended)
		taints    = tend.NewTaints(timers, tended)
		admission = newAdmission(timers, followers, queue, config, &c.goesDown, podRecords, pods, gangs)
	)
	c.records = records{jobRecords, podRecords, queue, uses, ledger, holds}

	all := []loop.Controller{
		upkeep.NewNodeObject(upkeep.NodeOptions{
			Name: config.NodeName, Self: config.Node, Allocatable: config.Allocatable,
			Devices: config.Devices, Changed: &c.devicesChanged,
		}, capacity, taints),
		upkeep.NewNodeLease(timers, config.NodeName), // before the rest: it must not wait while there is much to do
		namespace.NewFurnisher(config.RootCA),
		files,
		pods,
		garbage.Dependents(),
		garbage.OwnerCheck(),
		jobs,
		holds,
		&windows{jobs: jobRecords},
		cronJobs,
		jobSets,
		garbage.Deletions(),
		namespace.NewEmptier(timers, objects, config.Logs),
		claims,
		taints,
		admission,

		// Nothing in the same pass waits for what these decide.
		resizes,
		gangs,
		tend.NewTokenRenewal(timers, files, tended),
		tend.NewDiskLimits(timers, tended, config.Workers.MeasureInterval),
		budgets,
		upkeep.NewJobTTL(timers, jobs, config.Settings.TTL),
		upkeep.NewOverflow(timers, jobs),
		ledger,
		upkeep.NewClusterRoles(),
		upkeep.NewTokenSecrets(config.Tokens, config.RootCA, objects),
		upkeep.NewSweep(timers),
		notices.NewExpectations(timers, teller),
		&epoch{control: c},
	}
	if config.MultiKueue {
		all = append(all, workloads.New(timers, jobs, capacity))
	}
	if config.Fair != nil {
		all = append(all, upkeep.NewShares(timers, capacity))
	}
	return append(all, teller)
}

// capacity returns what this machine offers to pods, before any pod uses it.
func (c *Config) capacity() *node.Node {
	n := node.New(c.MaxPods, c.Allocatable)
	n.StarvationAfter = c.StarvationAfter
	if c.Fair != nil {
		n.ShareFairly(c.Fair.HalfLife)
	}
	described := &corev1.Node{}
	described.Labels = c.NodeLabels
	n.Describe(described)
	return n
}

// gpus returns what says what pods have had of GPUs; nil if nobody does.
func (c *Config) gpus() func(*corev1.Pod) history.GPUs {
	if c.DeviceUses == nil {
		return nil
	}
	return c.DeviceUses.Of
}

// volumes returns where volumes are made.
func (c *Config) volumes() volumes.Options {
	return volumes.Options{
		Worker: c.Volumes, NodeName: c.NodeName, NodeLabels: c.NodeLabels, UnknownClassWaits: c.UnknownStorageClassWaits,
	}
}

// Shares returns what everybody has used, the one that comes first in front; nil if the queue is not ordered by that.
func (c *Control) Shares(ctx context.Context) (all []fairness.Account, err error) {
	if c.config.Fair == nil {
		return nil, nil
	}
	err = c.loop.Ask(ctx, func() { all = c.records.queue.capacity.Accounts(c.now()) })
	return all, err
}

func (c *Control) now() time.Time {
	if c.config.Clock != nil {
		return c.config.Clock()
	}
	return time.Now()
}
