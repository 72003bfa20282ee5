package logind

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/godbus/dbus/v5"
)

const (
	busName      = "org.freedesktop.DBus"
	busPath      = dbus.ObjectPath("/org/freedesktop/DBus")
	ownerChanged = busName + ".NameOwnerChanged"
	noOwner      = busName + ".Error.NameHasNoOwner"
	properties   = busName + ".Properties"
)

// listen has the bus pass on what logind says, and who is logind.
func (b *bus) listen(ctx context.Context) error {
	for _, rule := range [][]string{
		{"sender", busName, "path", string(busPath), "interface", busName, "member", "NameOwnerChanged", "arg0", service},
		{"sender", service, "path", string(object), "interface", manager, "member", prepare},
	} {
		text := "type='signal'"
		for len(rule) > 0 {
			text += fmt.Sprintf(",%s='%s'", rule[0], rule[1])
			rule = rule[2:]
		}
		if _, err := b.call(ctx, busName, busPath, busName, "AddMatch", text); err != nil {
			return err
		}
	}
	a, err := b.call(ctx, busName, busPath, busName, "GetNameOwner", service)
	var said dbus.Error
	if errors.As(err, &said) && said.Name == noOwner {
		return nil // it is started when something is asked of it
	}
	if err != nil {
		return err
	}
	var owner string
	if err := dbus.Store(a.body, &owner); err != nil {
		return err
	}
	b.ears.begin(owner)
	return nil
}

// preparing asks logind whether the machine is about to go down.
func (b *bus) preparing(ctx context.Context) (bool, error) {
	value, err := b.property(ctx, service, object, manager, "PreparingForShutdown")
	return value == true, err
}

// property asks for a property of an object.
func (b *bus) property(ctx context.Context, of string, path dbus.ObjectPath, iface, name string) (any, error) {
	a, err := b.call(ctx, of, path, properties, "Get", iface, name)
	if err != nil {
		return nil, err
	}
	var value dbus.Variant
	err = dbus.Store(a.body, &value)
	return value.Value(), err
}

// inhibit takes a lock of logind, which lasts until the file is closed.
func (b *bus) inhibit(ctx context.Context, what, why, mode string) (*os.File, error) {
	a, err := b.call(ctx, service, object, manager, "Inhibit", what, "jobd", why, mode)
	if err != nil {
		return nil, fmt.Errorf("inhibit %s: %w", what, err)
	}
	if len(a.files) != 1 {
		closeAll(a.files)
		return nil, fmt.Errorf("inhibit %s: logind answers with %d files", what, len(a.files))
	}
	return a.files[0], nil
}
