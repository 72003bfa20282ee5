package logind

import (
	"sync"

	"github.com/godbus/dbus/v5"
)

// ears hear what logind says. The bus says truly who has sent a signal, and who has the name of logind; everything else in a signal is as
// whoever has sent it likes.
type ears struct {
	mu    sync.Mutex
	owner string // the connection that has the name of logind; empty: none has, or it is not known yet
	known bool
}

// begin takes in the owner that the bus has answered with. What it has told since then is newer.
func (e *ears) begin(owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		e.owner, e.known = owner, true
	}
}

// hear takes in a message, and returns what logind says with it, if anything: whether the machine goes down.
func (e *ears) hear(m *dbus.Message) (goes, heard bool) {
	text := func(f dbus.HeaderField) string {
		s, _ := m.Headers[f].Value().(string)
		return s
	}
	if m.Type != dbus.TypeSignal {
		return false, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch sender := text(dbus.FieldSender); text(dbus.FieldInterface) + "." + text(dbus.FieldMember) {
	case ownerChanged:
		if sender == busName && len(m.Body) == 3 && m.Body[0] == service {
			e.known = true
			e.owner, _ = m.Body[2].(string)
		}
	case manager + "." + prepare:
		if sender != "" && sender == e.owner && len(m.Body) == 1 {
			goes, heard = m.Body[0].(bool)
		}
	}
	return goes, heard
}
