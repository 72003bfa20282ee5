package watchdog

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// A watchdog in virtual time tells of work that lasts long, and ends with what hangs.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		var hung []Verdict
		l := DefaultLimits()
		l.Hung = 20 * time.Second
		w := New(Options{Limits: l, Logger: slog.New(slog.NewTextHandler(&log, nil)), Hung: func(v []Verdict) { hung = v }})
		w.look = func() (runnable, blocked bool) { return false, false }
		database := w.Section("database", "a transaction of the database", "watchdog.nobody")
		passes := w.Section("control-loop", "a pass", "watchdog.waitFor")
		done := make(chan struct{})
		go func() { defer close(done); w.Run(t.Context()) }()

		database.Begin("", "")
		time.Sleep(5500 * time.Millisecond)
		release := make(chan struct{})
		go waitFor(passes, release)
		time.Sleep(7 * time.Second)
		if err := w.Live("database"); err == nil || err.Error() != "a transaction of the database has been at work for 11s" {
			t.Errorf("of the database it says %v", err)
		}
		if err := w.Ready("control-loop"); err != nil {
			t.Errorf("of the loop it says %v", err)
		}
		database.End()
		time.Sleep(5 * time.Second)
		if err := w.Live("database"); err != nil {
			t.Errorf("afterwards it says %v", err)
		}
		if f := w.Figures("database"); f != (Figures{Slow: 1}) {
			t.Errorf("the figures are %+v", f)
		}
		<-done
		close(release)
		if len(hung) != 1 || hung[0].Section != "control-loop" || hung[0].Object != "an object" {
			t.Errorf("what hangs is %+v", hung)
		}
		synctest.Wait()
		for _, want := range []string{
			`level=WARN msg="a transaction of the database has been at work for 10s" section=database`,
			`msg="the work that has lasted long is over" section=database`,
			`msg="a pass has been at work for 10s in a concern on an object" section=control-loop concern="a concern" object="an object" stack="goroutine `,
			`watchdog.waitFor(`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log.String())
			}
		}
	})
}

func waitFor(s *Section, release chan struct{}) {
	s.Begin("a concern", "an object")
	<-release
	s.End()
}

func TestMutex(t *testing.T) {
	w := New(Options{})
	var m Mutex
	m.Lock()
	m.On("nothing") // nobody watches
	m.Unlock()
	s := w.Section("lock", "the lock")
	m.Watch(s)
	m.Lock()
	m.On("x")
	if got := s.State(); !got.Busy || got.Object != "x" {
		t.Errorf("while it is held: %+v", got)
	}
	m.Unlock()
	if got := s.State(); got.Busy || got.Object != "" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestStateOf(t *testing.T) {
	for stat, want := range map[string]byte{
		"7 (jobd) S 1 7": 'S', "7 (a) R (b) D 1": 'D', "7 (jobd)": 0, "": 0,
	} {
		if got := stateOf([]byte(stat)); got != want {
			t.Errorf("%q: got %q, want %q", stat, got, want)
		}
	}
}

// While nothing happens all threads sleep, and one that spins is seen.
func TestThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for asleep := false; !asleep; { // what ran before may have left garbage
		runnable, _ := threads()
		asleep = !runnable
	}
	var stop atomic.Bool
	var spinning sync.WaitGroup
	spinning.Go(func() {
		for !stop.Load() {
		}
	})
	defer spinning.Wait()
	defer stop.Store(true)
	used := cpuTime()
	for cpuTime() < used+10*time.Millisecond {
		if runnable, _ := threads(); runnable {
			return
		}
	}
	t.Error("no thread seems to run")
}

func TestStacks(t *testing.T) {
	stacks := stacksWith([]string{"watchdog.TestStacks"}, Stacks())
	if len(stacks) != 1 || !strings.HasPrefix(stacks[0], "goroutine ") || slices.Contains(stacks, "") {
		t.Errorf("got %q", stacks)
	}
}

// BenchmarkSection is what a step costs: a pass makes some for each object, hundreds of times a second.
func BenchmarkSection(b *testing.B) {
	s := New(Options{}).Section("control-loop", "a pass")
	b.ReportAllocs()
	for b.Loop() {
		s.Begin("jobs", "jobs.batch/default/x")
		s.Step("pods", "pods/default/x")
		s.End()
	}
}
