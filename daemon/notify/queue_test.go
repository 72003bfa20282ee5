package notify

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	for rule, c := range map[string]struct {
		next  time.Time
		asked time.Duration
		want  bool
	}{
		"at once":               {time.Time{}, 0, true},
		"now":                   {now, 0, true},
		"in a while":            {now.Add(longestRetry), 0, false},
		"the clock is set back": {now.Add(24 * time.Hour), 0, true},
		"as long as was asked":  {now.Add(longestAsked), longestAsked, false},
		"longer than was asked": {now.Add(longestAsked + time.Second), longestAsked, true},
		"asked for a moment":    {now.Add(longestRetry), time.Second, false},
	} {
		if got := Due(c.next, c.asked, now); got != c.want {
			t.Errorf("%s: %v", rule, got)
		}
		key, again := Choose([]Waiting{{Key: "k", Next: c.next, Asked: c.asked}}, now)
		if (key == "k") != c.want || again.IsZero() != c.want {
			t.Errorf("%s: %q, %v", rule, key, again)
		}
	}
}

// A notice is given up when it is old, and was tried for an hour since the machine was on.
func TestGivenUp(t *testing.T) {
	start := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	for rule, c := range map[string]struct {
		after []time.Duration // since the notice
		asked time.Duration
		lost  bool // at the last of them
	}{
		"the first attempt, after a week off": {[]time.Duration{168 * time.Hour}, 0, false},
		"tried before the machine was off":    {[]time.Duration{time.Hour, 168 * time.Hour}, 0, false},
		"tried for an hour since": {[]time.Duration{
			time.Hour, 168 * time.Hour, 168*time.Hour + 25*time.Minute, 168*time.Hour + 45*time.Minute, 169 * time.Hour,
		}, 0, true},
		"tried for an hour, and new":              {[]time.Duration{0, 25 * time.Minute, 45 * time.Minute, time.Hour}, 0, false},
		"asked to be left alone, again and again": {[]time.Duration{70 * time.Hour, 71 * time.Hour, 72 * time.Hour}, 30 * 24 * time.Hour, true},
	} {
		p, trying, lost := Pending{Notice: Notice{At: start}}, Trying{}, false
		for _, after := range c.after {
			now := start.Add(after)
			trying = trying.Failed(now)
			p, lost = p.Failed(errors.New("no route"), c.asked, trying, now)
		}
		if lost != c.lost {
			t.Errorf("%s: lost is %v", rule, lost)
		}
	}
}

// However many runs a service misses, it is told of a start and then of the end of the same run, or of an end and the start after it.
func TestPingsReplaceOthers(t *testing.T) {
	for _, c := range []struct{ written, left string }{ // s1 is the start of run 1, e1 its end
		{"s1 e1", "s1 e1"},
		{"s1 e1 s2", "e1 s2"},
		{"s1 e1 s2 e2", "s2 e2"},
		{"s1 e1 s2 e2 s3 e3 s4", "e3 s4"},
		{"s1 s2 e1", "e1"}, // at the same time: of 2 an end comes
		{"s1 s2 e1 e2", "e2"},
		{"s1 s2 e2 e1", "e1"},
		{"e1 e2", "e2"},
	} {
		var left []string
		ping := func(word string) Ping { return Ping{Run: word[1:], Start: word[0] == 's'} }
		for word := range strings.FieldsSeq(c.written) {
			var kept []string
			for _, before := range left {
				if !ping(word).Replaces(ping(before)) {
					kept = append(kept, before)
				}
			}
			left = append(kept, word)
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%s: %s wait, want %s", c.written, got, c.left)
		}
	}
}

// The commonest mistake of a template is refused when it is read, not when it is sent.
func TestTemplatesThatMakeNoJSON(t *testing.T) {
	for body, c := range map[string]struct {
		kind string
		ok   bool
	}{
		`{"text": "{{.Said}}"}`:                           {"", false},
		`{"text": "{{.Message}}"}`:                        {"application/vnd.x+json; charset=utf-8", false},
		`{"text": {{json .Said}}}`:                        {"", true},
		`{"text": {{json .Subject}}, "at": {{json .At}}}`: {"application/json", true},
		`{{.Said}}`: {"text/plain", true},
	} {
		err := Receivers{"a": {Webhook: &Webhook{URL: "http://a", Body: body, ContentType: c.kind}}}.Check()
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "{{json .Said}}") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A name with dots is a slug of its own.
func TestPingOfANameWithDots(t *testing.T) {
	n := Notice{Object: Object{Kind: "Job", Namespace: "team", Name: "a.b-c"}, Result: "Failed"}
	if got, err := n.Ping("http://h/k/{namespace}_{name}?create=1"); err != nil || got != "http://h/k/team_a_b-c/fail?create=1" {
		t.Errorf("%s: %v", got, err)
	}
}
