package logind_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/jobd/jobd/daemon/logind"
	"github.com/jobd/jobd/daemon/logind/logindtest"
)

// until waits until the locks are those.
func until(t *testing.T, bus *logindtest.Bus, want ...string) {
	t.Helper()
	var held []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if held = bus.Locks(); slices.Equal(held, want) {
			return
		}
	}
	t.Fatalf("these locks are held: %q, want %q", held, want)
}

const delay, block = "delay shutdown", "block sleep:idle"

func run(t *testing.T, bus *logindtest.Bus, o logind.Options) (stop func()) {
	t.Helper()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
	o.Logger = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- logind.Run(ctx, o) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestShutdownWaitsForGoDown(t *testing.T) {
	bus := logindtest.Start(t)
	begun, end := make(chan struct{}), make(chan struct{})
	stop := run(t, bus, logind.Options{GoDown: func(context.Context) { close(begun); <-end }, StayUp: func(context.Context) {}})
	until(t, bus, delay)
	bus.PrepareForShutdown(true)
	<-begun
	bus.PrepareForShutdown(true) // told twice, it begins once
	until(t, bus, delay)
	close(end)
	until(t, bus)
	stop()
}

func TestAShutdownIsCalledOff(t *testing.T) {
	bus := logindtest.Start(t)
	begun, stays := make(chan struct{}, 2), make(chan struct{}, 2)
	stop := run(t, bus, logind.Options{
		GoDown: func(ctx context.Context) { begun <- struct{}{}; <-ctx.Done() },
		StayUp: func(context.Context) { stays <- struct{}{} },
	})
	until(t, bus, delay)
	bus.PrepareForShutdown(false) // nothing was prepared
	for range 2 {
		bus.PrepareForShutdown(true)
		<-begun
		bus.PrepareForShutdown(false)
		<-stays
		until(t, bus, delay)
	}
	if len(stays) > 0 {
		t.Error("it stays up once more")
	}
	bus.PrepareForShutdown(true)
	<-begun
	stop()
	until(t, bus)
}

func TestAShutdownThatHasBegunBefore(t *testing.T) {
	bus := logindtest.Start(t)
	bus.PrepareForShutdown(true)
	begun := make(chan struct{})
	stop := run(t, bus, logind.Options{GoDown: func(context.Context) { close(begun) }, StayUp: func(context.Context) {}})
	<-begun
	until(t, bus)
	stop()
}

// Whoever may connect to the bus can send a signal to each of its clients, and files with it.
func TestStrangersAreNotHeard(t *testing.T) {
	bus := logindtest.Start(t)
	begun := make(chan struct{}, 8)
	stop := run(t, bus, logind.Options{
		GoDown: func(ctx context.Context) { begun <- struct{}{}; <-ctx.Done() }, StayUp: func(context.Context) {},
	})
	until(t, bus, delay)
	stranger := bus.Stranger()
	prepare := func(goes ...any) {
		stranger.Signal("/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForShutdown", goes...)
	}
	prepare(true)
	stranger.Signal("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", "org.freedesktop.login1", "", stranger.Name())
	prepare(true)
	prepare("true", true)
	prepare(make([]string, 1<<20))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	prepare(true, dbus.UnixFD(write.Fd()))
	stranger.Signal("/a", "a.b", "C", []dbus.UnixFD{dbus.UnixFD(write.Fd())})
	_ = write.Close()
	_ = read.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the files that came with signals are open: %v", err)
	}
	if len(begun) > 0 {
		t.Error("it goes down because a stranger says so")
	}
	bus.PrepareForShutdown(true)
	<-begun
	prepare(false)
	bus.Restart()
	bus.PrepareForShutdown(false)
	until(t, bus, delay)
	bus.PrepareForShutdown(true)
	<-begun
	if len(begun) > 0 {
		t.Error("it goes down once more")
	}
	stop()
}

func TestAwakeWhileThereIsReason(t *testing.T) {
	bus := logindtest.Start(t)
	var awake atomic.Bool
	changed := make(chan struct{}, 1)
	say := func(is bool) {
		awake.Store(is)
		changed <- struct{}{}
	}
	awake.Store(true)
	stop := run(t, bus, logind.Options{Awake: awake.Load, Changed: changed})
	until(t, bus, block)
	say(false)
	until(t, bus)
	say(true)
	until(t, bus, block)
	stop()
	until(t, bus)
}

func TestWithoutABusThereIsNoLogind(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	if err := logind.Run(t.Context(), logind.Options{}); !errors.Is(err, logind.ErrAbsent) {
		t.Errorf("it returns %v", err)
	}
}

func TestStopping(t *testing.T) {
	bus := logindtest.Start(t)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
	for state, want := range map[string]bool{"running": false, "stopping": true, "degraded": false, "maintenance": false} {
		bus.SystemState(state)
		if got, err := logind.Stopping(t.Context()); err != nil || got != want {
			t.Errorf("%s: %t, %v", state, got, err)
		}
	}
}
