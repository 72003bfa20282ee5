// Package logs writes and reads the log files of containers in the format that the CRI defines:
//
//	2026-01-02T15:04:05.000000000Z stdout F text
//
// F ends a line; P is a part of a line, which continues in the next record of the same stream.
//
// Lines of output and requests for logs (with tail, since, follow) come in; files and the selected lines go out. A
// Writer alone writes a log and rotates it. Readers touch nothing, and follow a log with inotify while it is written
// and rotated.
package logs

import (
	"bytes"
	"errors"
	"time"
)

// Stream is where a container wrote something.
type Stream string

const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

const (
	// maxRecord is how much of a line goes into one record; longer ones are split.
	maxRecord = 16 << 10

	timeWritten = "2006-01-02T15:04:05.000000000Z07:00"
	timeRead    = "2006-01-02T15:04:05.999999999Z07:00"
)

// record is one line of a log file.
type record struct {
	time    time.Time
	stream  Stream
	partial bool
	text    []byte // without the newline, part of what was parsed
}

var errNotARecord = errors.New("not a record of a container's log")

// parse reads a record from a line, whose newline may be missing or there.
func parse(line []byte) (record, error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	stamp, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return record{}, errNotARecord
	}
	at, err := time.Parse(timeRead, string(stamp))
	if err != nil {
		return record{}, errNotARecord
	}
	stream, tag, text, err := cutTags(rest)
	if err != nil {
		return record{}, err
	}
	return record{time: at, stream: stream, partial: tag == 'P', text: text}, nil
}

// cutTags takes apart what follows a record's time. Tags may be joined by colons; only the first one matters here.
func cutTags(rest []byte) (stream Stream, tag byte, text []byte, err error) {
	name, rest, ok := bytes.Cut(rest, []byte{' '})
	switch {
	case !ok:
		return "", 0, nil, errNotARecord
	case string(name) == string(Stdout):
		stream = Stdout
	case string(name) == string(Stderr):
		stream = Stderr
	default:
		return "", 0, nil, errNotARecord
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return "", 0, nil, errNotARecord
	}
	first, _, _ := bytes.Cut(tags, []byte{':'})
	if len(first) == 1 && first[0] == 'P' {
		return stream, 'P', text, nil
	}
	return stream, 'F', text, nil
}
