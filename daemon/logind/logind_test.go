package logind_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

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
