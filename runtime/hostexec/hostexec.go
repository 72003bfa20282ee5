// Package hostexec is the first process of a command of this machine (the image jobd.dev/host), until it becomes that command. The
// OCI runtime cannot go to the working directory: as root it would make it where it is missing, and may not look at it at all where it is
// on a server that gives root no rights. And only here can be said what is wrong with a program in the words of a shell.
package hostexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// Place is where a container has this program, in the directory of its devices.
	Place = "/dev/.jobd"
	// Flag asks for this: DIR, --, and the command with its arguments.
	Flag = "--host-command"
	// Home stands for the directory that HOME names, or / where that is not there.
	Home = "~"
	// messageLog is read at the container's end: why it has failed.
	messageLog = "/dev/termination-log"
)

// Command returns what makes a container's first process go to a directory and become a command.
func Command(dir string, argv []string) []string {
	return append([]string{Place, Flag, dir, "--"}, argv...)
}

// Instead returns what does the same for another command, from what Command has returned.
func Instead(of, argv []string) ([]string, error) {
	if len(of) < 4 || of[0] != Place || of[1] != Flag {
		return nil, fmt.Errorf("the command of the container is not one of the host: %q", of)
	}
	return Command(of[2], argv), nil
}

// The exit codes of a shell.
const (
	cannotRun = 126
	notFound  = 127
)

// failure is why a command did not run.
type failure struct {
	code int
	text string
}

func failed(err error, format string, args ...any) *failure {
	f := &failure{cannotRun, fmt.Sprintf(format, args...)}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		f.code = notFound
	}
	return f
}

// Main goes to a directory and becomes a command. It returns the exit code if that is not possible.
func Main(dir string, argv []string) int {
	f := become(dir, argv)
	text := "jobd: " + f.text + "\n"
	fmt.Fprint(os.Stderr, text)
	if log, err := os.OpenFile(messageLog, os.O_WRONLY, 0); err == nil {
		_, _ = log.WriteString(f.text)
		_ = log.Close()
	}
	return f.code
}

func become(dir string, argv []string) *failure {
	if dir == Home {
		if dir = os.Getenv("HOME"); os.Chdir(dir) != nil {
			dir = "/"
		}
	}
	if err := os.Chdir(dir); err != nil {
		return failed(err, "cannot go to the working directory %s: %v", dir, reason(err))
	}
	if _, ok := os.LookupEnv("PWD"); !ok {
		_ = os.Setenv("PWD", dir)
	}
	if len(argv) == 0 || argv[0] == "" {
		return &failure{notFound, "there is no command"}
	}
	program, err := find(argv[0], os.Getenv("PATH"))
	if err == nil {
		err = syscall.Exec(program, argv, os.Environ())
	}
	return explain(argv[0], program, err)
}

// find returns where a command is, as a shell looks for it: a name without a slash along the PATH.
func find(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	var closed error
	for _, dir := range filepath.SplitList(path) {
		at := filepath.Join(dir, name)
		if dir == "" || !filepath.IsAbs(at) {
			at = "./" + at
		}
		info, err := os.Stat(at)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err = unix.Access(at, unix.X_OK); err == nil {
			return at, nil
		}
		closed = &fs.PathError{Op: "exec", Path: at, Err: err}
	}
	if closed != nil {
		return closed.(*fs.PathError).Path, closed
	}
	return "", fs.ErrNotExist
}

// explain says why a command could not be executed. program is where it is, as far as that is known.
func explain(name, program string, err error) *failure {
	info, missing := os.Stat(program)
	switch {
	case program == "":
		hint := ""
		if _, err := os.Stat(name); err == nil {
			hint = "; the file of that name in this directory is ./" + name
		}
		return failed(fs.ErrNotExist, "%s: command not found along the PATH (%s)%s", name, os.Getenv("PATH"), hint)
	case missing != nil:
		return failed(missing, "%s: %v", program, reason(missing))
	case info.IsDir():
		return failed(err, "%s: it is a directory", program)
	case errors.Is(err, unix.EACCES) && info.Mode()&0o111 == 0:
		return failed(err, "%s: it is not executable: chmod +x %[1]s, or name its interpreter before it", program)
	case errors.Is(err, unix.EACCES):
		return failed(err, "%s: permission denied: it, or the interpreter in its first line, may not be executed by user %d, "+
			"or is on a file system without programs (noexec)", program, os.Getuid())
	case errors.Is(err, unix.ENOEXEC):
		return failed(err, "%s: it is no program for this machine (%s), and no script with a first line such as #!/usr/bin/python3", program, runtime.GOARCH)
	case errors.Is(err, unix.ENOENT):
		said := interpreter(program)
		if said == "" {
			return failed(err, "%s: it is there, but its dynamic loader is not: it was made for another system", program)
		}
		hint := ""
		if strings.HasSuffix(said, "\r") {
			hint = fmt.Sprintf(" Its lines end with CRLF, as editors on Windows write them: sed -i 's/\\r$//' %s", program)
		}
		return failed(err, "%s: the interpreter in its first line is not there: %q.%s", program, said, hint)
	}
	return failed(err, "%s: %v", program, reason(err))
}

// interpreter returns what the first line of a script names; empty if it is none.
func interpreter(program string) string {
	f, err := os.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	first := make([]byte, 256)
	n, err := io.ReadFull(f, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	line, _, _ := bytes.Cut(first[:n], []byte("\n"))
	said, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return ""
	}
	said = bytes.TrimLeft(said, " \t")
	said, _, _ = bytes.Cut(said, []byte(" "))
	return string(said)
}

// reason leaves out what an error says beside the kernel's reason.
func reason(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}
