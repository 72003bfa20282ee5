package forward

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/internal/handover"
)

const (
	// mostFollowed is how many logs are followed at once while their containers run. Those of others are brought when they have ended.
	mostFollowed = 100
	// mostFetched is how many logs of containers that have ended are brought at once.
	mostFetched = 8
	// logPause is how long lines are gathered before they are brought.
	logPause = 200 * time.Millisecond
	// firstLogRetry is how long a log that broke off waits, for the first time.
	firstLogRetry = time.Second
)

// logKey is what an attempt of a container has printed there.
type logKey struct {
	pod       types.UID // there
	container string
	attempt   int
}

// logging knows which logs are being brought, and which have been.
type logging struct {
	mu    sync.Mutex
	known map[key]map[logKey]*bringing // of each pod there
	turn  time.Time                    // when one that has ended had its turn
	// followed and fetched are places.
	followed, fetched chan struct{}
}

// bringing is what is known of one log.
type bringing struct {
	runs, done bool // it is being brought; it was brought to its end
	waits      bool // for its turn
	failures   int  // since it went on for the last time
}

func newLogging() *logging {
	return &logging{known: map[key]map[logKey]*bringing{}, followed: make(chan struct{}, mostFollowed), fetched: make(chan struct{}, mostFetched)}
}

// begin reports whether a log of a pod was brought to its end, and whether the caller is to bring it.
func (l *logging) begin(of key, k logKey) (done, begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[of] == nil {
		l.known[of] = map[logKey]*bringing{}
	}
	b := l.known[of][k]
	if b == nil {
		b = &bringing{}
		l.known[of][k] = b
	}
	if b.runs || b.done {
		return b.done, false
	}
	b.runs = true
	return false, true
}

// end takes in how the bringing of a log ended: it was complete (done), there was no place for it (nil), or it broke off (err).
// It returns how long to wait before going on. Nothing is kept of a pod that was forgotten.
func (l *logging) end(of key, k logKey, done bool, err error) (again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.known[of][k]
	if b == nil {
		return firstLogRetry
	}
	if b.runs, b.done = false, done; done || err == nil {
		return 0
	}
	again = min(firstLogRetry<<min(b.failures, 10), lastRetry)
	b.failures++
	return again
}

// waitsForTurn takes in that a log waits for its turn, and hasTurn that it has it.
func (l *logging) waitsForTurn(of key, k logKey) { l.turns(of, k, true) }

func (l *logging) hasTurn(of key, k logKey, now time.Time) {
	l.turns(of, k, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn = now
}

func (l *logging) turns(of key, k logKey, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.known[of][k]; b != nil {
		b.waits = waits
	}
}

// waits reports whether a log of a pod waits for its turn, and others have had theirs since.
func (l *logging) waits(of key, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.known[of] {
		if b.waits && l.turn.After(since) {
			return true
		}
	}
	return false
}

// goesOn takes in that something of a log was brought.
func (l *logging) goesOn(of key, k logKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.known[of][k]; b != nil {
		b.failures = 0
	}
}

// forget forgets a pod that is gone.
func (l *logging) forget(of key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, of)
}

func podKey(there *corev1.Pod) key { return key{ofPod, there.Namespace, there.Name} }

// bringLogs sees to it that the logs of a pod are brought, and reports whether those of all containers that have ended were. Whoever asks is
// asked again (then) when a log was brought.
func (f *Forwarder) bringLogs(ctx context.Context, here, there *corev1.Pod, then key) (whole bool) {
	whole = true
	for s := range podspec.Statuses(there) {
		attempt := int(s.RestartCount)
		if attempt > 0 && s.LastTerminationState.Terminated != nil {
			whole = f.bringLog(ctx, here, there, logKey{there.UID, s.Name, attempt - 1}, true, false, then) && whole
		}
		switch {
		case s.State.Terminated != nil && s.State.Terminated.ContainerID != "":
			whole = f.bringLog(ctx, here, there, logKey{there.UID, s.Name, attempt}, false, false, then) && whole
		case s.State.Running != nil:
			f.bringLog(ctx, here, there, logKey{there.UID, s.Name, attempt}, false, true, then)
		}
	}
	return whole
}

