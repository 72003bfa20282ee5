package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/archive"
)

// tarOf returns an archive of one file.
func tarOf(t *testing.T, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: ".", Mode: 0o600, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestExec(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		p := pod("u1", "sleep 100")
		uid := int64(1000)
		p.Spec.Containers[0].WorkingDir = "/tmp"
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &uid}
		c := r.container(t, p, "main")
		r.start(t, c)

		var out, errOut bytes.Buffer
		code, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{
			Args: []string{"sh", "-c", "cat; id -u; pwd; echo err >&2; exit 9"}, Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errOut,
		})
		if err != nil || code != 9 || out.String() != "in\n1000\n/tmp\n" || errOut.String() != "err\n" {
			t.Errorf("got %d, %v, %q, %q", code, err, out.String(), errOut.String())
		}
		// The shim's own program, as the container's user and where the exec is.
		file, archived := []string{"--files", "--", archive.Unpack, "made", "made"}, tarOf(t, "content")
		if code, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{Own: true, Args: file, Stdin: bytes.NewReader(archived)}); err != nil || code != 0 {
			t.Errorf("unpack: %d, %v", code, err)
		}
		out.Reset()
		code, err = r.Exec(t.Context(), c.ID, runtime.ExecRequest{Args: []string{"sh", "-c", "cat /tmp/made; stat -c %u /tmp/made"}, Stdout: &out})
		if err != nil || code != 0 || out.String() != "content1000\n" {
			t.Errorf("unpacked: %d, %v, %q", code, err, out.String())
		}
		errOut.Reset()
		code, err = r.Exec(t.Context(), c.ID, runtime.ExecRequest{Own: true, Args: []string{"--files", "--", archive.Pack, "/nosuch"}, Stderr: &errOut})
		if err != nil || code != archive.NotExist || !strings.Contains(errOut.String(), "/nosuch: no such file") {
			t.Errorf("pack: %d, %v, %q", code, err, errOut.String())
		}
		if code, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{Args: []string{"echo", "dropped"}}); err != nil || code != 0 {
			t.Errorf("without writers: %d, %v", code, err)
		}

		sizes := make(chan runtime.TerminalSize, 1)
		sizes <- runtime.TerminalSize{Width: 77, Height: 33}
		out.Reset()
		code, err = r.Exec(t.Context(), c.ID, runtime.ExecRequest{
			Args: []string{"sh", "-c", "until stty size 2>/dev/null | grep -q '33 77'; do sleep 0.05; done; tty"}, TTY: true, Stdout: &out, Resize: sizes,
		})
		if err != nil || code != 0 || !strings.HasPrefix(out.String(), "/dev/pts/") {
			t.Errorf("with a terminal: %d, %v, %q", code, err, out.String())
		}

		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := r.Exec(ctx, c.ID, runtime.ExecRequest{Args: []string{"sleep", "77"}, Stdout: &out}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that takes too long: %v", err)
		}
		for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			out.Reset()
			if _, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{Args: []string{"ps", "-o", "args"}, Stdout: &out}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "sleep 77") {
				break
			}
			if time.Now().After(late) {
				t.Fatalf("it goes on:\n%s", out.String())
			}
		}

		if _, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{Args: []string{"nosuchcommand"}}); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("no such command: %v", err)
		}
		if _, err := r.Exec(t.Context(), "unknown", runtime.ExecRequest{Args: []string{"true"}}); !errdefs.IsNotFound(err) {
			t.Errorf("no such container: %v", err)
		}
	})
}

// TestExecAtTheEnd starts processes in containers until these have ended: each of them runs, or is told that.
func TestExecAtTheEnd(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		for _, command := range []string{"sleep 0.2", "sleep 0.25", "sleep 0.3"} {
			c := r.container(t, pod("at-the-end-"+strings.Fields(command)[1], command), "main")
			r.start(t, c)
			for {
				_, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{Args: []string{"true"}})
				if errdefs.IsNotFound(err) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Whoever wanted a process, or is attached to one, leaves while input is on its way: all of it arrives.
func TestWhoeverWantedItLeaves(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		run := func(uid, script string, once bool) runtime.Container {
			c := r.container(t, pod(uid, script), "main")
			c.Stdin, c.StdinOnce = uid != "u1", once
			r.start(t, c)
			return c
		}
		said := func(id, script, want string) {
			t.Helper()
			for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				var out bytes.Buffer
				if _, err := r.Exec(t.Context(), id, runtime.ExecRequest{Args: []string{"sh", "-c", script}, Stdout: &out}); err != nil {
					t.Fatal(err)
				}
				if strings.TrimSpace(out.String()) == want {
					return
				}
				if time.Now().After(late) {
					t.Errorf("%s says %q, want %q", script, out.String(), want)
					return
				}
			}
		}
		gone := make(chan struct{})
		close(gone)
		big := func() io.Reader { return io.LimitReader(zeros{}, 1<<20) } // more than pipes hold
		c := run("u1", "sleep 100", false)
		_, err := r.Exec(t.Context(), c.ID, runtime.ExecRequest{
			Args: []string{"sh", "-c", "sleep 0.3; wc -c >/tmp/exec; seq 100000; echo end >>/tmp/exec"}, Stdin: big(), Stdout: io.Discard, Left: gone,
		})
		if err != nil && !errdefs.IsAborted(err) {
			t.Errorf("exec: %v", err)
		}
		said(c.ID, "cat /tmp/exec | tr '\\n' ' '", "1048576 end")
		_, err = r.Exec(t.Context(), c.ID, runtime.ExecRequest{
			Args: []string{
				"sh", "-c", "sleep 0.3; read x; echo $x >/tmp/tty; sleep 100",
			}, TTY: true, Stdin: strings.NewReader("typed\n"), Stdout: io.Discard, Left: gone,
		})
		if err != nil && !errdefs.IsAborted(err) {
			t.Errorf("exec with a terminal: %v", err)
		}
		said(c.ID, "cat /tmp/tty; ps | grep -c 'read [x]'", "typed\n0")

		ctx, stop := context.WithCancel(t.Context())
		if _, err := r.Exec(ctx, c.ID, runtime.ExecRequest{
			Args: []string{"sh", "-c", "cat; sleep 0.3; echo end >/tmp/stopped"}, Stdin: stopping{stop, ctx}, Stdout: io.Discard, Left: make(chan struct{}),
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("exec when the daemon stops: %v", err)
		}
		said(c.ID, "cat /tmp/stopped", "end")

		for uid, once := range map[string]bool{"u2": false, "u3": true} {
			c := run(uid, "sleep 0.3; head -c 1048576 | wc -c >/tmp/attach; cat; echo end >>/tmp/attach; sleep 100", once)
			if err := r.Attach(t.Context(), c.ID, runtime.AttachRequest{Stdin: big(), Stdout: io.Discard, Left: gone}); err != nil {
				t.Errorf("attach: %v", err)
			}
			want := "1048576"
			if once {
				want += " end"
			}
			said(c.ID, "cat /tmp/attach | tr '\\n' ' '", want)
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// stopping is the input of a client of a daemon that stops.
type stopping struct {
	stop context.CancelFunc
	ctx  context.Context
}

func (s stopping) Read([]byte) (int, error) {
	s.stop()
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
