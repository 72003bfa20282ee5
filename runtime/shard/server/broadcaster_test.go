package server

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

func TestListener(t *testing.T) {
	t.Run("one who looks on and does not read is cut off", func(t *testing.T) {
		r, w, err := pipe()
		must(t, err)
		defer r.Close()
		cut := make(chan struct{})
		l := newListener(w, 10*time.Millisecond, func() { close(cut) })
		var a broadcaster
		if !a.add(l) {
			t.Fatal("not added")
		}
		piece := make([]byte, 64<<10)
		for range 2 * heldPieces {
			a.tell(piece)
		}
		<-cut
		<-l.done
		if !errors.Is(l.err(), errdefs.ErrUnavailable) {
			t.Error(l.err())
		}
		a.remove(l)
		if a.listeners.Load() != nil {
			t.Error("somebody still listens")
		}
	})
	t.Run("one who has left is not waited for", func(t *testing.T) {
		r, w, err := pipe()
		must(t, err)
		l := newListener(w, 0, func() {})
		var a broadcaster
		a.add(l)
		r.Close()
		for range 4 * heldPieces {
			a.tell(make([]byte, 64<<10))
		}
		<-l.done
		if l.err() != nil {
			t.Error(l.err())
		}
	})
	t.Run("after the end nobody is waited for, and all is brought", func(t *testing.T) {
		r, w, err := pipe()
		must(t, err)
		defer r.Close()
		var a broadcaster
		a.hurry()
		l := newListener(w, 0, func() {})
		a.add(l)
		const pieces = 3 * heldPieces
		for range pieces {
			a.tell(make([]byte, 64<<10))
		}
		a.end()
		if got, err := io.ReadAll(r); err != nil || len(got) != pieces*64<<10 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if a.add(newListener(w, 0, func() {})) {
			t.Error("somebody listens to the end")
		}
	})
	t.Run("but not any amount", func(t *testing.T) {
		r, w, err := pipe()
		must(t, err)
		defer r.Close() // and not by the garbage collector: nobody is cut off who has left
		var a broadcaster
		a.hurry()
		cut := make(chan struct{})
		a.add(newListener(w, 0, func() { close(cut) }))
		for range restBytes/(64<<10) + 2*heldPieces {
			a.tell(make([]byte, 64<<10))
			select {
			case <-cut:
				return
			default:
			}
		}
		t.Error("it is not cut off")
	})
}
