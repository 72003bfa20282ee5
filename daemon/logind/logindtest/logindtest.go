// Package logindtest is a system bus of a test's own, with a systemd-logind and a systemd on it that do what the test says.
package logindtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

const (
	login1   = "org.freedesktop.login1"
	systemd1 = "org.freedesktop.systemd1"
)

// Bus is the bus.
type Bus struct {
	Address string

	t     *testing.T
	conn  *dbus.Conn
	props map[string]*prop.Properties

	mu    sync.Mutex
	locks []lock // that were taken
}

type lock struct {
	what, mode string
	file       *os.File
}

// Start starts the bus, which ends with the test. It skips the test where there is no dbus-daemon.
func Start(t *testing.T) *Bus {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon")
	}
	dir, err := os.MkdirTemp("/tmp", "bus") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(settings, fmt.Appendf(nil, `<busconfig>
<type>custom</type><listen>unix:path=%s/socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("dbus-daemon", "--nofork", "--print-address", "--config-file", settings)
	daemon.Stderr = os.Stderr
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	b := &Bus{Address: strings.TrimSpace(address), t: t, props: map[string]*prop.Properties{}}
	b.serve()
	return b
}

func (b *Bus) serve() {
	b.t.Helper()
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	b.conn = conn
	for name, property := range map[string]prop.Map{
		login1:   {login1 + ".Manager": {"PreparingForShutdown": {Value: false}}},
		systemd1: {systemd1 + ".Manager": {"SystemState": {Value: "running"}}},
	} {
		path := dbus.ObjectPath("/" + strings.ReplaceAll(name, ".", "/"))
		props, err := prop.Export(conn, path, property)
		if err != nil {
			b.t.Fatal(err)
		}
		b.props[name] = props
		if name == login1 {
			if err := conn.ExportMethodTable(map[string]any{"Inhibit": b.inhibit}, path, name+".Manager"); err != nil {
				b.t.Fatal(err)
			}
		}
		if _, err := conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil {
			b.t.Fatal(err)
		}
	}
}

// inhibit is logind's: a lock lasts until all copies of the file that it returns are closed.
func (b *Bus) inhibit(what, _, _, mode string) (dbus.UnixFD, *dbus.Error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	_ = read.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.locks = append(b.locks, lock{what, mode, write})
	return dbus.UnixFD(write.Fd()), nil
}

// Locks returns the locks that are held, each as "MODE WHAT". The test's own copy of their files stays open, since the library does
// not say when it was sent: a lock is held while there is another one in any process.
func (b *Bus) Locks() (held []string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.locks {
		file, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()))
		if err != nil {
			b.t.Fatal(err)
		}
		copies := 0
		all, err := filepath.Glob("/proc/[0-9]*/fd/*")
		if err != nil {
			b.t.Fatal(err)
		}
		for _, fd := range all {
			if other, err := os.Readlink(fd); err == nil && other == file {
				copies++
			}
		}
		if copies > 1 {
			held = append(held, l.mode+" "+l.what)
		}
	}
	slices.Sort(held)
	return held
}

// PrepareForShutdown says that the machine is about to go down, or stays up after all.
func (b *Bus) PrepareForShutdown(goes bool) {
	b.t.Helper()
	b.props[login1].SetMust(login1+".Manager", "PreparingForShutdown", goes)
	if err := b.conn.Emit("/org/freedesktop/login1", login1+".Manager.PrepareForShutdown", goes); err != nil {
		b.t.Fatal(err)
	}
}

// Restart has another connection be logind.
func (b *Bus) Restart() {
	b.t.Helper()
	for _, name := range []string{login1, systemd1} {
		if _, err := b.conn.ReleaseName(name); err != nil {
			b.t.Fatal(err)
		}
	}
	b.serve()
}

// Stranger is a client of the bus that nobody has to trust.
type Stranger struct {
	bus  *Bus
	conn *dbus.Conn
}

// Stranger connects one.
func (b *Bus) Stranger() *Stranger {
	b.t.Helper()
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return &Stranger{b, conn}
}

// Name is that of the connection.
func (s *Stranger) Name() string { return s.conn.Names()[0] }

// Signal sends a signal to every client of the bus but logind, with a path, an interface and a name of its choice.
func (s *Stranger) Signal(path, iface, member string, body ...any) {
	t := s.bus.t
	t.Helper()
	var all []string
	if err := s.conn.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&all); err != nil {
		t.Fatal(err)
	}
	for _, to := range all {
		if !strings.HasPrefix(to, ":") || to == s.Name() || to == s.bus.conn.Names()[0] {
			continue
		}
		m := &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(to), dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath(path)),
			dbus.FieldInterface: dbus.MakeVariant(iface), dbus.FieldMember: dbus.MakeVariant(member),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
		}}
		if call := s.conn.Send(m, nil); call != nil && call.Err != nil {
			t.Fatal(call.Err)
		}
	}
}

// SystemState sets what systemd says of the system: "running", or "stopping" while the machine goes down.
func (b *Bus) SystemState(state string) {
	b.t.Helper()
	b.props[systemd1].SetMust(systemd1+".Manager", "SystemState", state)
}
