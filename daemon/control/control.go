// Package control holds the concerns of the control loop: a file each, the larger ones a few, found in one list
// (Control.controllers).
//
// Changes of the store, observations of workers and the time come in through daemon/loop. The decisions are those of
// daemon/job, daemon/pod, daemon/node, daemon/cron and daemon/ttl, which are pure; here they get what they decide from, and
// are carried out: objects are written in the loop's passes, and actions handed to the workers of pods once that is durable.
package control

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/gang"
	"github.com/jobd/jobd/daemon/gc"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/namespace"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/worker"
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

	// Settings are those of decisions about Jobs.
	Settings job.Settings
	// MaxPods is how many pods may be on the node at once, Allocatable what they may ask for together; nil is anything.
	MaxPods     int
	Allocatable node.Resources
	// NodeName and NodeIP are what pods are bound to, NodeLabels what they select it by until its object says more.
	NodeName, NodeIP string
	NodeLabels       map[string]string
	// Node is the node's object as it should be; nil for none.
	Node *corev1.Node
	// RootCA is what the API's certificate is verified with, in PEM; empty where there is none.
	RootCA []byte
	// Epoch is the name of the time for which containers last: no longer than the host runs.
	Epoch string

	// Events bounds the events, which are removed EventTTL after they were last seen.
	Events   *events.Recorder
	EventTTL time.Duration
	Metrics  *metrics.Metrics
	Logger   *slog.Logger
	// Clock is the wall clock, which may be set at any time; nil is that of the machine.
	Clock func() time.Time
}

// Logs are what the containers of pods have written. Neither method may wait for anything.
type Logs interface {
	// PodGone says that a pod's object is gone.
	PodGone(*corev1.Pod)
	// JobGone says that a Job's object is gone.
	JobGone(types.UID)
}

// Control is the daemon's control loop.
type Control struct {
	config Config
	loop   *loop.Loop
	// newEpoch is the epoch if the store does not know of it yet: it is written with what the change has ended.
	newEpoch string

	// Those that Recover and Count ask. They are made anew when a pass was lost, and are the loop's own while it runs.
	jobs      *jobController
	pods      *podController
	admission *admission
}

// New makes the control loop. It does nothing before Recover and Run.
func New(c Config) *Control {
	control := &Control{config: c}
	control.loop = loop.New(loop.Config{
		Store: c.Store, Inbox: c.Inbox, Controllers: control.controllers,
		Events: c.Events, EventTTL: c.EventTTL, Metrics: c.Metrics, Logger: c.Logger, Clock: c.Clock,
	})
	return control
}

// Run controls until ctx ends. It returns nil then, and an error when the store is of no use any more.
func (c *Control) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// controllers makes the concerns of the loop, in the order in which they decide: what has become of pods is known before
// decisions about Jobs are taken, and all that follows from those before waiting pods are admitted. They read their
// records in the reverse order: what others belong to comes first.
func (c *Control) controllers(timers *loop.Timers) []loop.Controller {
	var (
		config    = &c.config
		capacity  = config.capacity()
		pods      = newPodController(timers, config.Workers, config.Logs)
		jobs      = newJobController(timers, config.Settings, config.Logs)
		cronJobs  = newCronJobController(timers)
		gangs     = gang.New(capacity, config.Settings)
		admission = newAdmission(timers, capacity, config.NodeName, config.NodeIP)
		taints    = newTaints(timers)
		files     = newFiles(pods)
		tokens    = newTokens(timers, files)
		disk      = newDiskLimits(timers, pods)
		ttl       = newTTL(timers, jobs)
		kinds     = &kinds{pods, jobs, cronJobs}
		garbage   = gc.New(kinds, jobs)
	)
	// Pods, Jobs and CronJobs follow each other, so that none of them can be complete before the others.
	pods.jobs, pods.admission, pods.garbage = jobs, admission, garbage
	pods.followers = []podFollower{files, tokens, disk, taints}
	jobs.pods, jobs.cronJobs, jobs.gangs, jobs.ttl, jobs.garbage = pods, cronJobs, gangs, ttl, garbage
	cronJobs.jobs, cronJobs.garbage = jobs, garbage
	admission.pods, admission.gangs = pods, gangs
	taints.pods = pods
	c.jobs, c.pods, c.admission = jobs, pods, admission

	return []loop.Controller{
		newNodeObject(config.Node, config.NodeName, capacity, taints),
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
		taints,
		admission,

		// These decide nothing that others wait for in the same pass.
		gangs,
		tokens,
		disk,
		ttl,
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
