package containerd

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
)

// heard keeps what was written to it, and can wait for a text in it.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) waitFor(t *testing.T, words string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		text := h.text.String()
		h.mu.Unlock()
		if strings.Contains(text, words) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("no %q in %q", words, text)
		}
	}
}

func TestAttach(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		start := func(uid string, once bool) runtime.Container {
			c := r.container(t, pod(uid, `while read l; do echo "got $l"; done; echo end; exit 7`), "main")
			c.Stdin, c.StdinOnce = true, once
			r.start(t, c)
			return c
		}

		c := start("u1", false)
		var out heard
		if err := r.Attach(t.Context(), c.ID, runtime.AttachRequest{Stdin: strings.NewReader("a\n"), Stdout: &out}); err != nil {
			t.Errorf("one whose words end: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		silent, words := io.Pipe()
		attached := make(chan error, 1)
		go func() { attached <- r.Attach(ctx, c.ID, runtime.AttachRequest{Stdin: silent, Stdout: &out}) }()
		if _, err := io.WriteString(words, "b\n"); err != nil {
			t.Fatal(err)
		}
		out.waitFor(t, "got b\n")
		cancel()
		if err := <-attached; !errors.Is(err, context.Canceled) {
			t.Errorf("one who is called off: %v", err)
		}
		words.Close()

		once := start("u2", true)
		broken, words := io.Pipe()
		go func() { attached <- r.Attach(t.Context(), once.ID, runtime.AttachRequest{Stdin: broken, Stdout: &out}) }()
		if _, err := io.WriteString(words, "c\n"); err != nil {
			t.Fatal(err)
		}
		out.waitFor(t, "got c\n")
		words.CloseWithError(io.ErrUnexpectedEOF)
		idle, undecided := io.Pipe()
		defer undecided.Close()
		go func() { attached <- r.Attach(t.Context(), once.ID, runtime.AttachRequest{Stdin: idle, Stdout: &out}) }()
		if _, err := io.WriteString(undecided, "i\n"); err != nil { // it must not come after the end
			t.Fatal(err)
		}
		out.waitFor(t, "got i\n")
		var rest heard
		if err := r.Attach(t.Context(), once.ID, runtime.AttachRequest{Stdin: strings.NewReader("d\n"), Stdout: &rest}); err != nil {
			t.Errorf("until the end: %v", err)
		}
		rest.waitFor(t, "got d\nend\n")
		for range 2 {
			if err := <-attached; err != nil {
				t.Errorf("one whose words have failed, or are still to come, sees the end with %v", err)
			}
		}
		r.wait(t, once.ID) // its output ends a moment before it is known to have ended
		if err := r.Attach(t.Context(), once.ID, runtime.AttachRequest{Stdout: &out}); !errdefs.IsNotFound(err) {
			t.Errorf("after the end: %v", err)
		}
		if err := r.Attach(t.Context(), "unknown", runtime.AttachRequest{Stdout: &out}); !errdefs.IsNotFound(err) {
			t.Errorf("no such container: %v", err)
		}
	})
}
