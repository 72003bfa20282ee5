package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// attached is somebody who is attached, with all that was read so far.
type attached struct {
	*shard.Process
	b    *bed
	mu   sync.Mutex
	seen bytes.Buffer
	done chan error
}

func (a *attached) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen.Write(p)
}

func (a *attached) output() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen.String()
}

// attach attaches to all that there is.
func (b *bed) attach(id string) *attached {
	b.t.Helper()
	p, err := b.Attach(b.context(), id, protocol.Attach{Stdin: true, Stdout: true, Stderr: true})
	must(b.t, err)
	b.t.Cleanup(p.Close)
	a := &attached{Process: p, b: b, done: make(chan error, 2)}
	for _, stream := range []*os.File{p.Stdout, p.Stderr} {
		if stream != nil {
			go func() { a.done <- p.Copy(a, stream) }()
		}
	}
	return a
}

func (a *attached) say(words string) {
	a.b.t.Helper()
	_, err := io.WriteString(a.Stdin, words)
	must(a.b.t, err)
}

func (a *attached) endStdin(id string) {
	a.b.t.Helper()
	must(a.b.t, a.Stdin.Close())
	must(a.b.t, a.b.CloseStdin(a.b.context(), id))
}

func (a *attached) hears(words string) {
	a.b.t.Helper()
	for range 12000 {
		if strings.Contains(a.output(), words) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	a.b.t.Fatalf("does not hear %q, but %q", words, a.output())
}

// talk starts a container that reads, with or without a terminal.
func (b *bed) talk(id string, terminal, once bool, args ...string) {
	b.t.Helper()
	spec := b.spec(id, args...)
	spec.Process.Terminal = terminal
	spec.Mounts = append(spec.Mounts, devpts())
	spec.Process.User = specs.User{UID: 1000, GID: 1000}
	request := b.request(id, spec)
	request.Stdin, request.StdinOnce = true, once
	_, err := b.Start(b.context(), request)
	must(b.t, err)
}

const echoLines = `while read line; do echo "got $line"; echo "err $line" >&2; done; echo end; exit 3`

func TestAttach(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.talk("c", false, false, "sh", "-c", echoLines)
		one, other := b.attach("c"), b.attach("c")
		one.say("a\n")
		one.hears("got a\n")
		other.hears("err a\n")
		other.say("b\n")
		one.hears("got b\n")
		one.Close()
		must(t, other.Stdin.Close())
		b.waitForLog("c", "stdout F got b")

		// Whoever comes later has missed the beginning; the daemon may have been away meanwhile.
		must(t, b.Close())
		b.open()
		late := b.attach("c")
		late.say("c\n")
		late.hears("got c\n")
		if strings.Contains(late.output(), "got a") {
			t.Errorf("one who comes later hears %q", late.output())
		}
		must(t, b.Signal(b.context(), "c", unix.SIGKILL, false))
		if _, err := late.Wait(b.context()); err != nil {
			t.Errorf("at the end: %v", err)
		}
		b.exit("c")
		if got := strings.Join(b.log("c"), "\n"); !strings.Contains(got, "stdout F got c") || !strings.Contains(got, "stderr F err a") {
			t.Errorf("log is %q", got)
		}
		if _, err := b.Attach(b.context(), "c", protocol.Attach{Stdout: true}); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestStdinThatEndsOnce(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.talk("c", false, true, "sh", "-c", echoLines)
		first := b.attach("c")
		first.say("a\n")
		first.hears("got a\n")
		first.Close() // a daemon that dies ends nothing
		second := b.attach("c")
		second.say(strings.Repeat("x", 100000) + "\n")
		second.endStdin("c")
		if end := b.exit("c"); end.ExitCode != 3 {
			t.Errorf("ended as %+v", end)
		}
		second.hears("end\n")
		if _, err := second.Wait(b.context()); err != nil {
			t.Error(err)
		}

		b.talk("closed", false, true, "sh", "-c", "cat; echo ready; sleep 1000")
		third := b.attach("closed")
		third.endStdin("closed")
		third.hears("ready\n")
		if p, err := b.Attach(b.context(), "closed", protocol.Attach{Stdin: true, Stdout: true}); err != nil || p.Stdin != nil {
			t.Errorf("attached to closed stdin: %v", err)
		} else {
			p.Close()
		}
	})
}

func TestTerminal(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.talk(
			"c", true, false, "sh", "-c",
			"test -t 0 && test -t 1 && test -t 2 && echo ready; read x; echo got $x >&2; read y; stty size 2>/dev/null || busybox stty size; exit 4",
		)
		b.waitForLog("c", "stdout F ready\r")
		one := b.attach("c")
		if one.Stderr != nil || !one.Attached.Terminal {
			t.Errorf("attached as %+v", one.Attached)
		}
		one.say("word\n")
		one.hears("got word\r\n")
		must(t, one.Resize(101, 41))
		one.Close()
		must(t, b.Close()) // the shard holds the terminal
		b.open()
		two := b.attach("c")
		two.say("\n")
		two.hears("41 101\r\n")
		if end := b.exit("c"); end.ExitCode != 4 {
			t.Errorf("ended as %+v", end)
		}
		if got := strings.Join(b.log("c"), "\n"); !strings.Contains(got, "stdout F ready\r") ||
			!strings.Contains(got, "stdout F got word\r") || strings.Contains(got, "stderr") {
			t.Errorf("log is %q", got)
		}
	})
}

