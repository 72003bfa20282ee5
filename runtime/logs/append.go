package logs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"time"
)

// End returns the time of the last line of a log, and how many of its last lines have that time; none if there is no log.
func End(path string) (at time.Time, lines int, err error) {
	err = LastLines(path, Options{}, func(t time.Time) bool {
		if lines > 0 && !t.Equal(at) {
			return false
		}
		at, lines = t, lines+1
		return true
	})
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, 0, nil
	}
	return at, lines, err
}

// mostAtOnce is how many bytes of records are written at once, so that a log is rotated in time.
const mostAtOnce = 64 << 10

// Append appends lines to a log of which another server has given the times: "TIME TEXT". A line without a time has that of the one before,
// the first one at. Which stream they were written to is not known.
func Append(path string, limit Limit, lines []byte, at time.Time) error {
	log, err := OpenFile(path, limit)
	if err != nil {
		return err
	}
	defer log.Close()
	var records []byte
	if isTorn(path) { // by a crash
		records = append(records, '\n')
	}
	flush := func() error {
		_, err := log.Write(records)
		records = records[:0]
		return err
	}
	for len(lines) > 0 {
		line, rest, ends := bytes.Cut(lines, []byte{'\n'})
		lines = rest
		stamp, content, cut := bytes.Cut(line, []byte{' '})
		if stamped, err := time.Parse(timeRead, string(stamp)); err == nil && cut {
			at, line = stamped, content
		}
		for first := true; first || len(line) > 0; first = false {
			piece := line[:min(len(line), maxRecord)]
			line = line[len(piece):]
			tag := " F "
			if len(line) > 0 || !ends {
				tag = " P "
			}
			records = at.UTC().AppendFormat(records, timeWritten)
			records = append(append(append(append(records, " "+string(Stdout)...), tag...), piece...), '\n')
			if len(records) >= mostAtOnce {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// isTorn reports whether the last write of a log stopped within a record.
func isTorn(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}
