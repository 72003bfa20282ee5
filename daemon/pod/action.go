package pod

import (
	"syscall"
	"time"
)

// Kind says what a worker is to do.
type Kind string

const (
	// Launch starts attempt Attempt of Container: set-up steps if they were not done, image, spec, start. The
	// container of the attempt before is removed, since its end is stored by then.
	Launch Kind = "Launch"
	// Stop sends Signal to the container. A launch that has not reached the runtime is called off instead.
	Stop Kind = "Stop"
	// TearDown removes the pod's containers, running ones too, and undoes its set-up steps in reverse.
	TearDown Kind = "TearDown"
	// Refresh brings what was set up for the pod up to date with what it is made of.
	Refresh Kind = "Refresh"
	// Measure finds out whether the pod takes more than it may.
	Measure Kind = "Measure"
)

// Action is one effect for a worker. Taking it twice does no harm.
type Action struct {
	Kind      Kind
	Container string // not for TearDown
	Attempt   int
	// Signal of a Stop: SIGKILL goes to all processes of the container, any other to the first one.
	Signal syscall.Signal
	// Grace of a Stop bounds the hook before it (lifecycle.preStop).
	Grace time.Duration
}

// Issued remembers of one pod which actions its worker was given since the daemon started, and which launches have
// failed since. It is the only state outside pod.Status, and may be lost at any time together with the workers: then
// the actions are asked for again. The zero value is ready.
type Issued struct {
	containers []issued
	tornDown   bool
}

// issued is what was asked for one container.
type issued struct {
	name     string
	launched int // newest attempt that was given to the worker, plus one
	failed   int // launches of it that failed in a row
	failedAt time.Time
	stopping time.Time // when the first Stop was given
	killed   time.Time // when the last SIGKILL was given
	// unhealthy is the attempt that is to end because of failedCheck, plus one.
	unhealthy   int
	failedCheck Check
}

// Record notes that the actions were given to the pod's worker. The loop calls it once they are committed.
func (i *Issued) Record(actions []Action, now time.Time) {
	for _, a := range actions {
		if a.Kind == TearDown {
			i.tornDown = true
			continue
		}
		c := i.of(a.Container)
		switch {
		case a.Kind == Launch:
			c.launched = a.Attempt + 1
			c.stopping, c.killed = time.Time{}, time.Time{}
		case a.Signal == syscall.SIGKILL:
			c.killed = now
			fallthrough
		default:
			if c.stopping.IsZero() {
				c.stopping = now
			}
		}
	}
}

// Retry lets launches that have failed be asked for at once: what they failed for may be there now.
func (i *Issued) Retry() {
	for n := range i.containers {
		i.containers[n].failed, i.containers[n].failedAt = 0, time.Time{}
	}
}

// of gives the entry of a container, and makes it where there is none.
func (i *Issued) of(name string) *issued {
	if c := i.find(name); c != nil {
		return c
	}
	i.containers = append(i.containers, issued{name: name})
	return &i.containers[len(i.containers)-1]
}

// find gives the entry of a container or nil.
func (i *Issued) find(name string) *issued {
	for n := range i.containers {
		if i.containers[n].name == name {
			return &i.containers[n]
		}
	}
	return nil
}
