package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/thread"
)

// recordName is the file with a pod's address and ports. No pin has that name.
const recordName = "network.json"

// record holds what a pod's pins do not show.
type record struct {
	Address netip.Addr `json:"address"`
	Ports   []hostPort `json:"ports,omitempty"`
}

// namespaces are those of one pod. They are pinned in a directory.
type namespaces struct {
	pins *pins.Pins
	dir  string
	// made is the path of the network namespace that the pod already has, which belongs to its own user namespace.
	// Empty: it gets a new one.
	made string
}

func (p namespaces) path(kind string) string { return filepath.Join(p.dir, kind) }

// ipc ensures that there is an IPC namespace and returns its path.
func (p namespaces) ipc() (string, error) {
	unshare := func() error { return unix.Unshare(unix.CLONE_NEWIPC) }
	if err := p.pin("ipc", unshare, func() error { return nil }); err != nil {
		return "", fmt.Errorf("ipc namespace: %w", err)
	}
	return p.path("ipc"), nil
}

// network ensures that there is a network namespace. What else a pod's own sysctls say is set with each container. It is
// pinned only once connect, called within it, has succeeded: a failure or crash before that leaves either nothing, or what
// connect finds when it is called again.
func (p namespaces) network(connect func() error) error {
	prepare := func() error {
		if err := connect(); err != nil {
			return err
		}
		return unprivileged(p.made != "")
	}
	if err := p.pin("net", p.enterNetwork, prepare); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	return nil
}

// unprivileged lets any user of the thread's new namespace do what a cluster lets any user of a pod do.
func unprivileged(ownUsers bool) error {
	for name, value := range oci.UnprivilegedNetwork(ownUsers) {
		err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
		if err != nil && !cannotSet(err) {
			return err
		}
	}
	return nil
}

// loopback brings up lo in the thread's namespace.
func loopback() error {
	inside, err := openRTNetlink()
	if err != nil {
		return err
	}
	defer inside.close()
	return inside.do(loopbackUp())
}

// enterNetwork moves the thread to the pod's network namespace.
func (p namespaces) enterNetwork() error {
	if p.made == "" {
		return unix.Unshare(unix.CLONE_NEWNET)
	}
	namespace, err := p.pins.Find(p.made)
	if err != nil {
		return err
	}
	defer namespace.Close()
	return unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
}

// pin calls enter, which moves its thread to the namespace, and prepare there, unless the namespace is pinned already.
func (p namespaces) pin(kind string, enter, prepare func() error) error {
	path := p.path(kind)
	if pinned, err := p.pins.Find(path); !errors.Is(err, os.ErrNotExist) {
		if err == nil {
			pinned.Close()
		}
		return err
	}
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return err
	}
	return thread.Run(func() error {
		if err := enter(); err != nil {
			return err
		}
		if err := prepare(); err != nil {
			return err
		}
		crash.At("network", kind, "connected")
		namespace, err := os.Open("/proc/thread-self/ns/" + kind)
		if err != nil {
			return err
		}
		defer namespace.Close()
		return p.pins.Pin(path, namespace)
	})
}

// record reads what write has written.
func (p namespaces) record() (record, error) {
	var r record
	data, err := os.ReadFile(p.path(recordName))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", p.path(recordName), err)
	}
	return r, nil
}

func (p namespaces) write(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return err
	}
	return files.Replace(p.path(recordName), data, 0o600)
}

// release removes the namespaces and the record. The record goes last, so that a crash leaves nothing that is not on
// record.
func (p namespaces) release() error {
	if err := pins.UnpinAll(p.dir, recordName); err != nil {
		return err
	}
	crash.At("network.pins-removed")
	if err := os.Remove(p.path(recordName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	crash.At("network.record-removed")
	if err := os.Remove(p.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
