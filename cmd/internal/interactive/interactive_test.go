package interactive

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/why"
)

// What was printed before an attachment is shown once, however much of it comes by both ways.
func TestEarlierOutputIsShownOnce(t *testing.T) {
	for _, c := range []struct{ name, before, held, after, want string }{
		{"nothing came yet", "one\n$ ", "", "two\n", "one\n$ two\n"},
		{"all came by both", "one\n$ ", "one\n$ ", "two\n", "one\n$ two\n"},
		{"some came by both", "one\ntwo\n", "two\nthree\n", "four", "one\ntwo\nthree\nfour"},
		{"none came by both", "one\n", "two\n", "", "one\ntwo\n"},
		{"no log", "", "two\n", "three\n", "two\nthree\n"},
		{"the log is ahead", "one\ntwo\n", "one\n", "", "one\ntwo\none\n"}, // not the end of the log: it is something new
	} {
		var out bytes.Buffer
		j := &joiner{to: &out, first: make(chan struct{})}
		if c.held != "" {
			if _, err := io.WriteString(j, c.held); err != nil {
				t.Fatal(err)
			}
			<-j.first
		}
		if out.Len() > 0 {
			t.Errorf("%s: shown too early: %q", c.name, out.String())
		}
		j.join([]byte(c.before))
		_, _ = io.WriteString(j, c.after)
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, out.String(), c.want)
		}
	}
	var out bytes.Buffer
	j := &joiner{to: &out, first: make(chan struct{})}
	if _, err := j.Write(make([]byte, maxHeld+1)); err != nil || out.Len() != maxHeld+1 {
		t.Errorf("what is held back has no bound: %v, %d bytes shown", err, out.Len())
	}
	j.join([]byte("late"))
	if out.Len() != maxHeld+1 {
		t.Error("what was printed before comes behind what was printed after it")
	}
}

func TestKeyboard(t *testing.T) {
	in, typed := io.Pipe()
	k := newKeyboard(in, true, DetachKeys)
	types := func(text string) {
		if _, err := io.WriteString(typed, text); err != nil {
			t.Error(err)
		}
	}
	read := func(keys *keys, n int) string {
		b := make([]byte, n)
		if _, err := io.ReadFull(keys, b); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := k.begin()
	go types("hello")
	if got := read(first, 5); got != "hello" {
		t.Errorf("%q", got)
	}
	first.end()
	first.end()
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("an attachment that has ended reads on: %v", err)
	}
	second := k.begin() // what is typed now is for the next one
	go types("world")
	if got := read(second, 5); got != "world" {
		t.Errorf("%q", got)
	}
	go types("\x10\x11")
	<-k.left
	select {
	case <-k.hangup:
		t.Error("leaving is a hang-up")
	default:
	}

	gone := newKeyboard(strings.NewReader("x"), true, DetachKeys)
	if got := read(gone.begin(), 1); got != "x" {
		t.Errorf("%q", got)
	}
	<-gone.hangup

	piped := newKeyboard(strings.NewReader("a\x10\x11b"), false, DetachKeys).begin()
	if all, err := io.ReadAll(piped); err != nil || string(all) != "a\x10\x11b" {
		t.Errorf("piped: %q %v", all, err)
	}
}

func TestDetachKeys(t *testing.T) {
	for keys, good := range map[string]bool{DetachKeys: true, "ctrl-a,d": true, "ctrl-nope": false} {
		if err := CheckKeys(keys); (err == nil) != good {
			t.Errorf("%s: %v", keys, err)
		}
	}
}

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		cause why.Cause
		want  string
	}{
		{why.Cause{Brief: "suspended."}, "suspended"},
		{why.Cause{Brief: "no room for 2 CPUs (1 free)", Details: map[string]string{"place": "2", "waiting": "3"}},
			"no room for 2 CPUs (1 free); place 2 of 3 in the queue"},
		{why.Cause{Brief: "\x1b[2Jx", Details: map[string]string{"place": "0"}}, "x"},
	} {
		if got := Waits(&c.cause); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestStatusLines(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	s.status("waits")
	s.status("waits")
	s.status("waits longer")
	s.say("over\n")
	if got := out.String(); got != "waits\nwaits longer\nover\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	s = &screen{to: &out, terminal: true}
	s.status("waits")
	s.say("over")
	if got := out.String(); got != "waits\r\x1b[2Kover\r\n" {
		t.Errorf("on a terminal: %q", got)
	}
}
