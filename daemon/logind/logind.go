// Package logind hears from systemd, over D-Bus, that the machine goes down, and keeps it awake.
//
// Run holds a delay lock, with which systemd-logind waits for a while before it shuts the machine down, and follows its signal
// PrepareForShutdown, as a kubelet's graceful shutdown does; and on demand a block lock against sleep. Stopping asks systemd itself,
// which needs neither logind nor a bus. Where there is no systemd neither costs anything. The package knows nothing of pods.
package logind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service       = "org.freedesktop.login1"
	object        = dbus.ObjectPath("/org/freedesktop/login1")
	manager       = service + ".Manager"
	prepare       = "PrepareForShutdown"
	callTime      = 10 * time.Second // of one call of logind, which may have to be started for it
	againFirst    = time.Second      // how long after a lost connection another one is tried, twice as long each time
	againAtMost   = time.Minute
	systemdSocket = "/run/systemd/private"
)

// Options are what Run does. Its functions are called one at a time.
type Options struct {
	// GoDown is called when the machine is about to go down. logind waits until it returns, but no longer than its InhibitDelayMaxSec,
	// of 5 s unless somebody has set it. Its context ends when the shutdown is called off, or Run ends. Nil: no lock is held for that.
	GoDown func(context.Context)
	// StayUp is called when the shutdown was called off, after GoDown has returned.
	StayUp func(context.Context)
	// Awake says whether the machine is to be kept from going to sleep, also for want of anything to do, and Changed that it may say
	// something else than before. Nil: it never is.
	Awake   func() bool
	Changed <-chan struct{}
	Logger  *slog.Logger
}

// ErrAbsent is that there is no logind, or no bus to reach it over.
var ErrAbsent = errors.New("there is no systemd-logind")

// Run does what the options say until ctx ends, and then returns nil. It returns ErrAbsent if logind is not there at first; once it
// was there, a connection that is lost is made anew.
func Run(ctx context.Context, o Options) error {
	c := &client{Options: o}
	defer c.end()
	for again := againFirst; ; again = min(2*again, againAtMost) {
		met, err := c.serve(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case met:
			c.met, again = true, againFirst
		case !c.met:
			return fmt.Errorf("%w: %w", ErrAbsent, err)
		}
		o.Logger.Debug("the connection to systemd-logind is lost, and is made anew", "error", err, "after", again)
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil
		}
	}
}

// client is what Run keeps. A lock lasts until its file is closed, whatever becomes of the connection.
type client struct {
	Options
	met          bool // logind was there
	delay, awake *os.File
	callOff      context.CancelFunc // ends GoDown's context; nil: the machine does not go down
	down         chan struct{}      // closed when GoDown has returned; nil: the same
}

// serve follows logind over one connection until that is lost. It reports whether logind was there.
func (c *client) serve(ctx context.Context) (met bool, err error) {
	b, err := connect(ctx)
	if err != nil {
		return false, err
	}
	defer b.close()
	if c.GoDown != nil {
		if err := b.listen(ctx); err != nil {
			return false, err
		}
		if err := c.holdUp(ctx, b); err != nil {
			return false, err
		}
		goes, err := b.preparing(ctx)
		if err != nil {
			return false, err
		}
		if goes { // the signal may have come before it was listened for
			c.goDown(ctx)
		}
	}
	if err := c.keepAwake(ctx, b); err != nil {
		return false, err
	}
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-c.Changed:
			if err := c.keepAwake(ctx, b); err != nil {
				c.Logger.Warn("cannot keep the machine awake", "error", err)
			}
		case <-b.lost:
			return true, errClosed
		case goes := <-b.said:
			if goes {
				c.goDown(ctx)
			} else if err := c.stayUp(ctx, b); err != nil {
				return true, err
			}
		case <-c.down:
			c.down = nil
			release(&c.delay)
		}
	}
}

// holdUp takes the lock with which logind waits before it shuts the machine down.
func (c *client) holdUp(ctx context.Context, b *bus) (err error) {
	if c.delay == nil && c.callOff == nil {
		c.delay, err = b.inhibit(ctx, "shutdown", "Pods are ended in good order", "delay")
	}
	return err
}

// keepAwake takes or releases the lock against sleep.
func (c *client) keepAwake(ctx context.Context, b *bus) (err error) {
	switch awake := c.Awake != nil && c.Awake(); {
	case awake && c.awake == nil:
		c.awake, err = b.inhibit(ctx, "sleep:idle", "Pods are running", "block")
	case !awake:
		release(&c.awake)
	}
	return err
}

func release(lock **os.File) {
	if *lock != nil {
		_ = (*lock).Close()
		*lock = nil
	}
}

func (c *client) goDown(ctx context.Context) {
	if c.callOff != nil {
		return
	}
	ctx, c.callOff = context.WithCancel(ctx)
	down := make(chan struct{})
	c.down = down
	go func() {
		defer close(down)
		c.GoDown(ctx)
	}()
}

func (c *client) stayUp(ctx context.Context, b *bus) error {
	if c.callOff == nil {
		return nil
	}
	c.calledOff()
	c.StayUp(ctx)
	return c.holdUp(ctx, b)
}

// calledOff waits for the end of GoDown, which is told to return.
func (c *client) calledOff() {
	if c.callOff != nil {
		c.callOff()
		c.callOff = nil
	}
	if c.down != nil {
		<-c.down
		c.down = nil
	}
}

func (c *client) end() {
	c.calledOff()
	release(&c.delay)
	release(&c.awake)
}

// Stopping reports whether systemd is shutting the machine down. It asks over systemd's own socket, which is there for root as long
// as systemd is, or over the bus. False without systemd, or if it does not answer before ctx ends.
func Stopping(ctx context.Context) (bool, error) {
	state, err := systemState(ctx)
	return state == "stopping", err
}

const (
	systemd        = "org.freedesktop.systemd1"
	systemdObject  = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdManager = systemd + ".Manager"
	systemdState   = "SystemState"
)

func systemState(ctx context.Context) (any, error) {
	if _, err := os.Stat(systemdSocket); err != nil {
		b, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		defer b.close()
		return b.property(ctx, systemd, systemdObject, systemdManager, systemdState)
	}
	conn, err := dbus.Dial("unix:path="+systemdSocket, dbus.WithContext(ctx)) // where nobody but root and systemd are
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return nil, err
	}
	// Without Hello: there is no bus in between.
	var state dbus.Variant
	err = conn.Object(systemd, systemdObject).CallWithContext(ctx, properties+".Get", 0, systemdManager, systemdState).Store(&state)
	return state.Value(), err
}
