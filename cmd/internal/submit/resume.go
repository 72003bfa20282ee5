package submit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/cmd/internal/progress"
)

// Log is a log that somebody follows, and that is continued where the connection has broken off.
type Log struct {
	// Open opens it from a time on, if there is one. Each line has to begin with the time when it was written, and that of a Job with its
	// source before that.
	Open func(ctx context.Context, since *time.Time) (io.ReadCloser, error)
	// OfJob says that there are sources; Sources and Times that they are to be shown.
	OfJob, Sources, Times bool
	// Labels are shown instead of sources, where there are any.
	Labels progress.Labels
	// Once says that it is not followed, and ends where the connection does.
	Once bool
	// Notice is told that the connection has broken off, and that it is there again.
	Notice func(words string)
}

// Copy writes the log until it ends. first is what Open has returned without a time.
func (l *Log) Copy(ctx context.Context, first io.ReadCloser, to io.Writer) error {
	out := bufio.NewWriter(to)
	var failed error // of writing
	write := func(b []byte) {
		if _, err := out.Write(b); err != nil {
			failed = err
		}
	}
	var head, source []byte // of a line
	parse := func(line []byte) progress.Chunk {
		c := parseTime(progress.Source{}, line)
		source = nil
		if l.OfJob {
			c, source = parsePrefix(line), prefixOf.Find(line)
		}
		head = line[:len(line)-len(c.Text)]
		return c
	}
	show := shown{
		chunk: func(c progress.Chunk) {
			switch {
			case !c.Begins:
			case l.Labels.Any() && c.Pod != "":
				write([]byte(l.Labels.Of(c.Source)))
			case l.Sources:
				write(source)
			}
			if c.Begins && l.Times {
				write(head[len(source):])
			}
			if write(c.Text); c.Ends {
				write([]byte("\n"))
			}
		},
		flush: func() {
			if err := out.Flush(); err != nil {
				failed = err
			}
		},
		flow: &flow{},
	}
	marks := map[containerKey]mark{}
	for body := first; ; {
		err := readLines(body, parse, maps.Clone(marks), marks, show)
		_ = body.Close()
		switch {
		case failed != nil:
			return failed
		case err == nil, ctx.Err() != nil, l.Once:
			return err
		}
		if body, err = l.again(ctx, earliest(marks), err); err != nil {
			return err
		}
	}
}

// again opens the log once more, for as long as that may take.
func (l *Log) again(ctx context.Context, since time.Time, lost error) (io.ReadCloser, error) {
	l.Notice(fmt.Sprintf("the server does not answer, trying again: %v", lost))
	var from *time.Time
	if !since.IsZero() {
		from = &since
	}
	begin := time.Now()
	for backoff := reconnect(); ; {
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		body, err := l.Open(ctx, from)
		var answer apierrors.APIStatus
		switch {
		case err == nil:
			l.Notice("the server answers again")
			return body, nil
		case errors.As(err, &answer) && answer.Status().Code < 500:
			return nil, err
		case time.Since(begin) >= Patience:
			return nil, fmt.Errorf("the server has not answered for %v: %w", Patience, err)
		}
	}
}
