package logs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	check := func(wantAt time.Time, wantLines int, want string) {
		t.Helper()
		at, lines, err := End(path)
		if err != nil || !at.Equal(wantAt) || lines != wantLines {
			t.Errorf("it ends at %v, %d lines: %v; want %v, %d", at, lines, err, wantAt, wantLines)
		}
		var out bytes.Buffer
		if err := Read(t.Context(), path, Options{}, &out, nil); err != nil && want != "" || out.String() != want {
			t.Errorf("%v: got %q, want %q", err, out.String(), want)
		}
	}
	add := func(text string) {
		t.Helper()
		if err := Append(path, Limit{}, []byte(text), now); err != nil {
			t.Fatal(err)
		}
	}
	check(time.Time{}, 0, "")
	add("2026-11-30T11:00:00.000000001Z a b\n2026-11-30T11:00:00.000000002Z \n")
	check(now.Add(-time.Hour+2), 1, "a b\n\n")
	add("2026-11-30T11:00:00.000000002Z c\n2026-11-30T11:00:00.000000002Z d\n")
	check(now.Add(-time.Hour+2), 3, "a b\n\nc\nd\n")
	long := strings.Repeat("x", 3*maxRecord+5)
	add("2026-11-30T12:00:00Z " + long + "\n")
	check(now, 1, "a b\n\nc\nd\n"+long+"\n")
	add("no time here\n")
	check(now, 2, "a b\n\nc\nd\n"+long+"\nno time here\n")
	add("2026-11-30T12:00:01Z end")
	check(now.Add(time.Second), 1, "a b\n\nc\nd\n"+long+"\nno time here\nend")

	// A crash of the machine has torn a record.
	path = filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte("2026-11-30T11:00:00.000000001Z stdout F a\n2026-11-30T11:0"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, lines, err := End(path)
	if err != nil || !at.Equal(now.Add(-time.Hour+1)) || lines != 1 {
		t.Errorf("it ends at %v, %d lines: %v", at, lines, err)
	}
	add("2026-11-30T12:00:00Z b\n")
	if text, _ := os.ReadFile(path); !strings.HasSuffix(string(text), "11:0\n2026-11-30T12:00:00.000000000Z stdout F b\n") {
		t.Errorf("got %q", text)
	}
}
