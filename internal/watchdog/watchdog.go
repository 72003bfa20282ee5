// Package watchdog notices work that does not go on: a step that spins, waits for ever, or never comes to an end.
//
// Code that may hang reports what it works on through a Section. A Watchdog takes a sample of all sections every second,
// and of the process itself: its processor time and the states of its threads. A judge makes verdicts of them by pure rules.
// What goes out are log messages, the verdicts for /livez and /readyz, and one call when something hangs. It touches
// nothing but /proc.
//
// Wall time is no measure: a slow disk, a machine that sleeps, a process that was stopped and one that gets no processor
// are not a hang. So only time counts in which the work could have gone on.
package watchdog

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configure a Watchdog.
type Options struct {
	Limits Limits
	Logger *slog.Logger
	// Hung is called once, with the verdicts on the sections that hang or are slow, those that hang first. It does not
	// return if it ends the process.
	Hung func([]Verdict)
	// Alive is called after each sample in which nothing hangs; nil for nothing. It must not block.
	Alive func()
}

// Watchdog watches over sections.
type Watchdog struct {
	options  Options
	sections []*Section
	look     func() (runnable, blocked bool) // at the threads

	mu       sync.Mutex
	verdicts []Verdict
	slow     []int // how often work was found to be slow, by section
}

// New makes a Watchdog, which does nothing before Run.
func New(o Options) *Watchdog { return &Watchdog{options: o, look: threads} }

// Section adds a section: its name in /readyz, its work as the subject of a sentence, and the functions that do it, as
// they stand in a stack. It is called before Run.
func (w *Watchdog) Section(name, what string, functions ...string) *Section {
	s := &Section{name: name, what: what, frames: functions}
	w.sections = append(w.sections, s)
	w.slow = append(w.slow, 0)
	return s
}

// Run takes samples until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	runtime.LockOSThread() // so that threads knows which one is its own
	defer runtime.UnlockOSThread()
	ticker := time.NewTicker(w.options.Limits.Tick)
	defer ticker.Stop()
	judge := newJudge(w.options.Limits)
	last, used := time.Now(), cpuTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, usedNow := time.Now(), cpuTime()
		s := sample{Elapsed: now.Sub(last), CPU: usedNow - used, Sections: w.states()}
		if judge.suspects(s.Sections) {
			s.Runnable, s.Blocked = w.look()
		}
		last, used = now, usedNow
		if w.take(judge.take(s)) {
			return
		}
	}
}

func (w *Watchdog) states() []State {
	states := make([]State, len(w.sections))
	for i, s := range w.sections {
		states[i] = s.State()
	}
	return states
}

// take publishes verdicts, and reports whether something hangs.
func (w *Watchdog) take(verdicts []Verdict) (hung bool) {
	for i := range verdicts {
		verdicts[i].Section, verdicts[i].What = w.sections[i].name, w.sections[i].what
	}
	w.mu.Lock()
	before := w.verdicts
	w.verdicts = verdicts
	for i, v := range verdicts {
		same := i < len(before) && before[i].Turn == v.Turn && v.Busy
		switch {
		case v.Health != Healthy && !(same && before[i].Health != Healthy):
			w.slow[i]++
			go w.tell(v) // whoever reads the log may hang too
		case i < len(before) && before[i].Health != Healthy && !same:
			go w.options.Logger.Info("the work that has lasted long is over", "section", v.Section, "lasted", before[i].Lasts.Round(time.Second))
		}
	}
	w.mu.Unlock()
	var bad []Verdict
	for _, v := range verdicts {
		if v.Health != Healthy {
			bad = append(bad, v)
		}
		hung = hung || v.Health == Hung
	}
	if hung {
		slices.SortStableFunc(bad, func(a, b Verdict) int { return int(b.Health - a.Health) })
		w.options.Hung(bad)
	} else if w.options.Alive != nil {
		w.options.Alive()
	}
	return hung
}

// tell logs that work lasts long, with the stacks of those who do it.
func (w *Watchdog) tell(v Verdict) {
	var functions []string
	for _, s := range w.sections {
		if s.name == v.Section {
			functions = s.frames
		}
	}
	w.options.Logger.Warn(v.String(), "section", v.Section, "concern", v.Concern, "object", v.Object,
		"stack", strings.Join(stacksWith(functions, Stacks()), "\n\n"))
}

// Live fails if the work of a section lasts too long for another reason than the disk.
func (w *Watchdog) Live(section string) error {
	if v := w.verdict(section); v.Health > WaitsForDisk {
		return errors.New(v.String())
	}
	return nil
}

// Ready fails if the work of a section lasts too long.
func (w *Watchdog) Ready(section string) error {
	if v := w.verdict(section); v.Health > Healthy {
		return errors.New(v.String())
	}
	return nil
}

// Verdicts returns what is known of all sections, as they are now; how long their work lasts is as of the last sample.
func (w *Watchdog) Verdicts() []Verdict {
	now := w.states()
	w.mu.Lock()
	defer w.mu.Unlock()
	verdicts := make([]Verdict, len(now))
	for i, s := range now {
		verdicts[i] = Verdict{State: s, Section: w.sections[i].name, What: w.sections[i].what}
		if i < len(w.verdicts) && s.Busy && w.verdicts[i].Turn == s.Turn {
			verdicts[i].Health, verdicts[i].Lasts, verdicts[i].Stuck = w.verdicts[i].Health, w.verdicts[i].Lasts, w.verdicts[i].Stuck
		}
	}
	return verdicts
}

// Sections returns the names of all sections.
func (w *Watchdog) Sections() (names []string) {
	for _, s := range w.sections {
		names = append(names, s.name)
	}
	return names
}

// Figures are what metrics show of a section.
type Figures struct {
	// Lasts is how long the present work has lasted, 0 if that is less than a sample.
	Lasts time.Duration
	// Slow is how often work has lasted too long.
	Slow int
}

// Figures returns the figures of a section.
func (w *Watchdog) Figures(section string) (f Figures) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, s := range w.sections {
		if s.name == section {
			f.Slow = w.slow[i]
		}
	}
	for _, v := range w.verdicts {
		if v.Section == section && v.Busy {
			f.Lasts = v.Lasts
		}
	}
	return f
}

func (w *Watchdog) verdict(section string) Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.verdicts {
		if v.Section == section {
			return v
		}
	}
	return Verdict{}
}
