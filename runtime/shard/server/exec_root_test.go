package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// execResult is what a process that has ended said.
type execResult struct {
	code        int
	out, errOut string
}

// execute runs a process to its end.
func (b *bed) execute(id string, e protocol.Exec, stdin string) execResult {
	b.t.Helper()
	p, err := b.Exec(b.context(), id, e)
	must(b.t, err)
	defer p.Close()
	if e.Stdin {
		go func() {
			io.WriteString(p.Stdin, stdin)
			if !e.TTY {
				p.Stdin.Close()
			}
		}()
	}
	var out, errOut bytes.Buffer
	done := make(chan error, 2)
	go func() { done <- p.Copy(&out, p.Stdout) }()
	if p.Stderr != nil {
		must(b.t, p.Copy(&errOut, p.Stderr))
	}
	must(b.t, <-done)
	code, err := p.Wait(b.context())
	must(b.t, err)
	return execResult{code, out.String(), errOut.String()}
}

// runWithTerminals starts a container that terminals can be made in.
func (b *bed) runWithTerminals(id string, args ...string) {
	b.t.Helper()
	spec := b.spec(id, args...)
	spec.Mounts = append(spec.Mounts, devpts())
	_, err := b.Start(b.context(), b.request(id, spec))
	must(b.t, err)
}

func devpts() specs.Mount {
	return specs.Mount{
		Destination: "/dev/pts", Type: "devpts", Source: "devpts",
		Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"},
	}
}

func TestExec(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.runWithTerminals("c", "sleep", "100")
		for _, c := range []struct {
			name  string
			e     protocol.Exec
			stdin string
			want  execResult
		}{
			{"an exit code and both streams", protocol.Exec{Args: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}}, "", execResult{7, "out\n", "err\n"}},
			{"a signal", protocol.Exec{Args: []string{"sh", "-c", "kill -9 $$"}}, "", execResult{137, "", ""}},
			{"nothing to read", protocol.Exec{Args: []string{"cat"}}, "", execResult{0, "", ""}},
			{
				"what was written to it", protocol.Exec{Args: []string{"cat"}, Stdin: true}, strings.Repeat("\x00\xff\n", 100000),
				execResult{0, strings.Repeat("\x00\xff\n", 100000), ""},
			},
			{"output held open by another process", protocol.Exec{Args: []string{"sh", "-c", "sleep 100 & echo done"}}, "", execResult{0, "done\n", ""}},
			{"the container's processes", protocol.Exec{Args: []string{"sh", "-c", "read x < /proc/1/cmdline; test $$ -gt 1"}}, "", execResult{0, "", ""}},
			{
				"a terminal",
				protocol.Exec{Args: []string{"sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo $TERM"}, TTY: true}, "",
				execResult{0, "xterm\r\n", ""},
			},
			{
				"a terminal that is written to",
				protocol.Exec{Args: []string{"sh", "-c", "read x; echo got $x; exit 3"}, TTY: true, Stdin: true}, "word\n",
				execResult{3, "word\r\ngot word\r\n", ""},
			},
		} {
			if got := b.execute("c", c.e, c.stdin); got != c.want {
				t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
			}
		}

		var start *protocol.StartError
		if _, err := b.Exec(b.context(), "c", protocol.Exec{Args: []string{"nosuchcommand"}}); !errors.As(err, &start) ||
			!strings.Contains(start.Message, "nosuchcommand") {
			t.Errorf("no such command: %v", err)
		}
		if _, err := b.Exec(b.context(), "unknown", protocol.Exec{Args: []string{"true"}}); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("no such container: %v", err)
		}
		_, err := b.Delete(b.context(), "c")
		must(t, err)
		b.nothingIsLeft()
	})
}

// What is executed in a container is ended for want of memory as what the container was started with, and not spared as the shard, which
// all others would pay for.
func TestExecIsNotSpared(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		const score = 500
		spec := b.spec("c", "sleep", "100")
		spec.Process.OOMScoreAdj = new(score)
		spec.Mounts = append(spec.Mounts, devpts())
		_, err := b.Start(b.context(), b.request("c", spec))
		must(t, err)
		const script = "for p in self 1; do read x </proc/$p/oom_score_adj; echo $x; done"
		for _, tty := range []bool{false, true} {
			got := b.execute("c", protocol.Exec{Args: []string{"sh", "-c", script}, TTY: tty}, "")
			if out := strings.Fields(got.out); got.code != 0 || !slices.Equal(out, []string{"500", "500"}) {
				t.Errorf("with a terminal %t the scores are %+v", tty, got)
			}
		}
		// What the OCI runtime is told is longer than a pipe holds.
		long := protocol.Exec{Args: []string{"echo", strings.Repeat("x", 100_000)}}
		if got := b.execute("c", long, ""); got.code != 0 || len(got.out) != 100_001 {
			t.Errorf("a long one: %d, %d bytes", got.code, len(got.out))
		}
		_, err = b.Delete(b.context(), "c")
		must(t, err)
		b.nothingIsLeft()
	})
}

