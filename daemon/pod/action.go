package pod

import (
	"slices"
	"syscall"
	"time"

	"github.com/jobd/jobd/daemon/duty"
)

// Issued records which actions the worker of one pod was given since the daemon started, and which launches have failed
// since. It is the only state outside the pod's status, and may be lost at any time together with the workers: then the
// actions are asked for again. The zero value is ready for use. It is small, because very many pods run at a time: what
// a pod that simply runs does not need lies behind a pointer.
type Issued struct {
	open     *unsettled // nil: the zero value; see look and change
	tornDown bool
	// pause says that the pod is to be paused.
	pause bool
	// filesDropped says that the files of the pod are not kept any longer after its end.
	filesDropped bool
}

// unsettled is what is under way in a pod.
type unsettled struct {
	// containers are those of which something is left to be remembered: not those that simply run.
	containers []issued
	resize     *resizing  // nil: the zero value
	end        *issuedEnd // nil unless the pod is to end
	signal     *signaling // nil: the zero value
	pausing    *pausing   // nil: the zero value
	// hostStays says that the pod, which ends because its machine went down, goes on once nothing of it runs.
	hostStays bool
}

// settled is what is under way in most pods. It is never written.
var settled unsettled

// look returns what is under way in the pod, which must not be changed.
func (i *Issued) look() *unsettled {
	if i.open == nil {
		return &settled
	}
	return i.open
}

// change returns what is under way in the pod, to be changed.
func (i *Issued) change() *unsettled {
	if i.open == nil {
		i.open = &unsettled{}
	}
	return i.open
}

// issuedEnd says that the pod is to end, within grace. cut is when somebody made that time shorter, zero if nobody has.
type issuedEnd struct {
	grace   time.Duration
	cut     time.Time
	earlier bool // an earlier daemon has begun to end it
	// within bounds the time since the machine goes down; 0: it does not.
	within time.Duration
}

// issued is what was asked for one container.
type issued struct {
	name     string
	launched int               // newest attempt that was given to the worker, plus one
	held     *duty.Observation // the next attempt, if the runtime holds it from an earlier daemon
	failed   int               // launches of it that failed in a row
	failedAt time.Time
	failedOf string    // the volume whose image could not be had; empty if it was something else
	image    string    // of the last one that failed
	stopping time.Time // when the first Stop was given, or the first one after cut
	killed   time.Time // when the last SIGKILL was given
	hooking  time.Time // when the RunPreStop was given
	hooked   time.Time // when the preStop hook was over
	// announced is the attempt whose stop was announced in an event, plus one.
	announced int
	// unhealthy is the attempt that is to end because of failedCheck, plus one; failure says how that has failed.
	unhealthy   int
	failedCheck duty.Check
	failure     string
}

// stopAnew forgets what was done to end the container.
func (i *issued) stopAnew() {
	i.stopping, i.killed, i.hooking, i.hooked = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// Record notes that the actions were given to the pod's worker. The loop calls it once they are committed.
func (i *Issued) Record(actions []duty.Action, now time.Time) {
	for _, a := range actions {
		if a.Kind == duty.TearDown {
			i.tornDown = true
			continue
		}
		if a.Kind == duty.Resize {
			i.resizing().underWay = true
			continue
		}
		if a.Kind == duty.Pause || a.Kind == duty.Continue {
			*i.pausing() = pausing{asked: a.Kind}
			continue
		}
		if a.Kind == duty.SendSignal {
			i.signaling().asked = true
			continue
		}
		c := i.of(a.Container)
		switch {
		case a.Kind == duty.Launch:
			c.launched = a.Attempt + 1
			c.stopAnew()
		case a.Kind == duty.RunPreStop:
			c.hooking = now
		case a.Signal == syscall.SIGKILL:
			c.killed = now
			fallthrough
		default:
			if c.stopping.IsZero() || c.stopping.Before(i.cut()) {
				c.stopping = now
			}
		}
	}
}

// Retry ends the back-off of launches that have failed: what they lacked may be there now.
func (i *Issued) Retry() {
	containers := i.look().containers
	for n := range containers {
		containers[n].failed, containers[n].failedAt = 0, time.Time{}
	}
}

// of returns the entry of a container, a new one if there is none.
func (i *Issued) of(name string) *issued {
	if c := i.find(name); c != nil {
		return c
	}
	open := i.change()
	open.containers = append(open.containers, issued{name: name})
	return &open.containers[len(open.containers)-1]
}

// started forgets the launch of a main container: the pod's status now says everything about it.
func (i *Issued) started(name string) {
	if i.open == nil {
		return
	}
	if c := i.find(name); c != nil {
		c.held = nil
	}
	i.open.containers = slices.DeleteFunc(i.open.containers, func(c issued) bool {
		return c == issued{name: name, launched: c.launched}
	})
	if len(i.open.containers) == 0 && i.open.resize == nil && i.open.end == nil && i.open.signal == nil && i.open.pausing == nil && !i.open.hostStays {
		i.open = nil
	}
}

// find returns the entry of a container or nil.
func (i *Issued) find(name string) *issued {
	containers := i.look().containers
	for n := range containers {
		if containers[n].name == name {
			return &containers[n]
		}
	}
	return nil
}
