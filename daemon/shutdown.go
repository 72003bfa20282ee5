package daemon

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/logind"
	"github.com/jobd/jobd/runtime/containerd"
)

const (
	// afterGrace is how long after their grace period pods are waited for that were killed then.
	afterGrace = 10 * time.Second
	// askPods is how often it is looked whether pods still run when the machine goes down.
	askPods = 200 * time.Millisecond
	// askSystemd is how long systemd may take to say whether it shuts the machine down.
	askSystemd = 5 * time.Second
)

// shutdown ends the pods when the machine goes down. Whoever learns of it first begins, all wait for the same.
type shutdown struct {
	*daemon
	// occupied says that pods run on the machine.
	occupied atomic.Bool
	changed  chan struct{}
	// power is told by SIGPWR that the machine goes down.
	power  chan os.Signal
	serves atomic.Pointer[control.Control] // nil: not yet
	// last says that jobd stops because the machine goes down.
	last atomic.Bool

	mu   sync.Mutex
	pods []string  // those that are to end
	end  time.Time // when they are not waited for any longer; zero: the machine does not go down
}

func newShutdown(d *daemon) *shutdown {
	return &shutdown{daemon: d, changed: make(chan struct{}, 1), power: make(chan os.Signal, 1)}
}

// follow begins to follow logind, beside everything else.
func (s *shutdown) follow() {
	o := logind.Options{Logger: s.config.Logger}
	if s.config.ShutdownGracePeriod.Duration > 0 {
		o.GoDown = func(ctx context.Context) { s.goDown(ctx, "systemd-logind prepares for it") }
		o.StayUp = s.stayUp
	}
	if s.config.InhibitSleep {
		o.Awake, o.Changed = s.occupied.Load, s.changed
	}
	if o.GoDown == nil && o.Awake == nil {
		return
	}
	s.beside(func(ctx context.Context) {
		switch err := logind.Run(ctx, o); {
		case err == nil:
		case s.config.InhibitSleep:
			s.config.Logger.Warn("nothing keeps the machine from going to sleep while pods run (inhibit-sleep)", "error", err)
		default:
			s.config.Logger.Debug("nobody tells in advance that the machine goes down", "error", err)
		}
	})
}

// note takes in whether pods run. It does not block.
func (s *shutdown) note(occupied bool) {
	if s.occupied.Swap(occupied) != occupied {
		select {
		case s.changed <- struct{}{}:
		default: // it will be looked at
		}
	}
}

// untilTold returns a context that ends once jobd is told to stop: by the end of ctx, or by SIGPWR. If the machine goes down,
// it ends only after the pods have.
func (s *shutdown) untilTold(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	until, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if s.config.ShutdownGracePeriod.Duration > 0 {
		signal.Notify(s.power, syscall.SIGPWR)
	}
	go func() {
		defer signal.Stop(s.power)
		select {
		case <-ctx.Done():
			if why := s.reason(until); why != "" {
				s.last.Store(true)
				s.goDown(until, why)
			}
		case <-s.power:
			s.last.Store(true)
			s.goDown(until, "SIGPWR")
		case <-until.Done():
		}
		cancel(nil)
	}()
	return until, cancel
}

// endHolders ends what would hold up a machine that goes down. It is called when nothing needs that any more.
func (s *shutdown) endHolders() {
	if !s.last.Load() {
		return
	}
	if err := containerd.GoDown(s.config.Root); err != nil {
		s.config.Logger.Warn("the processes that hold containers may hold up the machine, which goes down", "error", err)
	}
}

// reason returns why the machine goes down, now that jobd is told to stop; empty if it does not, as far as it is known.
func (s *shutdown) reason(ctx context.Context) string {
	if s.config.ShutdownGracePeriod.Duration <= 0 || s.serves.Load() == nil {
		return ""
	}
	if os.Getpid() == 1 {
		return "jobd is the first process of a container, which ends with it"
	}
	ctx, cancel := context.WithTimeout(ctx, askSystemd)
	defer cancel()
	stopping, err := logind.Stopping(ctx)
	if err != nil {
		s.config.Logger.Debug("systemd does not say whether the machine goes down", "error", err)
	}
	if stopping {
		return "systemd stops everything"
	}
	return ""
}

// goDown ends the pods and waits for their ends, at most until ctx ends.
func (s *shutdown) goDown(ctx context.Context, why string) {
	c := s.serves.Load()
	if c == nil {
		return
	}
	grace := s.config.ShutdownGracePeriod.Duration
	if s.config.Extend != nil {
		s.config.Extend(grace + afterGrace + stopTimeout)
	}
	pods, end, err := s.begin(ctx, c, why)
	if err != nil {
		s.config.Logger.Warn("cannot end the pods, and the machine goes down", "error", err)
		return
	}
	began := time.Now()
	for len(pods) > 0 {
		still, err := c.Stopping(pods)
		if err != nil {
			s.config.Logger.Warn("cannot read which pods still run", "error", err)
			still = pods
		}
		if pods = still; len(pods) == 0 {
			break
		}
		if !time.Now().Before(end) {
			s.config.Logger.Warn("these pods have not ended, and the machine goes down", "pods", pods)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askPods):
		}
	}
	s.config.Logger.Info("all pods have ended, and the machine may go down", "after", time.Since(began).Round(time.Millisecond))
}

// begin ends the pods, unless somebody has begun with it, and returns which, and until when they are waited for.
func (s *shutdown) begin(ctx context.Context, c *control.Control, why string) ([]string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsZero() {
		grace := s.config.ShutdownGracePeriod.Duration
		pods, err := c.GoDown(ctx, grace)
		if err != nil {
			return nil, time.Time{}, err
		}
		s.pods, s.end = pods, time.Now().Add(grace+afterGrace)
		s.config.Logger.Warn("the machine goes down: pods are ended, and no others start", "why", why, "pods", len(pods), "within", grace)
	}
	return s.pods, s.end, nil
}

// stayUp lets pods start again, since the machine does not go down after all.
func (s *shutdown) stayUp(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.serves.Load()
	if c == nil || s.end.IsZero() {
		return
	}
	if err := c.StayUp(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.config.Logger.Warn("pods do not start again, although the machine stays up", "error", err)
		return
	}
	s.pods, s.end = nil, time.Time{}
	s.config.Logger.Warn("the machine does not go down after all: pods start again")
}
