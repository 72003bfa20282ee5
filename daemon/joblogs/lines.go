package joblogs

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// lineMerger merges several logs into one, line by line.
type lineMerger struct {
	w         io.Writer
	remaining int64  // negative: no limit
	enough    func() // called when the limit is reached
	held      *heldLines

	mu   sync.Mutex
	open *lineSource // whose last line has no end yet, and may never have
}

var errEnough = errors.New("as much as was asked for")

func (m *lineMerger) write(from *lineSource, lines []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != nil && m.open != from { // each log begins on a new line
		lines = append([]byte{'\n'}, lines...)
	}
	if m.open = nil; lines[len(lines)-1] != '\n' {
		m.open = from
	}
	if m.remaining >= 0 {
		lines = lines[:min(int64(len(lines)), m.remaining)]
	}
	if _, err := m.w.Write(lines); err != nil {
		return err
	}
	if m.remaining >= 0 {
		if m.remaining -= int64(len(lines)); m.remaining == 0 {
			m.enough()
			return errEnough
		}
	}
	return nil
}

func (m *lineMerger) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.remaining == 0
}

const (
	// maxHeldLine is how much of a line is held back until its end arrives, if there is room for that.
	maxHeldLine = 1 << 20
	// shortLine is as much as there always is room for.
	shortLine = 4 << 10
)

// lineSource is the input of a lineMerger for one log.
type lineSource struct {
	to      *lineMerger
	held    []byte
	counted int // of its bytes, among what the request holds
}

func (s *lineSource) Write(b []byte) (int, error) {
	lines := b
	if len(s.held) > 0 {
		s.held = append(s.held, b...)
		lines = s.held
	}
	end := bytes.LastIndexByte(lines, '\n') + 1
	if end > 0 {
		if err := s.to.write(s, lines[:end]); err != nil {
			return 0, err
		}
		s.letGo()
	}
	if end > 0 || len(s.held) == 0 {
		into := s.held[:0]
		if cap(into) > 2*shortLine { // it may be silent for long
			into = nil
		}
		s.held = append(into, lines[end:]...)
	}
	if !s.hold() {
		return len(b), s.flush()
	}
	return len(b), nil
}

// hold reports whether what there is of a line may be held back.
func (s *lineSource) hold() bool {
	n := len(s.held)
	if n <= shortLine {
		return true
	}
	if n > maxHeldLine || !s.to.held.grow(n-s.counted) {
		return false
	}
	s.counted = n
	return true
}

func (s *lineSource) letGo() {
	if s.counted > 0 {
		s.to.held.shrink(s.counted)
		s.counted = 0
	}
}

func (s *lineSource) flush() error {
	err := s.to.write(s, s.held)
	s.letGo()
	s.held = nil
	return err
}

// Close writes a last line that has no end.
func (s *lineSource) Close() error {
	if len(s.held) == 0 {
		return nil
	}
	return s.flush()
}
