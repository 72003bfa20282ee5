// Command attacker tries, from within a container, to get at what is not the container's: the host, its kernel and other
// containers. It prints a line for each attempt: whether it "held" or was "BROKEN", its name, and why. What fails for a
// reason that no guard gives is "UNCLEAR": such an attempt proves nothing. It ends with 1 unless all held.
//
// Attempts do no harm where they get through, so that they can also be run where they should: with -privileged it ends
// with 1 unless all those get through that a privileged container may make. A new attempt is one more entry in one of
// the lists.
//
//	attacker [-privileged] [-device PATH] [-names] [NAME...]
//	attacker overwrite FILE    tries to write over each program that runs in its PID namespace, until there is the file
//	attacker crowd             takes connections and requests of the API, without end
//	attacker take SOCKET       keeps the files that others send to a UNIX socket
//	attacker give SOCKET SIZE  sends it a file of so many bytes in memory
//	attacker sleep             waits for a signal, to be attacked from within by exec
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attempt is one attack.
type attempt struct {
	name string
	// try makes it. It returns nil if it got through.
	try func() error
	// also are errors, in addition to those of denied, with which a guard may refuse this attempt.
	also []error
	// privileged: it gets through in a privileged container whose user is root.
	privileged bool
}

// denied are the errors with which guards refuse. ENOSYS is the answer of system call filters, and of kernels without
// the call.
var denied = []error{unix.EPERM, unix.EACCES, unix.EROFS, unix.ENOSYS, errNothing}

// errNothing is returned by an attempt to find something where there is nothing to find.
var errNothing = errors.New("nothing is there")

// timeLimit bounds one attempt: they take milliseconds.
const timeLimit = time.Minute

func attempts() []attempt {
	if *blockDevice != "" {
		return deviceAttempts
	}
	return slices.Concat(kernelAttempts, fileAttempts, processAttempts)
}

func main() {
	privileged := flag.Bool("privileged", false, "expect the attempts to get through that a privileged container may make")
	names := flag.Bool("names", false, "print the names of the attempts")
	flag.Parse()
	switch flag.Arg(0) {
	case "one":
		one(flag.Arg(1))
	case "overwrite":
		overwrite(flag.Arg(1))
		return
	case "crowd":
		fmt.Fprintln(os.Stderr, crowd())
		os.Exit(1)
	case "take":
		fmt.Fprintln(os.Stderr, take(flag.Arg(1)))
		os.Exit(1)
	case "give":
		if err := give(flag.Arg(1), flag.Arg(2)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case "sleep":
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, unix.SIGTERM, unix.SIGINT)
		<-ended
		return
	}
	failed := false
	for _, a := range attempts() {
		switch {
		case flag.NArg() > 0 && !slices.Contains(flag.Args(), a.name), *privileged && !a.privileged:
		case *names:
			fmt.Println(a.name)
		default:
			outcome := run(a)
			fmt.Println(outcome)
			if strings.HasPrefix(outcome, "held ") == *privileged {
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

// run makes an attempt in a process of its own: what it does to itself ends with it.
func run(a attempt) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-device", *blockDevice, "one", a.name)
	out, err := cmd.CombinedOutput() // what is found is named before the outcome
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "UNCLEAR " + a.name + ": it hangs"
	case errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signaled():
		return "held " + a.name + ": " + ended.String()
	case err != nil:
		return fmt.Sprintf("UNCLEAR %s: %v %s", a.name, err, out)
	}
	found, outcome, ok := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !ok {
		return found
	}
	return outcome + ": " + found
}

// one makes an attempt in this process, and ends.
func one(name string) {
	all := attempts()
	a := all[slices.IndexFunc(all, func(a attempt) bool { return a.name == name })]
	err := a.try()
	isOneOf := func(list []error) bool {
		return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case err == nil:
		fmt.Println("BROKEN", name)
	case isOneOf(denied) || isOneOf(a.also):
		fmt.Printf("held %s: %v\n", name, err)
	default:
		fmt.Printf("UNCLEAR %s: %v\n", name, err)
	}
	os.Exit(0)
}

// call makes a system call and drops all of its results except the error.
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

// socket makes a socket.
func socket(domain, kind, protocol int) func() error {
	return func() error {
		_, err := unix.Socket(domain, kind, protocol)
		return err
	}
}

// rewrite opens a file for writing and writes what is in it.
func rewrite(path string) func() error {
	return func() error {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrPermission) { // some can only be written
			return err
		}
		return os.WriteFile(path, content, 0)
	}
}

// openToWrite opens a file for writing, and leaves it at that.
func openToWrite(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

// read reads something from a file. An empty file counts as nothing.
func read(path string) func() error {
	return func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := f.Read(make([]byte, 1))
		if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return errNothing
		}
		return err
	}
}

// overwrite looks in its PID namespace for programs other than its own until a file exists and it has seen one, and tries
// to overwrite each. An OCI runtime that joins a container is such a program for a moment (CVE-2019-5736).
func overwrite(until string) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	seen := 0
	for {
		if _, err := os.Stat(until); err == nil && seen > 0 {
			break
		}
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			program, err := os.Open("/proc/" + e.Name() + "/exe")
			if err != nil {
				continue
			}
			if info, err := program.Stat(); err == nil && !os.SameFile(own, info) {
				seen++
				if target, err := writeOver(program); err == nil {
					fmt.Println("BROKEN overwrite:", target)
				}
			}
			program.Close()
		}
	}
	fmt.Println("programs seen:", seen)
}

// writeOver opens a program for writing, and says which it was.
func writeOver(program *os.File) (string, error) {
	path := fmt.Sprintf("/proc/self/fd/%d", program.Fd())
	target, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(target, "/bin/") {
		return "", errNothing // the container's own
	}
	// While the program runs, nobody may write to it. It may end at any time.
	for range 1000 {
		if err = openToWrite(path)(); !errors.Is(err, unix.ETXTBSY) {
			break
		}
	}
	return target, err
}
