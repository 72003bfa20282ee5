// Package duty is what is between a pod and its worker: what the worker is asked to do (Action), and what it and the runtime report of
// that (Observation). Package pod decides on the one by the other, package worker does the one and says the other.
//
// These are values without anything behind them.
package duty

import (
	"syscall"
	"time"
)

// Kind is what a worker is to do.
type Kind string

const (
	// Launch starts attempt Attempt of Container: it takes the set-up steps if that was not done, ensures the image,
	// builds the spec and starts the container. The container of the attempt before is removed, since its end is stored
	// by then.
	Launch Kind = "Launch"
	// RunPreStop runs the preStop hook of a container whose signal comes later: that of a sidecar, whose turn to end comes
	// after the main containers.
	RunPreStop Kind = "RunPreStop"
	// Stop runs the preStop hook if Grace is not 0, and then sends Signal to the container. A launch that has not reached
	// the runtime yet is called off instead, and a hook that runs already is.
	Stop Kind = "Stop"
	// TearDown removes the pod's containers, running ones too, and undoes its set-up steps in reverse.
	TearDown Kind = "TearDown"
	// Refresh brings what was set up for the pod up to date: the files of ConfigMaps, Secrets and tokens.
	Refresh Kind = "Refresh"
	// Resize gives the running containers the resources that the pod has now, except for those that have to be restarted
	// for it.
	Resize Kind = "Resize"
	// SendSignal sends Signal to the first processes of the containers that Signals returns for Due, once.
	SendSignal Kind = "SendSignal"
	// Pause freezes the containers of the pod, also one whose launch was queued before, and stops their probes.
	Pause Kind = "Pause"
	// Continue lets them go on.
	Continue Kind = "Continue"
	// Measure finds out whether the pod takes more than it may, or keeps more once it has ended.
	Measure Kind = "Measure"
)

// Action is one effect for a worker. Actions are idempotent.
type Action struct {
	Kind      Kind
	Container string // not for TearDown and Resize
	Attempt   int
	// Signal is that of a Stop: SIGKILL is sent to all processes of the container, any other to the first one.
	Signal syscall.Signal
	// Grace is how long the preStop hook of a RunPreStop or Stop may take; 0 is that none is run.
	Grace time.Duration
	// Due is when a SendSignal was due.
	Due time.Time
	// Ends says that the whole pod ends: its liveness and startup probes stop, while its readiness probes go on.
	Ends bool
}