// bringLog has one log brought beside, unless it is already, and reports whether that has been done.
func (f *Forwarder) bringLog(ctx context.Context, here, there *corev1.Pod, k logKey, previous, runs bool, then key) bool {
	done, begin := f.logs.begin(podKey(there), k)
	if !begin {
		return done
	}
	places := f.logs.fetched
	if runs {
		places = f.logs.followed
		select {
		case places <- struct{}{}:
		default: // it is brought when it has ended
			f.logs.end(podKey(there), k, false, nil)
			return false
		}
	}
	f.beside.Go(func() {
		if !runs {
			f.logs.waitsForTurn(podKey(there), k)
			select {
			case places <- struct{}{}:
				f.logs.hasTurn(podKey(there), k, f.now())
			case <-ctx.Done():
				return
			}
		}
		defer func() { <-places }()
		err := f.carryLog(ctx, here, there, k, previous)
		var lost apierrors.APIStatus
		gone := err != nil && errors.As(err, &lost) && handover.Refused(err) && !apierrors.IsConflict(err)
		again := f.logs.end(podKey(there), k, err == nil || gone, err)
		switch {
		case ctx.Err() != nil:
			return
		case gone:
			f.Logger.Info("there is no log", "pod", there.Namespace+"/"+there.Name, "container", k.container, "attempt", k.attempt, "error", err)
		case err != nil:
			f.Logger.Warn("a log is broken off, and will be brought on", "pod", there.Namespace+"/"+there.Name, "container", k.container, "error", err)
			f.queue.AddAfter(then, again)
			return
		}
		f.queue.Add(then)
	})
	return false
}

// carryLog brings a log from where it ends here to its end there.
func (f *Forwarder) carryLog(ctx context.Context, here, there *corev1.Pod, k logKey, previous bool) error {
	end, err := f.keep(ctx, here, k, clusters.LogEnd{}, nil)
	if err != nil {
		return err
	}
	log, err := f.remote.CoreV1().Pods(there.Namespace).GetLogs(there.Name, &corev1.PodLogOptions{
		Container: k.container, Timestamps: true, Previous: previous, Follow: !previous,
	}).Stream(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	skip := end
	return gather(ctx, log, func(lines []byte) (err error) {
		if lines = skipLines(lines, &skip); len(lines) > 0 {
			if end, err = f.keep(ctx, here, k, end, lines); err == nil {
				f.logs.goesOn(podKey(there), k)
			}
		}
		return err
	})
}

// keep brings lines here.
func (f *Forwarder) keep(ctx context.Context, here *corev1.Pod, k logKey, after clusters.LogEnd, lines []byte) (end clusters.LogEnd, err error) {
	err = f.ask(ctx, func(ctx context.Context) error {
		raw, err := f.local.CoreV1().RESTClient().Post().Namespace(here.Namespace).Resource("pods").Name(here.Name).SubResource("log").
			Param("container", k.container).Param("attempt", strconv.Itoa(k.attempt)).
			Param("time", after.Time.Format(time.RFC3339Nano)).Param("lines", strconv.Itoa(after.Lines)).
			SetHeader("Content-Type", "text/plain").Body(lines).DoRaw(ctx)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &end)
	})
	return end, err
}

// skipLines leaves out the lines of a log that are here, up to where it ends. Once one is left in, skip is empty.
func skipLines(lines []byte, skip *clusters.LogEnd) []byte {
	for skip.Lines > 0 && len(lines) > 0 {
		line, rest, ends := bytes.Cut(lines, []byte{'\n'})
		stamp, _, _ := bytes.Cut(line, []byte{' '})
		at, err := time.Parse(time.RFC3339Nano, string(stamp))
		switch {
		case err == nil && at.After(skip.Time): // what comes before was removed there
			*skip = clusters.LogEnd{}
			return lines
		case err == nil && at.Equal(skip.Time):
			skip.Lines--
		}
		if lines = rest; !ends {
			return nil
		}
	}
	return lines
}

// gather reads lines, and hands them on a few at a time: in whole lines, unless one is very long, or the last one has no end.
func gather(ctx context.Context, from io.Reader, to func([]byte) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type piece struct {
		line []byte
		err  error
	}
	pieces := make(chan piece, 64)
	go func() {
		r := bufio.NewReaderSize(from, 64<<10)
		for {
			line, err := r.ReadSlice('\n')
			p := piece{bytes.Clone(line), err}
			if errors.Is(err, bufio.ErrBufferFull) {
				p.err = nil
			}
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
			if p.err != nil {
				return
			}
		}
	}()
	var lines []byte
	for {
		var p piece
		select {
		case p = <-pieces:
		case <-ctx.Done():
			return ctx.Err()
		}
		pause := time.After(logPause)
		for lines = append(lines[:0], p.line...); p.err == nil && len(lines) < clusters.MostLog/2; lines = append(lines, p.line...) {
			p = piece{}
			select {
			case p = <-pieces:
				continue
			case <-pause:
			case <-ctx.Done():
				return ctx.Err()
			}
			break
		}
		if len(lines) > 0 {
			if err := to(lines); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(p.err, io.EOF):
			return nil
		case p.err != nil:
			return fmt.Errorf("read the log: %w", p.err)
		}
	}
}
