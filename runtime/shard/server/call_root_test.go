package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// hangs makes an OCI runtime that hangs, with a process below it in a group and session of its own, when it is to do one
// thing for a container whose ID begins with "hang". Otherwise it is that of the bed. It returns what the command lines
// of its processes hold.
func (b *bed) hangs(doing string) string {
	b.t.Helper()
	mark := "9" + fmt.Sprint(time.Now().UnixNano())[5:] // of seconds
	path := filepath.Join(b.dir, "runtime-that-hangs")
	script := fmt.Sprintf(`#!/bin/sh
for last; do :; done
case "$*,$last" in
*" %s "*,hang*) setsid sh -c 'sleep %s; :' & sleep %s ;;
esac
exec %s "$@"
`, doing, mark, mark, b.runtime)
	must(b.t, os.WriteFile(path, []byte(script), 0o755))
	b.runtime = path
	return mark
}

// processesWith counts the processes whose command lines contain a word.
func processesWith(word string) int {
	n := 0
	for _, p := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.Contains(string(line), word) {
			n++
		}
	}
	return n
}

func (b *bed) eventually(what string, is func() bool) {
	b.t.Helper()
	for late := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			b.t.Fatalf("not in time: %s", what)
		}
	}
}

func TestStartThatHangs(t *testing.T) {
	for what, end := range map[string]func(b *bed) error{
		"is killed in time":    nil,
		"is called off":        func(b *bed) error { return b.CallOff(b.context(), "hang") },
		"ends by its deletion": func(b *bed) error { _, err := b.Delete(b.context(), "hang"); return err },
	} {
		t.Run(what, func(t *testing.T) {
			eachRuntime(t, func(t *testing.T, b *bed) {
				mark := b.hangs("run")
				request := b.request("hang", b.spec("hang", "true"))
				if end == nil {
					request.RuntimeTimeout = 3 * time.Second
				}
				started := make(chan error, 1)
				go func() {
					_, err := b.Start(b.context(), request)
					started <- err
				}()
				b.eventually("the OCI runtime hangs", func() bool { return processesWith(mark) == 3 })
				if end != nil {
					must(t, end(b))
				}
				err := <-started
				if n := processesWith(mark); n != 0 {
					t.Errorf("%d processes of the OCI runtime are left", n)
				}
				var failed *protocol.StartError
				if end == nil {
					if !errors.As(err, &failed) || failed.Message != "the OCI runtime has not come to an end within 3s, and was killed" {
						t.Errorf("the start failed with %v", err)
					}
					if c := b.exit("hang"); c.StartError == "" {
						t.Errorf("ended as %+v", c)
					}
					_, err = b.Delete(b.context(), "hang")
					must(t, err)
				} else if !errors.Is(err, errdefs.ErrAborted) || errors.As(err, &failed) {
					t.Errorf("the start failed with %v", err)
				}
				b.nothingIsLeft()
				if len(b.exits) > 0 {
					t.Errorf("a start that was given up was reported as an end: %+v", <-b.exits)
				}
				// The name is free again.
				must(t, os.Remove(b.runtime))
				must(t, os.WriteFile(b.runtime, []byte("#!/bin/sh\nexec "+strings.Split(t.Name(), "/")[2]+" \"$@\"\n"), 0o755))
				b.run("hang", "true")
				b.exit("hang")
			})
		})
	}
}

func TestCallOffOfWhatRuns(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("c", "sleep", "1000")
		if err := b.CallOff(b.context(), "c"); !errors.Is(err, errdefs.ErrFailedPrecondition) {
			t.Errorf("the start of one that runs was called off: %v", err)
		}
		if err := b.CallOff(b.context(), "other"); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("the start of one that is not known was called off: %v", err)
		}
	})
}

func TestExecThatHangs(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		mark := b.hangs("exec")
		request := b.request("hang", b.spec("hang", "sleep", "1000"))
		request.RuntimeTimeout = 3 * time.Second
		_, err := b.Start(b.context(), request)
		must(t, err)

		ctx, cancel := context.WithCancel(b.context())
		failed := make(chan error, 1)
		go func() {
			_, err := b.Exec(ctx, "hang", protocol.Exec{Args: []string{"true"}})
			failed <- err
		}()
		b.eventually("the OCI runtime hangs", func() bool { return processesWith(mark) > 0 })
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("it failed with %v", err)
		}
		b.eventually("nothing is left once nobody waits for it", func() bool { return processesWith(mark) == 0 })

		var late *protocol.StartError
		if _, err := b.Exec(b.context(), "hang", protocol.Exec{Args: []string{"true"}}); !errors.As(err, &late) {
			t.Errorf("it failed with %v", err)
		}
		if n := processesWith(mark); n != 0 {
			t.Errorf("%d processes of the OCI runtime are left", n)
		}
		left, err := filepath.Glob(filepath.Join(b.options.Dir, "containers/hang/exec-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("files are left: %v, %v", left, err)
		}
	})
}

// TestLaunchThatHangs checks that a launch that occupies its thread holds up no other.
func TestLaunchThatHangs(t *testing.T) {
	b := newBed(t, "crun")
	l, err := newLauncher("", 0)
	must(t, err)
	files, err := nullFiles(hostNull)
	must(t, err)
	defer protocol.CloseAll(files[:])
	blocked, goOn, late := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := l.launch(t.Context(), launch{rootfs: b.dir, argv: []string{"/bin/true"}, files: files, before: func() error {
			close(blocked)
			<-goOn
			return context.Canceled
		}})
		late <- err
	}()
	<-blocked
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, _, err := l.launch(ctx, launch{argv: []string{"/bin/true"}, files: files}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that is not waited for: %v", err)
	}
	if _, _, err := l.launch(t.Context(), launch{argv: []string{"/bin/true"}, files: files}); err != nil {
		t.Errorf("one that comes later: %v", err)
	}
	close(goOn)
	if err := <-late; !errors.Is(err, context.Canceled) {
		t.Errorf("the first one: %v", err)
	}
}
