package image

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jobd/jobd/runtime"
)

func TestAFlightIsSharedAndEachMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		runs, gate := 0, make(chan struct{})
		work := func(_ context.Context, report func(string)) (runtime.Image, error) {
			runs++
			report("first")
			report("second")
			<-gate
			return runtime.Image{Name: "x"}, nil
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := f.do(ctx, "k", nil, work)
			left <- err
		}()
		got := make(chan string, 10)
		for range 3 {
			go func() {
				var seen string
				image, err := f.do(t.Context(), "k", func(line string) { seen = line }, work)
				if err != nil {
					seen = err.Error()
				}
				got <- image.Name + " " + seen
			}()
		}
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves gets %v", err)
		}
		close(gate)
		for range 3 {
			if s := <-got; s != "x second" {
				t.Errorf("who stays gets %q, want the image and the last line", s)
			}
		}
		if runs != 1 || len(f.running) != 0 {
			t.Errorf("%d runs, %d left", runs, len(f.running))
		}
	})
}

func TestAFlightIsCancelledByTheLastOneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		cancelled := make(chan struct{})
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		work := func(ctx context.Context, _ func(string)) (runtime.Image, error) {
			<-ctx.Done()
			close(cancelled)
			return runtime.Image{}, ctx.Err()
		}
		for _, ctx := range []context.Context{first, second} {
			go func() { _, _ = f.do(ctx, "k", nil, work) }()
			synctest.Wait()
		}
		leaveFirst()
		synctest.Wait()
		select {
		case <-cancelled:
			t.Error("cancelled while somebody waits")
		default:
		}
		leaveSecond()
		<-cancelled
		// Who comes after that starts anew.
		image, err := f.do(t.Context(), "k", nil, func(context.Context, func(string)) (runtime.Image, error) {
			return runtime.Image{Name: "new"}, nil
		})
		if image.Name != "new" || err != nil {
			t.Errorf("got %v, %v", image, err)
		}
	})
}

func TestASlowReaderOfProgressDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		hold := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = f.do(t.Context(), "k", func(string) { <-hold }, func(_ context.Context, report func(string)) (runtime.Image, error) {
				for range 100 {
					report("line")
				}
				return runtime.Image{}, nil
			})
		}()
		synctest.Wait()
		f.mu.Lock()
		if len(f.running) != 0 {
			t.Error("the work waits for who reads its progress")
		}
		f.mu.Unlock()
		close(hold)
		<-done
	})
}
