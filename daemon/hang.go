package daemon

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/internal/watchdog"
	"github.com/jobd/jobd/runtime/crash"
)

// Exit codes of a daemon that ends without having stopped its parts. Containers go on, and the next start is a recovery,
// as after kill -9.
const (
	// exitHung is that of a daemon whose work has not gone on, see package watchdog, or has met a fault.
	exitHung = 70
	// exitForced is that of a daemon that was told to end, and did not within stopTimeout.
	exitForced = 71
)

// stopTimeout is how long a daemon that was told to end may take for it. It is longer than its parts should take, and
// shorter than systemd waits.
const stopTimeout = 40 * time.Second

const (
	// lastWordsTime is how long a daemon that hangs may take to say so: the disk or its log may hang as well.
	lastWordsTime = 10 * time.Second
	// stacksLogged and stackBytes bound the stacks that are logged then.
	stacksLogged = 200
	stackBytes   = 4 << 10
)

// sections are the work that is watched.
type sections struct{ loop, database, network *watchdog.Section }

const (
	loopSection     = "control-loop"
	databaseSection = "database"
	networkSection  = "network"
)

// watch begins to watch over the work of the daemon, and returns what ends that.
func (d *daemon) watch() (stop func()) {
	limits := watchdog.DefaultLimits()
	limits.Tick = crash.Duration("JOBD_WATCHDOG_TICK", limits.Tick)
	limits.Slow = crash.Duration("JOBD_WATCHDOG_SLOW", limits.Slow)
	limits.Hung = crash.Duration("JOBD_WATCHDOG_HUNG", limits.Hung)
	w := watchdog.New(watchdog.Options{Limits: limits, Logger: d.config.Logger, Hung: d.hung, Alive: d.config.Alive})
	d.watchdog = w
	d.sections = sections{
		loop:     w.Section(loopSection, "a pass", "daemon/loop.(*Loop).turn", "daemon/loop.(*Loop).Rebuild", "daemon/loop.(*Loop).answerTo"),
		database: w.Section(databaseSection, "a transaction of the database", "store.(*request).call", "store.(*Store).writeGroup"),
	}
	if d.config.Runtime != "simulated" {
		d.sections.network = w.Section(networkSection, "the lock of the network", "runtime/network.(*Network)")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	return func() { cancel(); <-done }
}

// hung sets aside what was at work, says what hangs, and ends the process.
func (d *daemon) hung(verdicts []watchdog.Verdict) {
	d.last(func() {
		if h, ok := attribute(verdicts); ok {
			d.setAside(h)
		}
		for _, v := range verdicts {
			d.config.Logger.Error(v.String(), "section", v.Section, "concern", v.Concern, "object", v.Object)
		}
		d.logStacks()
		d.config.Logger.Error("jobd hangs and ends itself; containers go on", "exit code", exitHung)
	})
	d.exit(exitHung)
}

// panicked sets aside what was at work, says what has happened, and ends the process. The object is empty if it is not known.
func (d *daemon) panicked(concern, object string, reason any) {
	stack := debug.Stack()
	d.last(func() {
		if strings.Contains(object, "/") {
			d.setAside(aside.Hang{Concern: concern, Key: object})
		}
		d.config.Logger.Error("jobd has met a fault of its own and ends itself; containers go on", "fault", fmt.Sprintf("%.500v", reason),
			"concern", concern, "object", object, "stack", string(stack[:min(len(stack), stackBytes)]), "exit code", exitHung)
	})
	d.exit(exitHung)
}

// setAside notes that the next start is to leave an object alone.
func (d *daemon) setAside(h aside.Hang) {
	if unstored := d.unstored.Load(); unstored != nil {
		h.Unstored = (*unstored)(h.Key)
	}
	h.At = time.Now()
	if err := d.aside.Hang(h); err != nil {
		d.config.Logger.Error("cannot note that an object is set aside", "object", h.Key, "error", err)
		return
	}
	d.config.Logger.Error("the next start leaves an object alone, since jobd broke down on it", "object", h.Key, "concern", h.Concern)
}

// attribute returns on what the control loop or the lock of the network was at work, if one of them hangs or may be what
// others wait for.
func attribute(verdicts []watchdog.Verdict) (h aside.Hang, ok bool) {
	for _, v := range verdicts {
		switch {
		case !strings.Contains(v.Object, "/"):
		case v.Section == loopSection:
			return aside.Hang{Concern: v.Concern, Key: v.Object}, true
		case v.Section == networkSection && v.Health == watchdog.Hung:
			h, ok = aside.Hang{Concern: "pods", Key: v.Object}, true
		}
	}
	return h, ok
}

// boundStop ends the process if it was told to end, and has not within stopTimeout. It returns what calls that off.
func (d *daemon) boundStop(ctx context.Context) (stopped func()) {
	done := make(chan struct{})
	limit := crash.Duration("JOBD_STOP_TIMEOUT", stopTimeout)
	go func() {
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		select {
		case <-time.After(limit):
		case <-done:
			return
		}
		d.last(func() {
			for _, section := range d.watchdog.Sections() {
				if err := d.watchdog.Ready(section); err != nil {
					d.config.Logger.Error(err.Error(), "section", section)
				}
			}
			d.logStacks()
			d.config.Logger.Error("jobd was told to end, and a part of it does not: it ends by force; containers go on",
				"part", *d.ending.Load(), "after", limit, "exit code", exitForced)
		})
		d.exit(exitForced)
	}()
	return func() { close(done) }
}

// waitsFor notes what the end of the daemon waits for.
func (d *daemon) waitsFor(what string) { d.ending.Store(&what) }

// last does what is to be done before the process ends, but does not wait for it for long.
func (d *daemon) last(do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(lastWordsTime):
	}
}

func (d *daemon) exit(code int) {
	if d.config.Exit != nil {
		d.config.Exit(code)
	}
	os.Exit(code)
}

// logStacks logs the stacks of all goroutines, within bounds.
func (d *daemon) logStacks() {
	stacks := watchdog.Stacks()
	for _, s := range stacks[:min(len(stacks), stacksLogged)] {
		d.config.Logger.Error("goroutine", "stack", s[:min(len(s), stackBytes)])
	}
	if n := len(stacks) - stacksLogged; n > 0 {
		d.config.Logger.Error(fmt.Sprintf("%d more goroutines are not shown", n))
	}
}

// nameOf returns the name of a function.
func nameOf(f any) string {
	return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
}