func TestExecEnds(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.runWithTerminals("c", "sleep", "100")
		alive := func() bool {
			return strings.Contains(b.execute("c", protocol.Exec{Args: []string{"sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"}}, "").out, "sleep 77")
		}

		p, err := b.Exec(b.context(), "c", protocol.Exec{Args: []string{"sleep", "77"}})
		must(t, err)
		for late := time.Now().Add(time.Minute); !alive(); { // runc says that it runs a moment before it has its own name
			if time.Now().After(late) {
				t.Fatal("it does not run")
			}
		}
		p.Close()
		for late := time.Now().Add(time.Minute); alive(); {
			if time.Now().After(late) {
				t.Fatal("it outlives whoever has asked for it")
			}
		}

		p, err = b.Exec(b.context(), "c", protocol.Exec{Args: []string{"sh", "-c", "sleep 77; true"}, TTY: true, Stdin: true})
		must(t, err)
		defer p.Close()
		must(t, p.Resize(100, 40))
		waiting, cancel := context.WithTimeout(b.context(), 10*time.Millisecond)
		defer cancel()
		if _, err := p.Wait(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait for one that runs: %v", err)
		}
		_, err = b.Delete(b.context(), "c")
		must(t, err)
		if code, err := p.Wait(b.context()); err != nil || code != 137 {
			t.Errorf("with its container it ended as %d, %v", code, err)
		}
	})
}

// Whoever has started a process may leave: it gets what was written to it, and the end of its input, and goes on.
func TestExecOutlives(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.runWithTerminals("c", "sleep", "1000")
		const dir = "/tmp/left"
		sh := func(script string) execResult {
			t.Helper()
			return b.execute("c", protocol.Exec{Args: []string{"sh", "-c", script}}, "")
		}
		sh("busybox mkdir " + dir)
		for name, c := range map[string]struct {
			e     protocol.Exec
			stdin string
			want  string // in the file that is named after the case
		}{
			"its input": {protocol.Exec{Args: []string{"sh", "-c", "cat >@; echo end >>@"}, Stdin: true}, "words\n", "words\nend\n"},
			// More than a pipe holds, and the process is not told that nobody reads it.
			"its output": {protocol.Exec{Args: []string{"sh", "-c", "cat; seq 100000; seq 100000 >&2; echo $? >@"}, Stdin: true}, "", "0\n"},
			"no input":   {protocol.Exec{Args: []string{"sh", "-c", "sleep 0.1; echo end >@"}}, "", "end\n"},
			"its terminal": { // what it has read is not yet what it has done about it
				protocol.Exec{
					Args: []string{"sh", "-c", "trap hung=1 HUP; read x; echo $x >@; until [ \"$hung\" ]; do sleep 0.01; done; echo hung up >>@"},
					TTY:  true, Stdin: true,
				},
				"typed\n", "typed\nhung up\n",
			},
			"what it reads": {
				protocol.Exec{Args: []string{"sh", "-c", "trap '' HUP; sleep 0.3; head -n1 >@"}, TTY: true, Stdin: true},
				"typed\n", "typed\n",
			},
		} {
			file := dir + "/" + strings.ReplaceAll(name, " ", "-")
			c.e.Args[2] = strings.ReplaceAll(c.e.Args[2], "@", file)
			c.e.Outlives = true
			p, err := b.Exec(b.context(), "c", c.e)
			must(t, err)
			if c.e.Stdin {
				_, err := io.WriteString(p.Stdin, c.stdin)
				must(t, err)
			}
			if c.e.TTY {
				p.Taken(b.context())
			}
			p.Close()
			for late := time.Now().Add(time.Minute); ; {
				if got := sh("cat " + file).out; got == c.want {
					break
				} else if time.Now().After(late) {
					t.Errorf("%s: got %q, want %q", name, got, c.want)
					break
				}
			}
		}
		// It ends with its container.
		p, err := b.Exec(b.context(), "c", protocol.Exec{Args: []string{"sh", "-c", "trap '' HUP TERM; while :; do echo word; done"}, Outlives: true})
		must(t, err)
		p.Close()
		_, err = b.Delete(b.context(), "c")
		must(t, err)
		b.nothingIsLeft()
	})
}

func TestOutlivingExecsAreBounded(t *testing.T) {
	c := &container{record: startRecord{Start: protocol.Start{ID: "c"}}}
	var release func()
	for range maxOutliving {
		var err error
		if release, err = c.admitExec(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.admitExec()
	if got := protocol.DecodeError(protocol.EncodeError(err)); !errors.Is(got, errdefs.ErrResourceExhausted) ||
		!strings.Contains(got.Error(), "256 processes") {
		t.Errorf("one too many: %v", got)
	}
	release()
	release()
	if _, err := c.admitExec(); err != nil {
		t.Errorf("in the place of one that has ended: %v", err)
	}
	if _, err := c.admitExec(); err == nil {
		t.Error("an end counts twice")
	}
}
