package storage

import (
	"context"
	"errors"
	"testing"
)

func TestWorkGoesOnAfterTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var w Work
	var said string
	w.After(func() { said += "2" })
	w.After(func() { said += "1" })
	ctx = WithWork(ctx, &w)
	one, err := Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	w.Answered()
	one()
	one() // has ended once
	if said != "" {
		t.Errorf("ended before it was over: %s", said)
	}
	if _, err := Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("began after the answer: %v", err)
	}
	two()
	if said != "12" {
		t.Errorf("ended by %q", said)
	}
}

func TestWorkThatIsOverByTheAnswer(t *testing.T) {
	var w Work
	ended := 0
	w.After(func() { ended++ })
	end, err := Begin(WithWork(t.Context(), &w))
	if err != nil {
		t.Fatal(err)
	}
	if end(); ended != 0 {
		t.Error("ended before the answer")
	}
	if w.Answered(); ended != 1 {
		t.Errorf("ended %d times", ended)
	}
	if end, err := Begin(t.Context()); err != nil {
		t.Error(err)
	} else {
		end()
	}
}
