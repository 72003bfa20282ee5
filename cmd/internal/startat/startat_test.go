package startat

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestForms(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 27, 21, 30, 15, 500, berlin) // a Friday
	type read func(string, time.Time) (time.Time, error)
	for _, c := range []struct {
		by         read
		text, want string // a time, or a part of an error
	}{
		{Parse, "+2h", "2026-11-27T23:30:15+01:00"},
		{Parse, "+1h30m", "2026-11-27T23:00:15+01:00"},
		{Parse, "22:00", "2026-11-27T22:00:00+01:00"},
		{Parse, "21:30", "2026-11-28T21:30:00+01:00"},
		{Parse, "7:05:09", "2026-11-28T07:05:09+01:00"},
		{Parse, "2026-12-01T08:00", "2026-12-01T08:00:00+01:00"},
		{Parse, "2026-12-01 08:00:30", "2026-12-01T08:00:30+01:00"},
		{Parse, "2026-07-01T08:00:00Z", "is past"},
		{Parse, "2027-07-01T08:00:00Z", "2027-07-01T08:00:00Z"},
		{Parse, "2027-07-01T08:00", "2027-07-01T08:00:00+02:00"}, // summer time
		{Parse, "2026-11-27T08:00", "is past: it is 2026-11-27T21:30:15+01:00"},
		{Parse, "2027-03-28T02:30", "02:30:00 does not come at that date"},
		{Parse, "2027-02-30T08:00", "is not a time such as +2h"},
		{Parse, "2099-01-01T08:00", "more than ten years off"},
		{Parse, "+1000000h", "more than ten years off"},
		{Parse, "+1d", "is not + and a duration"},
		{Parse, "+-1h", "is not + and a duration"},
		{Parse, "25:00", "is not a time such as"},
		{Parse, "tonight", "is not a time such as"},
		{Parse, "", "is not a time such as"},
		{Parse, "+0s", "is past"},

		{Slurm, "now", "2026-11-27T21:30:15+01:00"},
		{Slurm, "now+60", "2026-11-27T21:31:15+01:00"},
		{Slurm, "now + 1 hour", "2026-11-27T22:30:15+01:00"},
		{Slurm, "now+2weeks", "2026-12-11T21:30:15+01:00"},
		{Slurm, "16:00", "2026-11-28T16:00:00+01:00"},
		{Slurm, "10:15 PM", "2026-11-27T22:15:00+01:00"},
		{Slurm, "teatime", "2026-11-28T16:00:00+01:00"},
		{Slurm, "midnight", "2026-11-28T00:00:00+01:00"},
		{Slurm, "tomorrow", "2026-11-28T00:00:00+01:00"},
		{Slurm, "2026-12-01", "2026-12-01T00:00:00+01:00"},
		{Slurm, "2010-01-20T12:34:00", "2010-01-20T12:34:00+01:00"}, // it starts at once
		{Slurm, "120126", "2026-12-01T00:00:00+01:00"},
		{Slurm, "12/01/26", "2026-12-01T00:00:00+01:00"},
		{Slurm, "12/01", "2026-12-01T00:00:00+01:00"},
		{Slurm, "2/1", "2027-02-01T00:00:00+01:00"},
		{Slurm, "02/29", "is not a time such as 16:00"},
		{Slurm, "now+999999999weeks", "more than ten years off"},
		{Slurm, "now-1hour", "is not a time such as 16:00"},
		{Slurm, "friday", "is not a time such as 16:00"},

		{PBS, "2200", "2026-11-27T22:00:00+01:00"},
		{PBS, "0700.30", "2026-11-28T07:00:30+01:00"},
		{PBS, "010700", "2026-12-01T07:00:00+01:00"},
		{PBS, "310700", "2026-12-31T07:00:00+01:00"},
		{PBS, "02010700", "2027-02-01T07:00:00+01:00"},
		{PBS, "2612010700", "2026-12-01T07:00:00+01:00"},
		{PBS, "202612010700", "2026-12-01T07:00:00+01:00"},
		{PBS, "202602300700", "has no such date"},
		{PBS, "2500", "has no such date"},
		{PBS, "22:00", "is not a time of the form"},
		{PBS, "700", "is not a time of the form"},
	} {
		at, err := c.by(c.text, now)
		got := at.Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

// Whatever the text, there is an error or a time in whole seconds that is not farther than the bound; of a flag it is not past.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[+nowT0-9:/. -]{0,20}`)).Draw(t, "text")
		now := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "now"), 5).UTC()
		for i, by := range []func(string, time.Time) (time.Time, error){Parse, Slurm, PBS} {
			at, err := by(text, now)
			if err != nil {
				continue
			}
			if at.Nanosecond() != 0 || at.Sub(now) > farthest || i == 0 && !at.After(now) {
				t.Errorf("%q: %v", text, at)
			}
		}
	})
}
