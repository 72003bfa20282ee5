package submit

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Patience begins with the first time that the server does not answer, and ends once it answers.
func TestContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c contact
		var said []string
		notice := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		over := func() bool {
			select {
			case <-c.over:
				return true
			default:
				return false
			}
		}
		refused := errors.New("refused")
		c.take(nil, notice)
		c.take(refused, notice)
		time.Sleep(Patience - time.Second)
		c.take(errors.New("still refused"), notice)
		c.take(nil, notice)
		time.Sleep(time.Hour)
		if synctest.Wait(); over() {
			t.Error("patience with a server that answers is over")
		}
		c.take(refused, notice)
		time.Sleep(Patience)
		if synctest.Wait(); !over() {
			t.Error("patience is not over")
		}
		lost := "the server does not answer, trying again: refused"
		if want := []string{lost, "the server answers again", lost}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}
