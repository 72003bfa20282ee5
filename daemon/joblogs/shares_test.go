package joblogs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/internal/fairshare"
)

func as(ctx context.Context, name string) context.Context {
	return flowcontrol.WithClient(ctx, &user.DefaultInfo{Name: name})
}

// eventually waits until something is so.
func (f *followed) eventually(is func() error) {
	f.t.Helper()
	var err error
	for range 1000 {
		if err = is(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Fatal(err)
}

// A Job of many pods that is followed by many takes an open file for each log and each follower: those are shared out.
func TestFollowedLogsAreBounded(t *testing.T) {
	f := newFollowed(t)
	f.shares.followed = fairshare.New(fairshare.Limits{Total: 40, User: 10})
	const n = 4
	var all []*corev1.Pod
	for i := range n {
		p := f.pod(fmt.Sprint("p", i))
		is(p, running)
		all = append(all, p)
	}
	f.save(all...)
	open := func(who string) (io.ReadCloser, error) {
		return f.OpenJob(as(t.Context(), who), f.job, &batch.JobLogOptions{Follow: true})
	}
	for _, p := range all {
		f.says(p, "one")
	}
	whole := func(r io.Reader) error {
		out := bufio.NewScanner(r)
		for range n {
			if !out.Scan() {
				return fmt.Errorf("it ends with %v", out.Err())
			}
		}
		return nil
	}
	first, err := open("a")
	f.must(err)
	second, err := open("a")
	f.must(err)
	f.must(whole(first))
	f.must(whole(second))
	if _, err := open("a"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more of the same user: %v", err)
	}
	other, err := open("b")
	f.must(err)
	f.must(whole(other))
	f.must(first.Close())
	f.eventually(func() error { // what it held is free, but there are none for all the logs of two
		third, err := open("a")
		if err != nil {
			return err
		}
		defer third.Close()
		return whole(third)
	})
	f.must(second.Close())
	f.must(other.Close())
	f.eventually(func() error {
		if held, _, _ := f.shares.followed.Figures(); held != 0 {
			return fmt.Errorf("%d places are still held", held)
		}
		return nil
	})
}

// Lines that never end are held back only while there is room for them, and are then written as they come.
func TestHeldLinesAreBounded(t *testing.T) {
	s := newShares()
	var out strings.Builder
	m := &lineMerger{w: &out, remaining: -1, held: s.lines(as(t.Context(), "a"))}
	const piece, sources = 32 << 10, 64
	var all []*lineSource
	for range sources {
		all = append(all, &lineSource{to: m})
	}
	written := 0
	for range (maxHeldLine / piece) - 1 {
		for _, to := range all {
			if _, err := to.Write([]byte(strings.Repeat("x", piece))); err != nil {
				t.Fatal(err)
			}
			written += piece
			held := 0
			for _, s := range all {
				held += len(s.held)
			}
			if most := maxHeldOfOne + sources*shortLine; held > most {
				t.Fatalf("%d bytes are held, more than %d", held, most)
			}
		}
	}
	for _, to := range all {
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), "x"); got != written {
		t.Errorf("%d bytes of %d are written", got, written)
	}
	if held, _ := s.held.Held(); held != 0 || m.held.bytes.Load() != 0 {
		t.Errorf("%d bytes are still counted, %d of the request", held, m.held.bytes.Load())
	}
	// Others have room for theirs.
	if !s.lines(as(t.Context(), "b")).grow(maxHeldLine) {
		t.Error("another user has no room")
	}
}

// The last lines of a Job are looked for by few at a time, since they are held meanwhile; and by everybody.
func TestTailsTakeTurns(t *testing.T) {
	f := newFollowed(t)
	p := f.pod("p")
	is(p, exited)
	f.save(p)
	f.says(p, "one")
	f.shares.tails = fairshare.New(fairshare.Limits{Total: 2, User: 1})
	over, err := f.shares.tail(as(t.Context(), "a"))
	f.must(err)
	lines := int64(1)
	tail := func(who string) error {
		r, err := f.OpenJob(as(t.Context(), who), f.job, &batch.JobLogOptions{TailLines: &lines})
		if err == nil {
			_, err = io.ReadAll(r)
		}
		return err
	}
	if err := tail("a"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a second one of the same user: %v", err)
	}
	f.must(tail("b"))
	over()
	f.must(tail("a"))
}
