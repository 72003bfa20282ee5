// Package processes makes one PID namespace for the containers of a pod (shareProcessNamespace) and returns its path.
// Such a namespace lives as long as its first process does, which cannot be any of the containers, since they end and
// are started again. So it is one of its own: it reaps orphans, holds nothing of the host, and outlives the daemon.
// What is kept is the process, and a pin below STATE/processes.
package processes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/pins"
)

// Processes keeps the namespaces of a daemon's pods.
type Processes struct {
	// Dir has a directory for each pod, with the pinned namespace and the number of its first process.
	Dir string
	// Shim is the path of jobd-shim, which is that process.
	Shim string
	// Cgroup is the control group that it is put into, so that it survives when everything in the daemon's is killed.
	Cgroup string
	Pins   *pins.Pins
}

const (
	pinName    = "pid"
	recordName = "init"
)

// SetUp ensures that a pod has its namespace and returns its path. One whose first process has died is replaced:
// nothing can live in it. users is the path of the user namespace that it belongs to, empty for the host's.
func (p *Processes) SetUp(podUID, users string) (string, error) {
	dir := filepath.Join(p.Dir, podUID)
	pin := filepath.Join(dir, pinName)
	first, err := p.alive(dir)
	if err == nil {
		unix.Close(first)
		return pin, nil
	} else if !errors.Is(err, errNone) {
		return "", fmt.Errorf("pid namespace: %w", err)
	}
	if err := p.TearDown(podUID); err != nil {
		return "", err
	}
	if err := p.make(dir, users); err != nil {
		return "", fmt.Errorf("pid namespace: %w", err)
	}
	return pin, nil
}

func (p *Processes) make(dir, users string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	wait, begin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer wait.Close()
	defer begin.Close() // before the word: the process ends
	ready, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	defer tell.Close()

	cmd := exec.Command(p.Shim, "--init", dir)
	if users != "" {
		cmd.Args = append(cmd.Args, "--user-namespace", users)
	}
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{wait, tell}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if users == "" {
		cmd.SysProcAttr.Cloneflags = firstNamespaces
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // it outlives us, or else is reaped here
	tell.Close()
	crash.At("processes.started")
	first := cmd.Process.Pid
	if users != "" {
		var number [4]byte
		if _, err := io.ReadFull(ready, number[:]); err != nil {
			return fmt.Errorf("its first process could not enter the user namespace: %w", err)
		}
		first = int(binary.NativeEndian.Uint32(number[:]))
	}
	if err := p.record(dir, first); err != nil {
		return err
	}
	crash.At("processes.recorded")
	if _, err := begin.WriteString(word); err != nil {
		return err
	}
	answer := make([]byte, len(word))
	if n, _ := ready.Read(answer); string(answer[:n]) != word {
		return errors.New("its first process could not shut itself off")
	}
	return nil
}

// record notes the process and pins its namespace, so that both are found again.
func (p *Processes) record(dir string, pid int) error {
	_ = cgroup.Enter(p.Cgroup, pid) // where that is impossible the shards are in the daemon's too
	namespace, err := os.Open(namespaceOf(pid))
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := p.Pins.Pin(filepath.Join(dir, pinName), namespace); err != nil {
		return err
	}
	crash.At("processes.pinned")
	return os.WriteFile(filepath.Join(dir, recordName), []byte(strconv.Itoa(pid)), 0o600)
}

// TearDown ends the first process of a pod's namespace, and with it all others there. It is no error if the pod has none.
func (p *Processes) TearDown(podUID string) error {
	dir := filepath.Join(p.Dir, podUID)
	first, err := p.alive(dir)
	if err == nil {
		err = unix.PidfdSendSignal(first, unix.SIGKILL, nil, 0)
		unix.Close(first)
	}
	if err != nil && !errors.Is(err, errNone) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end the first process of a pod: %w", err)
	}
	crash.At("processes.ended")
	if err := pins.UnpinAll(dir, recordName); err != nil {
		return err
	}
	crash.At("processes.unpinned")
	return os.RemoveAll(dir)
}

// Held lists the UIDs of the pods that have a namespace.
func (p *Processes) Held() ([]string, error) { return files.Names(p.Dir) }

// errNone: a pod has no namespace with a first process.
var errNone = errors.New("its first process has ended")

// alive returns a handle of the process that keeps a pinned namespace, or errNone if it certainly does not: by now
// another process may have its number.
func (p *Processes) alive(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, errNone
	} else if err != nil {
		return -1, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1, errNone
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		return -1, errNone
	} else if err != nil {
		return -1, err
	}
	if err := p.keeps(pid, dir); err != nil {
		unix.Close(handle)
		return -1, err
	}
	if ended, _ := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0); ended > 0 {
		unix.Close(handle)
		return -1, errNone // and is not reaped yet
	}
	return handle, nil
}

// keeps fails unless the namespace that is pinned in a directory is that of a process.
func (p *Processes) keeps(pid int, dir string) error {
	pinned, err := p.Pins.Find(filepath.Join(dir, pinName))
	if errors.Is(err, fs.ErrNotExist) {
		return errNone
	} else if err != nil {
		return err
	}
	defer pinned.Close()
	own, err := os.Open(namespaceOf(pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return errNone
	} else if err != nil {
		return err
	}
	defer own.Close()
	if !same(pinned, own) {
		return errNone
	}
	return nil
}

func namespaceOf(pid int) string { return fmt.Sprintf("/proc/%d/ns/pid", pid) }
