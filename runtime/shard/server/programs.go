package server

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// programs are copies in memory of the OCI runtimes, which nobody can write to. A container must not be able to change
// the program that sets up the next one (CVE-2019-5736), so a runtime that is not executed from such a copy makes one
// each time and executes that: it starts twice. The zero value is ready. It is for one goroutine at a time.
type programs map[string]program

type program struct {
	sealed *os.File
	of     unix.Stat_t // the file that was copied
}

// sealedMemory is how runc and crun recognise a copy that they can trust.
const sealedMemory = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// path returns where to execute a program: its copy, or the program itself where none can be made or it is a script.
func (p programs) path(name string) string {
	var now unix.Stat_t
	if err := unix.Stat(name, &now); err != nil {
		return name
	}
	have, ok := p[name]
	if ok && have.of.Dev == now.Dev && have.of.Ino == now.Ino && have.of.Size == now.Size &&
		have.of.Mtim == now.Mtim && have.of.Ctim == now.Ctim {
		return have.path(name)
	}
	if have.sealed != nil {
		have.sealed.Close() // another version was installed
	}
	sealed, err := seal(name)
	if err != nil {
		sealed = nil // and not tried again: the runtime makes its own
	}
	p[name] = program{sealed, now}
	return p[name].path(name)
}

// ownProgram is where the process of an exec finds the program of the shard: the first file after its streams.
const ownProgram = "/proc/self/fd/3"

// sealOwn returns a copy of this program for a process in a container, which could change the original by /proc/PID/exe.
func sealOwn() (*os.File, error) { return seal("/proc/self/exe") }

func (p program) path(name string) string {
	if p.sealed == nil {
		return name
	}
	// That of this process, since in the child the number may be another file's by the time of the execution: the files
	// that it gets are put in their places first.
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.sealed.Fd())
}

func seal(name string) (*os.File, error) {
	from, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	// A script's interpreter opens it by its name, and the copy is closed by then.
	magic := make([]byte, 2)
	if _, err := from.ReadAt(magic, 0); err != nil || string(magic) == "#!" {
		return nil, errors.Join(fmt.Errorf("%s is a script", name), err)
	}
	// A kernel before 6.3 does not know of the flag for what is to be executed, and needs none.
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	sealed := os.NewFile(uintptr(fd), name)
	if _, err = io.Copy(sealed, from); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealedMemory)
	}
	if err != nil {
		sealed.Close()
		return nil, err
	}
	return sealed, nil
}
