package watchdog

import "sync"

// Section is a kind of work that one goroutine does at a time, such as a pass of the control loop. Whoever does the work
// says when it begins, at each step, and when it ends. That costs an uncontended lock and allocates nothing, so it may be
// done thousands of times a second. A nil Section takes everything and does nothing.
type Section struct {
	name   string
	what   string
	frames []string

	mu    sync.Mutex
	state State
}

// State is what a Section says of the work.
type State struct {
	// Turn counts what has begun, Steps the steps of all of it. Busy says that some of it has not ended.
	Turn, Steps uint64
	Busy        bool
	// Disk says that the work waits for a system call that lasts as long as the disk takes.
	Disk bool
	// Concern is the part of the program that is at work, Object what it is at work on. Both may be empty.
	Concern, Object string
}

// Begin begins a piece of work.
func (s *Section) Begin(concern, object string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.state.Turn++
	s.state.Busy, s.state.Disk = true, false
	s.step(concern, object)
	s.mu.Unlock()
}

// Step says that the work goes on, and with what.
func (s *Section) Step(concern, object string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.step(concern, object)
	s.mu.Unlock()
}

func (s *Section) step(concern, object string) {
	s.state.Steps++
	s.state.Concern, s.state.Object = concern, object
}

// On is Step for another object of the same concern.
func (s *Section) On(object string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.step(s.state.Concern, object)
	s.mu.Unlock()
}

// Disk is a step that begins or ends a wait for the disk.
func (s *Section) Disk(waits bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.state.Steps++
	s.state.Disk = waits
	s.mu.Unlock()
}

// End ends the piece of work.
func (s *Section) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.state.Steps++
	s.state.Busy, s.state.Disk, s.state.Concern, s.state.Object = false, false, "", ""
	s.mu.Unlock()
}

// State returns what the Section says now.
func (s *Section) State() State {
	if s == nil {
		return State{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Mutex is a sync.Mutex that is watched while it is held. The zero value is an unlocked one that nobody watches.
type Mutex struct {
	mu      sync.Mutex
	section *Section
}

// Watch makes a Section say how long the mutex is held. It is called before the mutex is used.
func (m *Mutex) Watch(s *Section) { m.section = s }

// Lock locks the mutex.
func (m *Mutex) Lock() {
	m.mu.Lock()
	m.section.Begin("", "")
}

// On says what the mutex is held for.
func (m *Mutex) On(object string) { m.section.On(object) }

// Unlock unlocks the mutex.
func (m *Mutex) Unlock() {
	m.section.End()
	m.mu.Unlock()
}
