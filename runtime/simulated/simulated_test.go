package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime"
)

func container(uid string, attempt int, annotations map[string]string) runtime.Container {
	return runtime.Container{
		ID: runtime.ContainerID(uid, "c", attempt), PodUID: uid, Name: "c", Attempt: attempt,
		Spec: &specs.Spec{Annotations: annotations},
	}
}

// inBubble runs fn in virtual time with a runtime whose exits arrive at the channel.
func inBubble(t *testing.T, fn func(t *testing.T, r *Runtime, exits chan runtime.Status)) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		defer r.Close()
		exits := make(chan runtime.Status, 200_000)
		r.OnExit(func(s runtime.Status) { exits <- s })
		fn(t, r, exits)
	})
}

func TestContainersEndAsTheirAnnotationsSay(t *testing.T) {
	for _, test := range []struct {
		rule        string
		annotations map[string]string
		attempt     int
		code        int
		after       time.Duration
		startError  string
	}{
		{rule: "without annotations it ends at once with 0"},
		{rule: "it runs for the duration", annotations: map[string]string{Duration: "1m30s"}, after: 90 * time.Second},
		{rule: "it exits with the code", annotations: map[string]string{ExitCode: "42"}, code: 42},
		{rule: "a list is used start by start", annotations: map[string]string{ExitCode: "1,2,0"}, attempt: 1, code: 2},
		{rule: "the last of a list is for all further starts", annotations: map[string]string{ExitCode: "1,2"}, attempt: 7, code: 2},
		{
			rule:        "codes are given by completion index",
			annotations: map[string]string{ExitCode: "3:1, 5:42", "batch.kubernetes.io/job-completion-index": "5"}, code: 42,
		},
		{
			rule:        "an index that is not named exits with 0",
			annotations: map[string]string{ExitCode: "3:1,5:42", "batch.kubernetes.io/job-completion-index": "4"},
		},
		{rule: "without an index codes by index do not count", annotations: map[string]string{ExitCode: "3:1,5:42"}},
		{rule: "a duration that is none is a start error", annotations: map[string]string{Duration: "soon"}, code: 128, startError: Duration},
		{rule: "a negative duration is a start error", annotations: map[string]string{Duration: "-1s"}, code: 128, startError: Duration},
		{rule: "a code that is none is a start error", annotations: map[string]string{ExitCode: "1,x"}, code: 128, startError: ExitCode},
		{rule: "a code above 255 is a start error", annotations: map[string]string{ExitCode: "256"}, code: 128, startError: ExitCode},
		{rule: "an index that is none is a start error", annotations: map[string]string{ExitCode: "a:1"}, code: 128, startError: ExitCode},
		{rule: "a mixture is a start error", annotations: map[string]string{ExitCode: "0,3:1"}, code: 128, startError: ExitCode},
	} {
		t.Run(test.rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *Runtime, exits chan runtime.Status) {
				begun := time.Now()
				if _, err := r.Start(context.Background(), container("p", test.attempt, test.annotations)); err != nil {
					t.Fatal(err)
				}
				got := <-exits
				if got.ExitCode != test.code || got.State != runtime.Exited {
					t.Errorf("got %+v, want exit code %d", got, test.code)
				}
				if after := time.Since(begun); after != test.after || !got.FinishedAt.Equal(begun.Add(test.after)) {
					t.Errorf("ended after %s at %s, want %s", after, got.FinishedAt, test.after)
				}
				if (got.StartError != "") != (test.startError != "") || !strings.Contains(got.StartError, test.startError) {
					t.Errorf("start error %q does not name %q", got.StartError, test.startError)
				}
			})
		})
	}
}

func TestASignalEndsAContainer(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGKILL: 137} {
		inBubble(t, func(t *testing.T, r *Runtime, exits chan runtime.Status) {
			c := container("p", 0, map[string]string{Duration: "1h"})
			if _, err := r.Start(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := r.Signal(t.Context(), c.ID, signal, true); err != nil {
				t.Fatal(err)
			}
			if got := <-exits; got.ExitCode != code || got.FinishedAt.Sub(got.StartedAt) != time.Second {
				t.Errorf("%s: got %+v, want %d after one second", signal, got, code)
			}
			if err := r.Signal(t.Context(), c.ID, signal, true); !errors.Is(err, errdefs.ErrNotFound) {
				t.Errorf("signal to one that has ended: %v", err)
			}
			time.Sleep(2 * time.Hour)
			if len(exits) != 0 {
				t.Error("it has ended twice")
			}
		})
	}
}

func TestAStartTakenAgainFindsTheContainer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Runtime, exits chan runtime.Status) {
		c := container("p", 0, map[string]string{Duration: "1s", ExitCode: "3"})
		first, _ := r.Start(t.Context(), c)
		again, _ := r.Start(t.Context(), c)
		if first.State != runtime.Running || again != first {
			t.Errorf("got %+v, then %+v", first, again)
		}
		<-exits
		if ended, _ := r.Start(t.Context(), c); ended.State != runtime.Exited || ended.ExitCode != 3 {
			t.Errorf("got %+v, want the end", ended)
		}
		if held, _ := r.Containers(t.Context()); len(held) != 1 {
			t.Errorf("holds %d containers", len(held))
		}
		if err := r.Remove(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		if err := r.Remove(t.Context(), c.ID); err != nil {
			t.Errorf("removing one that is not known: %v", err)
		}
		if held, _ := r.Containers(t.Context()); len(held) != 0 || len(exits) != 0 {
			t.Errorf("holds %d containers, %d more exits", len(held), len(exits))
		}
	})
}

func TestExitsComeInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *Runtime, exits chan runtime.Status) {
		const n = 20_000
		for i := range n {
			c := container(fmt.Sprint(i), 0, map[string]string{Duration: fmt.Sprintf("%ds", (i*7919)%1000)})
			if _, err := r.Start(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Time{}
		for range n {
			s := <-exits
			if s.FinishedAt.Before(last) {
				t.Fatalf("%s ended at %s, after one that ended at %s", s.ID, s.FinishedAt, last)
			}
			last = s.FinishedAt
		}
	})
}

func BenchmarkStartExitRemove(b *testing.B) {
	r := New()
	defer r.Close()
	exits := make(chan runtime.Status, 1)
	r.OnExit(func(s runtime.Status) { exits <- s })
	b.ReportAllocs()
	for i := range b.N {
		c := container("p", i, nil)
		if _, err := r.Start(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		<-exits
		_ = r.Remove(b.Context(), c.ID)
	}
}
