// Package control holds the concerns of the control loop: each in a file, the larger ones in a few, all in one list
// (Control.controllers).
//
// Changes of the store, observations of workers and the time come in through daemon/loop. Decisions are taken by the
// pure packages daemon/job, daemon/pod, daemon/node, daemon/cron and daemon/ttl. This package gives them their input
// and carries out what they decide: it writes objects in the loop's passes, and hands actions to the workers of pods
// once the pass is durable.
package control

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/gang"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/namespace"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/store"
	"github.com/jobd/jobd/watchdog"
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
	// MaxPods is how many pods may be on the node at once, Allocatable what they may request together; nil means no
	// limit.
	MaxPods     int
	Allocatable node.Resources
	// NodeName and NodeIP are written into pods that are bound. NodeLabels are what pods select the node by until its
	// stored object says more.
	NodeName, NodeIP string
	NodeLabels       map[string]string
	// Node is the node's object as it should be, without devices; nil if there is none.
	Node *corev1.Node
	// Devices returns how many devices of each kind there are now (DevicesChanged). It may be called at any time; nil
	// means that there are none.
	Devices func() corev1.ResourceList
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

	// History bounds what is kept of Jobs that have ended.
	History history.Limits

	// Watch is told what the loop is at work on, and Aside knows what it leaves alone. Both may be nil.
	Watch *watchdog.Section
	Aside *aside.List

	// Events limits the rate of events; each is removed EventTTL after it was last seen.
	Events   *events.Recorder
	EventTTL time.Duration
	Metrics  *metrics.Metrics
	Logger   *slog.Logger
	// Clock is the wall clock, which may be set at any time; nil means that of the machine.
	Clock func() time.Time
}

// Logs are the logs of pods. Neither method may block.
type Logs interface {
	// PodGone reports that a pod's object is gone.
	PodGone(*corev1.Pod)
	// JobGone reports that a Job's object is gone.
	JobGone(types.UID)
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

	// The controllers that Recover and Count use. They are made anew when a pass was lost, and belong to the loop while
	// it runs.
	jobs      *jobs
	pods      *pods
	admission *admission
	accounts  *accounts
}

// New makes the control loop. It does nothing before Recover and Run.
func New(c Config) *Control {
	control := &Control{config: c}
	control.loop = loop.New(loop.Config{
		Store: c.Store, Inbox: c.Inbox, Controllers: control.controllers,
		Events: c.Events, EventTTL: c.EventTTL, Metrics: c.Metrics, Logger: c.Logger, Clock: c.Clock,
		Watch: c.Watch, Aside: c.Aside,
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

// Run runs the loop until ctx ends, and then returns nil. It returns an error when the store is unusable.
func (c *Control) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// controllers makes the concerns of the loop, in the order in which they decide: what has become of pods is known
// before decisions about Jobs are taken, and all that follows from those before waiting pods are admitted. They read
// their records in the reverse order: owners come first.
func (c *Control) controllers(timers *loop.Timers) []loop.Controller {
	var (
		config    = &c.config
		capacity  = config.capacity()
		pods      = newPods(timers, config.Workers, config.Logs)
		jobs      = newJobs(timers, config.Settings, config.Logs)
		cronJobs  = newCronJobs(timers)
		gangs     = gang.New(capacity, config.Settings)
		admission = newAdmission(timers, capacity, config)
		claims    = newClaims(timers, config, pods, admission)
		taints    = newTaints(timers)
		files     = newFiles(pods)
		tokens    = newTokenRenewal(timers, files, pods)
		disk      = newDiskLimits(timers, pods)
		ttl       = newJobTTL(timers, jobs)
		accounts  = newAccounts(timers, config.History)
		budgets   = newBudgets(timers)
		kinds     = &kinds{pods, jobs, cronJobs, claims}
		garbage   = gc.New(kinds, jobs)
	)
	// Pods, Jobs and CronJobs follow each other, so none of them can be made complete before the others.
	pods.jobs, pods.admission, pods.garbage = jobs, admission, garbage
	pods.followers = []podFollower{files, tokens, disk, taints, claims, accounts}
	pods.accounts, jobs.accounts, pods.budgets = accounts, accounts, budgets
	jobs.pods, jobs.cronJobs, jobs.gangs, jobs.ttl, jobs.garbage = pods, cronJobs, gangs, ttl, garbage
	jobs.security, jobs.aside, pods.aside, admission.aside = config.PodSecurity, config.Aside, config.Aside, config.Aside
	cronJobs.jobs, cronJobs.garbage = jobs, garbage
	admission.pods, admission.gangs, admission.claims = pods, gangs, claims
	taints.pods = pods
	c.jobs, c.pods, c.admission, c.accounts = jobs, pods, admission, accounts

	return []loop.Controller{
		newNodeObject(config, capacity, taints, &c.devicesChanged),
		newNodeLease(timers, config.NodeName), // before the rest: it must not wait while there is much to do
		namespace.NewFurnisher(config.RootCA),
		files,
		pods,
		garbage.Dependents(),
		garbage.OwnerCheck(),
		jobs,
		cronJobs,
		garbage.Deletions(),
		namespace.NewEmptier(timers, kinds),
		claims,
		taints,
		admission,

		// Nothing in the same pass waits for what these decide.
		gangs,
		tokens,
		disk,
		budgets,
		ttl,
		accounts,
		&clusterRoles{},
		newTokenSecrets(config, kinds),
		newSweep(timers),
		&epoch{control: c},
	}
}

// capacity returns what this machine offers to pods, before any pod uses it.
func (c *Config) capacity() *node.Node {
	n := node.New(c.MaxPods, c.Allocatable)
	described := &corev1.Node{}
	described.Labels = c.NodeLabels
	n.Describe(described)
	return n
}
