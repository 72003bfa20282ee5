// Package controltest is a world to test concerns of the control loop in: the loop over a real store and simulated
// containers. In a bubble of testing/synctest it runs in virtual time.
package controltest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/daemon/sandbox"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// World is a loop over a real store and simulated containers, in virtual time.
type World struct {
	T       testing.TB
	Path    string // of the database
	Store   *store.Store
	Control *control.Control
	Inbox   *loop.Inbox
	Runtime *simulated.Runtime
	Metrics *metrics.Metrics
	Aside   *aside.List // read anew at each start
	// Config is what the loop was started with.
	Config control.Config
	// Stop ends the loop as an orderly end of the daemon does, and closes the store.
	Stop func()

	// What follows applies from the next Start on.
	Gangs       bool // Settings.WorkloadWithJob
	TTL         job.TTL
	Clock       func() time.Time
	Self        *corev1.Node
	Devices     func() corev1.ResourceList
	MaxPods     int
	Allocatable requests.Resources // nil: any
	// StarvationAfter is 0 for never.
	StarvationAfter time.Duration
	Fair            *fairness.Policy
	Steps           []worker.Step
	Volumes         provision.Volumes // nil: simulated ones
	Authority       string
	Receivers       notify.Receivers
	Occupied        func(bool)
	MultiKueue      bool
	Full            func(namespace string) error // nil: no disk is full
	// Between puts something between the workers and the runtime; nil: nothing.
	Between func(runtime.Runtime) runtime.Runtime
	// HistoryBytes is how much the store keeps of what was superseded; 0 for as much as usual.
	HistoryBytes int64
	// Reserve is disk space that the store holds beside what it uses; 0 for none.
	Reserve int64

	key *ecdsa.PrivateKey // of tokens
}

// New starts a world with nothing but the namespace default. End has to be called.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{
		T: t, Path: filepath.Join(t.TempDir(), "jobd.db"), Runtime: simulated.New(), Clock: time.Now, MaxPods: 1000,
		Authority: "one authority",
	}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.Write(func(tx *store.Tx) error {
		ns := &corev1.Namespace{}
		ns.Name = "default"
		value, err := scheme.Encode(ns)
		tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", "default"), Value: value})
		return err
	})
	return w
}

// Start starts the loop, which recovers what the last one has left.
func (w *World) Start() {
	w.T.Helper()
	if err := w.TryStart(); err != nil {
		w.T.Fatal(err)
	}
}

// TryStart is Start, for those who can do without: of a daemon that did not start nothing is left.
func (w *World) TryStart() error {
	w.T.Helper()
	var err error
	if w.Store, err = store.Open(w.Path, store.Options{NoSync: true, HistoryBytes: w.HistoryBytes, Reserve: w.Reserve}); err != nil {
		return err
	}
	w.Inbox = loop.NewInbox()
	logger, name := slog.New(slog.DiscardHandler), "test"
	if w.Self != nil {
		name = w.Self.Name
	}
	var below runtime.Runtime = w.Runtime
	if w.Between != nil {
		below = w.Between(below)
	}
	workers := worker.New(worker.Config{
		Runtime: below, Images: w.Runtime, Spec: sandbox.SimulatedSpecs{}, Steps: w.Steps, Report: w.Inbox.Report, Logger: logger,
	})
	if w.Volumes == nil {
		w.Volumes = provision.Simulated{}
	}
	volumes := provision.New(w.Volumes, w.Inbox.Nudge)
	if w.Aside, err = aside.Open(w.Path+".aside", "v1"); err != nil {
		w.T.Fatal(err)
	}
	w.Metrics = metrics.New(w.Store)
	w.Config = control.Config{
		Aside:   w.Aside,
		Volumes: volumes,
		Store:   w.Store, Inbox: w.Inbox, Workers: workers, Logs: noLogs{},
		Settings:    job.Settings{BackoffBase: 10 * time.Second, BackoffCap: 6 * time.Minute, WorkloadWithJob: w.Gangs, TTL: w.TTL},
		PodSecurity: w.security(), Full: w.Full, MaxPods: w.MaxPods, Allocatable: w.Allocatable, StarvationAfter: w.StarvationAfter, Fair: w.Fair,
		NodeName: name, NodeIP: "127.0.0.1", NodeLabels: HostLabels, Node: w.Self, Devices: w.Devices,
		Epoch:     "one",
		RootCA:    []byte(w.Authority),
		Tokens:    w.Tokens(),
		Receivers: w.Receivers, Occupied: w.Occupied, MultiKueue: w.MultiKueue,
		History: history.Limits{Age: 1000 * time.Hour, Size: 1 << 20},
		Events:  events.New("test"), EventTTL: time.Hour, Metrics: w.Metrics, Logger: logger, Clock: func() time.Time { return w.Clock() },
	}
	w.Control = control.New(w.Config)
	if err := w.Control.Recover(w.T.Context()); err != nil {
		workers.Close()
		volumes.Close()
		return errors.Join(err, w.Store.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Control.Run(ctx) }()
	w.Stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.T.Error(err)
		}
		workers.Close()
		volumes.Close()
		if err := w.Store.Check(); err != nil {
			w.T.Error(err)
		}
		if err := w.Store.Close(); err != nil {
			w.T.Error(err)
		}
	}
	return nil
}

// Tokens returns what issues and verifies tokens, as the API server has it.
func (w *World) Tokens() *tokens.Tokens {
	w.T.Helper()
	issuer, err := tokens.New(w.key, w.Store)
	if err != nil {
		w.T.Fatal(err)
	}
	return issuer
}

// security returns the policy of a daemon without settings for it.
func (w *World) security() *podsecurity.Policy {
	w.T.Helper()
	policy, err := podsecurity.New(podsecurity.Configuration{})
	if err != nil {
		w.T.Fatal(err)
	}
	return policy
}

// HostLabels are those of the node.
var HostLabels = host.Host{Name: "test"}.Labels()

// noLogs keeps no logs.
type noLogs struct{}

func (noLogs) PodGone(*corev1.Pod)  {}
func (noLogs) JobGone(types.UID)    {}
func (noLogs) NamespaceGone(string) {}

// End ends the world.
func (w *World) End() {
	w.Stop()
	w.Runtime.Close()
}

// Write writes to the store as the API does.
func (w *World) Write(fn func(*store.Tx) error) {
	w.T.Helper()
	if err := w.Store.Update(w.T.Context(), fn); err != nil {
		w.T.Fatal(err)
	}
}
