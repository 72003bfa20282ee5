package daemon

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/watchdog"
)

// Exit codes of a daemon that ends without having stopped its parts. Containers go on, and the next start is a recovery,
// as after kill -9.
const (
	// ExitHung is that of a daemon whose work has not gone on, see package watchdog.
	ExitHung = 70
	// ExitForced is that of a daemon that was told to end, and did not within StopTimeout.
	ExitForced = 71
)

// StopTimeout is how long a daemon that was told to end may take for it. It is longer than its parts should take, and
// shorter than systemd waits.
const StopTimeout = 40 * time.Second

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
	w := watchdog.New(watchdog.Options{Limits: limits, Logger: d.config.Logger, Hung: d.hung})
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
			if unstored := d.unstored.Load(); unstored != nil {
				h.Unstored = (*unstored)(h.Key)
			}
			h.At = time.Now()
			if err := d.aside.Hang(h); err != nil {
				d.config.Logger.Error("cannot note that an object is set aside", "object", h.Key, "error", err)
			} else {
				d.config.Logger.Error("the next start leaves an object alone, since jobd hangs on it", "object", h.Key, "concern", h.Concern)
			}
		}
		for _, v := range verdicts {
			d.config.Logger.Error(v.String(), "section", v.Section, "concern", v.Concern, "object", v.Object)
		}
		d.logStacks()
		d.config.Logger.Error("jobd hangs and ends itself; containers go on", "exit code", ExitHung)
	})
	d.exit(ExitHung)
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

// boundStop ends the process if it was told to end, and has not within StopTimeout. It returns what calls that off.
func (d *daemon) boundStop(ctx context.Context) (stopped func()) {
	done := make(chan struct{})
	limit := crash.Duration("JOBD_STOP_TIMEOUT", StopTimeout)
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
				"part", *d.ending.Load(), "after", limit, "exit code", ExitForced)
		})
		d.exit(ExitForced)
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
