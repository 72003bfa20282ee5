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

// maxHeldLine is how much of a line is held back until its end arrives.
const maxHeldLine = 1 << 20

// lineSource is the input of a lineMerger for one log.
type lineSource struct {
	to   *lineMerger
	held []byte
}

func (s *lineSource) Write(b []byte) (int, error) {
	s.held = append(s.held, b...)
	end := bytes.LastIndexByte(s.held, '\n') + 1
	if end == 0 && len(s.held) > maxHeldLine {
		end = len(s.held)
	}
	if end > 0 {
		if err := s.to.write(s, s.held[:end]); err != nil {
			return 0, err
		}
		s.held = append(s.held[:0], s.held[end:]...)
	}
	return len(b), nil
}

// Close writes a last line that has no end.
func (s *lineSource) Close() error {
	if len(s.held) == 0 {
		return nil
	}
	return s.to.write(s, s.held)
}
