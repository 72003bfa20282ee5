package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestWait(t *testing.T) {
	s := openTest(t, Options{NoSync: true})
	if err := s.Wait(t.Context(), s.Version()-1); err != nil {
		t.Errorf("what is there is waited for: %v", err)
	}
	const puts = 200
	done := make(chan error, 1)
	go func() {
		for version := uint64(FirstVersion); version < FirstVersion+puts; version = s.Version() {
			if err := s.Wait(context.Background(), version); err != nil {
				done <- err
				return
			}
			if got := s.Version(); got <= version {
				done <- fmt.Errorf("woken for nothing at version %d", got)
				return
			}
		}
		done <- nil
	}()
	for i := range puts {
		put(t, s, "a", fmt.Sprint(i))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, s.Version()); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), s.Version()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
