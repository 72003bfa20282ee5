package submit

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/cmd/internal/progress"
)

// fullDisk takes nothing.
type fullDisk struct{ err error }

func (f fullDisk) Write([]byte) (int, error) { return 0, f.err }

// Whoever reads only the exit code notices that the logs are not all there.
func TestLogsThatCannotBeWrittenAreAnError(t *testing.T) {
	displays := map[string]func(out, errOut io.Writer) progress.Display{
		"plain": func(out, errOut io.Writer) progress.Display { return progress.NewPlain(nil, out, errOut, false) },
		"quiet": func(out, errOut io.Writer) progress.Display { return progress.NewQuiet(nil, out, errOut, false) },
		"json":  func(out, _ io.Writer) progress.Display { return progress.NewJSON(out) },
		"CI": func(out, errOut io.Writer) progress.Display {
			return progress.NewGroups(progress.GitHub, nil, out, errOut)
		},
	}
	for form, display := range displays {
		for name, c := range map[string]struct {
			err        error
			code, want int
		}{
			"of a Job that is complete":             {syscall.ENOSPC, 0, ExitCannot},
			"of a Job that has failed":              {syscall.ENOSPC, 3, 3},
			"but not if nobody reads them any more": {syscall.EPIPE, 0, 0},
		} {
			var said bytes.Buffer
			d := display(fullDisk{c.err}, &said)
			d.Log(progress.Chunk{Source: progress.Source{Pod: "p"}, Text: []byte("line"), Begins: true, Ends: true})
			e := Ended{Job: &batchv1.Job{}, Result: Result{Code: int32(c.code)}}
			code := (&FollowOptions{}).Finish(d, &said, e, nil)
			isSaid := strings.Contains(said.String(), "error: the logs could not be written")
			if code != c.want || isSaid == errors.Is(c.err, syscall.EPIPE) {
				t.Errorf("%s, %s: exit code %d, want %d; said %q", form, name, code, c.want, said.String())
			}
		}
	}
}
