package joblogs

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/jobd/jobd/internal/heap"
	"github.com/jobd/jobd/runtime/logs"
)

// lastLine is one of the lines of a Job that were written last.
type lastLine struct {
	at  time.Time
	log int // which log it is in
}

func (l lastLine) Before(other lastLine) bool { return l.at.Before(other.at) }
func (lastLine) Moved(int)                    {}

// tail returns how many lines of each log are among the last ones that a Job has written, whichever pods they are from.
func (l *jobLogs) tail(ctx context.Context, all []recorded, lines int64) (map[attemptLog]int64, error) {
	over, err := l.shares.tail(ctx)
	if err != nil {
		return nil, err
	}
	defer over()
	var last heap.Heap[lastLine] // the earliest of them first
	of := map[attemptLog]int64{}
	o := readOptions(l.opts.Pod())
	for i, log := range all {
		of[log.attemptLog] = 0
		if lines <= 0 {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err := logs.LastLines(l.path(log), o, func(at time.Time) bool {
			if int64(len(last)) == lines {
				if !at.After(last[0].at) {
					return false // nor are those before it
				}
				last.Pop()
			}
			last.Push(lastLine{at, i})
			return true
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, line := range last {
		of[all[line.log].attemptLog]++
	}
	return of, nil
}
