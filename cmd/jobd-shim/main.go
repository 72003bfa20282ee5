// Command jobd-shim is a shard: a small process that keeps containers alive without the daemon and writes their logs.
// The daemon starts it and speaks to it over a socket; see package runtime/shard/server. With --init it is the first
// process of a pod whose containers share a PID namespace; see package runtime/processes. With --guard it waits for the
// death of a `jobd run` to clear up after it; see package daemon/ephemeral. With --files it copies files in a container, as
// one of the container's processes; see package runtime/archive. With --namespaces it makes the user namespace of a pod; see
// package runtime/userns/holder. With --host-command it becomes a command of the host, in a container of the image jobd.dev/host; see
// package runtime/hostexec. With --nest it mounts the volumes of a container that are in others, and becomes its OCI runtime; see package
// runtime/shard/server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/jobd/jobd/runtime/archive"
	"github.com/jobd/jobd/runtime/hostexec"
	"github.com/jobd/jobd/runtime/processes"
	"github.com/jobd/jobd/runtime/shard/protocol"
	"github.com/jobd/jobd/runtime/shard/server"
	"github.com/jobd/jobd/runtime/userns/holder"
)

// version is stamped by the linker.
var version = "development"

func main() {
	dir := flag.String("dir", "", "the shard's own `directory`")
	socket := flag.String("socket", "", "`path` of its socket (default: shard.sock in the directory)")
	readyFD := flag.Int("ready-fd", -1, "file `descriptor` to write to when the socket is open")
	initDir := flag.String("init", "", "be the first process of a pod that has this `directory`")
	users := flag.String("user-namespace", "", "with --init: `path` of the user namespace to be it in")
	idle := flag.Bool("idle", false, "do nothing until killed")
	files := flag.Bool("files", false, "copy files in a container: pack PATH, or unpack PATH NAME")
	hostCommand := flag.String(hostexec.Flag[2:], "", "go to a `directory`, and become the command that follows")
	guard := flag.Bool("guard", false, "wait for the end of the standard input, and then become the program that follows")
	namespaces := flag.String(holder.Flag[2:], "", "make `namespaces` with a range of ids, until the end of the standard input")
	nest := flag.String(server.NestFlag[2:], "", "mount volumes in volumes for the `bundle` of a container, and become its OCI runtime")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
		fmt.Printf("jobd-shim %s (%s, protocol %d)\n", version, runtime.Version(), protocol.Version)
		return
	}
	if *nest != "" {
		if err := server.Nest(*nest); err != nil {
			os.Exit(1)
		}
		return
	}
	if *hostCommand != "" {
		os.Exit(hostexec.Main(*hostCommand, flag.Args()))
	}
	if *files {
		if err := archive.Inside(context.Background(), flag.Args(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			if errors.Is(err, fs.ErrNotExist) {
				os.Exit(archive.NotExist)
			}
			os.Exit(1)
		}
		return
	}
	if *namespaces != "" {
		if err := holder.Main(*namespaces, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if *idle {
		for {
			_ = syscall.Pause()
		}
	}
	if *guard {
		_, _ = io.Copy(io.Discard, os.Stdin)
		err := syscall.Exec(flag.Arg(0), flag.Args(), os.Environ())
		fmt.Fprintln(os.Stderr, "jobd-shim:", flag.Arg(0), err)
		os.Exit(1)
	}
	if *initDir != "" {
		var err error
		if *users == "" {
			err = processes.Init(*initDir)
		} else if err = processes.Join(*initDir, *users); err == nil {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "jobd-shim:", err)
			os.Exit(1)
		}
	}
	if *dir == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "jobd-shim is started by jobd; it needs --dir")
		os.Exit(2)
	}
	// Its garbage is what a few requests leave. There may be many shards, so memory matters more than the time spent on
	// collecting it.
	debug.SetGCPercent(20)
	var ready *os.File
	if *readyFD >= 0 {
		ready = os.NewFile(uintptr(*readyFD), "ready")
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := server.Run(*dir, *socket, ready, server.Options{Build: version, Logger: logger}); err != nil {
		logger.Error("cannot serve as a shard", "path", *dir, "error", err)
		os.Exit(1)
	}
}
