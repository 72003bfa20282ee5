package loop

import "context"

// question is what somebody asks of the records.
type question struct {
	ask  func()
	done chan struct{}
}

func (l *Loop) answerTo(q question) {
	l.Watch.Begin("a question", "")
	defer l.Watch.End()
	q.ask()
	close(q.done)
}

// Ask calls a function between two passes, when the records of the controllers agree with each other and with the
// store. The function must only read, and not for long: nothing else happens meanwhile. It is not called if Ask returns
// an error, which it does when ctx ends first. It may be called from any goroutine but the loop's.
func (l *Loop) Ask(ctx context.Context, ask func()) error {
	q := question{ask, make(chan struct{})}
	select {
	case l.questions <- q:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-q.done
	return nil
}

// answer answers somebody who asks while there is no pause between the passes.
func (l *Loop) answer() {
	select {
	case q := <-l.questions:
		l.answerTo(q)
	default:
	}
}
