package logind

import (
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

func signal(sender, name string, body ...any) *dbus.Message {
	at := strings.LastIndexByte(name, '.')
	return &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldSender: dbus.MakeVariant(sender), dbus.FieldInterface: dbus.MakeVariant(name[:at]), dbus.FieldMember: dbus.MakeVariant(name[at+1:]),
	}}
}

func TestWhoIsHeard(t *testing.T) {
	const said = manager + "." + prepare
	owned := func(name, by string) *dbus.Message { return signal(busName, ownerChanged, name, "", by) }
	for name, of := range map[string]struct {
		before      []*dbus.Message
		m           *dbus.Message
		goes, heard bool
	}{
		"logind, that it goes down":        {m: signal(":1.1", said, true), goes: true, heard: true},
		"logind, that it stays up":         {m: signal(":1.1", said, false), heard: true},
		"somebody else":                    {m: signal(":1.2", said, true)},
		"somebody without a name":          {m: signal("", said, true)},
		"another signal of logind":         {m: signal(":1.1", manager+".SessionNew", true)},
		"one of another interface":         {m: signal(":1.1", "a.b."+prepare, true)},
		"one that says nothing":            {m: signal(":1.1", said)},
		"one that says something else":     {m: signal(":1.1", said, "true")},
		"a signal without fields":          {m: &dbus.Message{Type: dbus.TypeSignal}},
		"logind that has started anew":     {[]*dbus.Message{owned(service, ":1.9")}, signal(":1.9", said, true), true, true},
		"logind that was before it":        {before: []*dbus.Message{owned(service, ":1.9")}, m: signal(":1.1", said, true)},
		"logind that has ended":            {before: []*dbus.Message{owned(service, "")}, m: signal(":1.1", said, true)},
		"nobody after logind has ended":    {before: []*dbus.Message{owned(service, "")}, m: signal("", said, true)},
		"the owner of another name":        {before: []*dbus.Message{owned("a.b", ":1.2")}, m: signal(":1.2", said, true)},
		"who says that the name is theirs": {before: []*dbus.Message{signal(":1.2", ownerChanged, service, "", ":1.2")}, m: signal(":1.2", said, true)},
		"a change of owners that says little": {
			before: []*dbus.Message{signal(busName, ownerChanged, service)}, m: signal(":1.1", said, true), goes: true, heard: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var e ears
			e.begin(":1.1")
			for _, m := range of.before {
				if _, heard := e.hear(m); heard {
					t.Errorf("%v is heard", m)
				}
			}
			if goes, heard := e.hear(of.m); goes != of.goes || heard != of.heard {
				t.Errorf("goes %t, heard %t", goes, heard)
			}
		})
	}
}

// The answer of the bus may come after what it tells of later.
func TestTheOwnerThatIsToldIsNewer(t *testing.T) {
	var e ears
	e.hear(signal(busName, ownerChanged, service, "", ":1.9"))
	e.begin(":1.1")
	if e.owner != ":1.9" {
		t.Errorf("the owner is %s", e.owner)
	}
}

func TestSocketOf(t *testing.T) {
	for address, want := range map[string]string{
		"unix:path=/run/dbus/system_bus_socket":          "/run/dbus/system_bus_socket",
		"unix:guid=12ab,path=/a%20b":                     "/a b",
		"tcp:host=localhost,port=1;unix:abstract=/tmp/x": "@/tmp/x",
		"unix:dir=/tmp":                                  "",
		"unixexec:path=/bin":                             "",
		"unix:path=%zz":                                  "",
		"":                                               "",
	} {
		if got, err := socketOf(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
}
