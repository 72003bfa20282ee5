package processes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/pins"
)

// Pin ensures that a namespace of a container's first process can be entered by its path, which it returns, until the
// pod is torn down. kind is its name below /proc/PID/ns. The error is ErrNotFound if the process with that PID does not
// belong to the container: it may have ended, and another process may have got its PID.
func (p *Processes) Pin(podUID, container string, pid int, kind string) (string, error) {
	path, err := p.pin(podUID, container, pid, kind)
	if err != nil {
		return "", fmt.Errorf("%s namespace of container %s: %w", kind, container, err)
	}
	return path, nil
}

func (p *Processes) pin(podUID, container string, pid int, kind string) (string, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return "", fmt.Errorf("process %d: %w", pid, errdefs.ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(process)
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		return "", ended(err)
	}
	defer namespace.Close()
	// The path of its cgroup contains the container's ID.
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", ended(err)
	}
	if !bytes.Contains(cgroups, []byte(container)) {
		return "", fmt.Errorf("process %d is not of it: %w", pid, errdefs.ErrNotFound)
	}
	// This succeeds only if the process still exists, so that what was read is about this process.
	if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
		return "", fmt.Errorf("process %d: %w: %w", pid, err, errdefs.ErrNotFound)
	}
	dir := filepath.Join(p.Dir, podUID)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	path := filepath.Join(dir, kind+"."+container)
	switch pinned, err := p.Pins.Find(path); {
	case err == nil:
		found := same(pinned, namespace)
		pinned.Close()
		if found {
			return path, nil
		}
		if err := pins.Unpin(path); err != nil {
			return "", err
		}
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	crash.At("processes.pin.made")
	if err := p.Pins.Pin(path, namespace); err != nil {
		return "", err
	}
	crash.At("processes.pin.mounted")
	return path, nil
}

// ended makes ErrNotFound of the errors for files of a process that has ended meanwhile.
func ended(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w: %w", err, errdefs.ErrNotFound)
	}
	return err
}

// same reports whether two open namespaces are one.
func same(a, b *os.File) bool {
	one, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other)
}
