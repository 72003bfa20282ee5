package logs

import (
	"context"
	"io"
)

// turnLines is how many lines a reader looks at in one turn, some hundred microseconds: a log may have a million of which none is wanted,
// and its readers may be thousands.
const turnLines = 1024

// turns are those of one reader, who has none while it waits for others: for what is written, or for whom it writes to.
type turns struct {
	ctx  context.Context
	take func(context.Context) (over func(), err error) // nil: it is always its turn
	over func()                                         // nil while it is not
}

// next waits for the next turn, after the current one.
func (t *turns) next() (err error) {
	t.end()
	if t.take != nil {
		t.over, err = t.take(t.ctx)
	}
	return err
}

// line is called for each line, with how many were looked at before.
func (t *turns) line(n int) error {
	if n%turnLines == 0 {
		return t.next()
	}
	return nil
}

func (t *turns) end() {
	if t.over != nil {
		t.over()
		t.over = nil
	}
}

// outside is a writer that is written to in nobody's turn: it may take as long as its reader likes.
type outside struct {
	io.Writer
	turns *turns
}

func (o outside) Write(b []byte) (int, error) {
	o.turns.end()
	return o.Writer.Write(b)
}