func TestStartOfATerminalThatFails(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		spec := b.spec("c", "nosuchcommand")
		spec.Process.Terminal = true
		spec.Mounts = append(spec.Mounts, devpts())
		var failed *protocol.StartError
		if _, err := b.Start(b.context(), b.request("c", spec)); !errors.As(err, &failed) || !strings.Contains(failed.Message, "nosuchcommand") {
			t.Errorf("started with %v", err)
		}
		_, err := b.Delete(b.context(), "c")
		must(t, err)
		b.nothingIsLeft()
	})
}

func TestStdinSurvivesTheShard(t *testing.T) {
	b := newBed(t, "crun")
	if !tellsExits() {
		t.Skip("needs Linux 6.15, which tells how an adopted process ends")
	}
	b.talk("c", false, false, "sh", "-c", echoLines)
	b.talk("tty", true, false, "sh", "-c", "trap '' HUP; sleep 1000")
	b.die()
	a := b.attach("c")
	a.say("a\n")
	a.hears("got a\n")
	if _, err := b.Attach(b.context(), "tty", protocol.Attach{Stdout: true}); !errors.Is(err, errdefs.ErrFailedPrecondition) {
		t.Errorf("a terminal that is gone: %v", err)
	}
}

func TestOutputReachesTheEndOfASlowReader(t *testing.T) {
	b := newBed(t, "crun")
	b.talk("c", false, true, "sh", "-c", "read x; seq 1 200000; exit 5")
	p, err := b.Attach(b.context(), "c", protocol.Attach{Stdin: true, Stdout: true})
	must(t, err)
	defer p.Close()
	fmt.Fprintln(p.Stdin, "go")
	held := make([]byte, 10)
	_, err = io.ReadFull(p.Stdout, held)
	must(t, err)
	rest, err := io.ReadAll(p.Stdout)
	must(t, err)
	if end := b.exit("c"); end.ExitCode != 5 {
		t.Errorf("ended as %+v", end)
	}
	if got := string(held) + string(rest); len(got) != 1288895 || !strings.HasSuffix(got, "\n200000\n") {
		t.Errorf("got %d bytes, at the end %q", len(got), got[max(0, len(got)-20):])
	}
	if len(b.log("c")) != 200000 {
		t.Errorf("%d records in the log", len(b.log("c")))
	}
}

func TestWhoDoesNotReadDelaysNoEnd(t *testing.T) {
	b := newBed(t, "crun")
	b.talk("c", false, false, "sh", "-c", "read x; yes")
	p, err := b.Attach(b.context(), "c", protocol.Attach{Stdin: true, Stdout: true})
	must(t, err)
	defer p.Close()
	fmt.Fprintln(p.Stdin, "go")
	b.waitForLog("c", "stdout F y")
	must(t, b.Signal(b.context(), "c", unix.SIGKILL, true))
	if end := b.exit("c"); end.Signal != 9 {
		t.Errorf("ended as %+v", end)
	}
	_, err = b.Delete(b.context(), "c")
	must(t, err)
	got, err := io.ReadAll(p.Stdout)
	if records := b.log("c"); err != nil || len(got)/2 != len(records) {
		t.Errorf("after the end it reads %d bytes of %d lines in the log, %v", len(got), len(records), err)
	}
	if _, err := p.Wait(b.context()); err != nil {
		t.Error(err)
	}
}

func TestAttachersAreBounded(t *testing.T) {
	b := newBed(t, "crun")
	b.talk("c", false, false, "sh", "-c", echoLines)
	var all []*shard.Process
	for {
		p, err := b.Attach(b.context(), "c", protocol.Attach{Stdin: true, Stdout: true})
		if err != nil {
			if !errors.Is(err, errdefs.ErrUnavailable) || len(all) != maxAttached {
				t.Errorf("with %d: %v", len(all), err)
			}
			break
		}
		all = append(all, p)
	}
	for _, p := range all {
		p.Close()
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if p, err := b.Attach(b.context(), "c", protocol.Attach{Stdout: true}); err == nil {
			p.Close()
			break
		} else if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// A container that has closed its output can still be attached to.
func TestAttachToClosedOutput(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		r := b.request("c", b.spec("c", "sh", "-c", "exec >/tmp/out; read x; echo got $x; echo err $x >&2"))
		r.Stdin = true
		_, err := b.Start(b.context(), r)
		must(t, err)
		p, err := b.Attach(b.context(), "c", protocol.Attach{Stdin: true, Stdout: true, Stderr: true})
		must(t, err)
		defer p.Close()
		_, err = io.WriteString(p.Stdin, "word\n")
		must(t, err)
		var out, errOut bytes.Buffer
		must(t, p.Copy(&out, p.Stdout))
		must(t, p.Copy(&errOut, p.Stderr))
		if out.String() != "" || errOut.String() != "err word\n" {
			t.Errorf("heard %q and %q", out.String(), errOut.String())
		}
	})
}
