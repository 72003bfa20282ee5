package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/internal/quantity"
)

// Rule says how the containers of some pods end.
type Rule struct {
	// Which starts it is for; nil stands for all.
	index, pod, start, restart, attempt *span
	container, job, group               string
	// chance is the probability with which it applies to one of them.
	chance float64

	exit     int
	oom      bool
	needs    int64         // bytes of memory
	from, to time.Duration // how long they run, evenly distributed
}

// span is a number or a run of them.
type span struct{ first, last int }

func (s *span) has(n int) bool { return s == nil || n >= s.first && n <= s.last }

// Default is how containers end for which there is no rule.
var Default = End{After: time.Second}

// ParseRule parses "index=3 start=1: exit=1 after=2s". Before the colon it says which starts of containers it is for:
//
//	index=N or N-M      the completion index
//	pod=N or N-M        the pods in the order of their creation, from 1
//	start=N or N-M      the starts of an index, from 1; without indexes those of a container in its pod
//	restart=N or N-M    the restarts of a container in its pod; the first start is 0
//	container=NAME
//	job=NAME            where several Jobs are played
//	group=NAME          a group of a JobSet
//	attempt=N or N-M    the attempts of a JobSet, from 1
//	chance=P            only with this probability, from 0 to 1
//
// Nothing, or *, is all. After it, exit=CODE (default 0) and after=DURATION or DURATION-DURATION (default 1s) say how they
// end. With oom they are killed for want of memory, with needs=QUANTITY if their limit of memory is lower than that.
func ParseRule(text string) (Rule, error) {
	r := Rule{chance: 1, from: Default.After, to: Default.After}
	which, how, ok := strings.Cut(text, ":")
	if !ok {
		return r, fmt.Errorf("%q lacks a colon, as in 'index=3: exit=1 after=2s'", text)
	}
	for _, field := range fields(which) {
		if field == "*" {
			continue
		}
		name, value, _ := strings.Cut(field, "=")
		var err error
		switch name {
		case "index":
			r.index, err = parseSpan(value, 0)
		case "pod":
			r.pod, err = parseSpan(value, 1)
		case "start":
			r.start, err = parseSpan(value, 1)
		case "restart":
			r.restart, err = parseSpan(value, 0)
		case "container":
			if r.container = value; value == "" {
				err = fmt.Errorf("names no container")
			}
		case "job":
			if r.job = value; value == "" {
				err = fmt.Errorf("names no Job")
			}
		case "group":
			if r.group = value; value == "" {
				err = fmt.Errorf("names no group of a JobSet")
			}
		case "attempt":
			r.attempt, err = parseSpan(value, 1)
		case "chance":
			if r.chance, err = strconv.ParseFloat(value, 64); err != nil || !(r.chance >= 0 && r.chance <= 1) {
				err = fmt.Errorf("%q is not a probability from 0 to 1", value)
			}
		default:
			err = fmt.Errorf("before the colon there may be index, pod, start, restart, container, job, group, attempt and chance")
		}
		if err != nil {
			return r, fmt.Errorf("%q in %q: %w", field, text, err)
		}
	}
	outcome := fields(how)
	if len(outcome) == 0 {
		return r, fmt.Errorf("%q says nothing after the colon: exit=CODE, after=DURATION", text)
	}
	for _, field := range outcome {
		name, value, _ := strings.Cut(field, "=")
		var err error
		switch name {
		case "exit":
			if r.exit, err = strconv.Atoi(value); err != nil || r.exit < 0 || r.exit > 255 {
				err = fmt.Errorf("%q is not an exit code from 0 to 255", value)
			}
		case "oom":
			if r.oom = true; value != "" {
				err = fmt.Errorf("oom has no value")
			}
		case "needs":
			var q resource.Quantity
			if q, err = quantity.Parse(value); err != nil || q.Sign() <= 0 {
				err = fmt.Errorf("%q is not an amount of memory such as 100Mi", value)
			}
			r.needs = q.Value()
		case "after":
			r.from, r.to, err = parseDurations(value)
		default:
			err = fmt.Errorf("after the colon there may be exit, after, oom and needs")
		}
		if err != nil {
			return r, fmt.Errorf("%q in %q: %w", field, text, err)
		}
	}
	return r, nil
}

func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
}

func parseSpan(s string, least int) (*span, error) {
	first, last, run := strings.Cut(s, "-")
	if !run {
		last = first
	}
	a, err := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || a < least || b < a {
		return nil, fmt.Errorf("%q is neither a number from %d nor a run such as %d-%d", s, least, least, least+3)
	}
	return &span{a, b}, nil
}

func parseDurations(s string) (from, to time.Duration, err error) {
	first, last, run := strings.Cut(s, "-")
	if !run {
		last = first
	}
	from, err = time.ParseDuration(first)
	if err == nil {
		to, err = time.ParseDuration(last)
	}
	if err != nil || from < 0 || to < from {
		return 0, 0, fmt.Errorf("%q is neither a duration such as 1.5s nor a range such as 2s-10s", s)
	}
	return from, to, nil
}

// Rules returns a function for Config.Behave: the first rule decides that is for a start and whose chance comes, and
// otherwise what other says. The seed determines all that is left to chance.
func Rules(rules []Rule, seed uint64, other func(Start) End) func(Start) End {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(s Start) End {
		for i := range rules {
			r := &rules[i]
			if !r.index.has(s.Index) || !r.pod.has(s.Pod) || !r.start.has(s.Number) || !r.restart.has(s.Restart) ||
				!r.attempt.has(s.Attempt) || r.container != "" && r.container != s.Container || r.job != "" && r.job != s.Job ||
				r.group != "" && r.group != s.Group || r.chance < 1 && random.Float64() >= r.chance {
				continue
			}
			end := End{After: r.from, Exit: r.exit, OOM: r.oom, Needs: r.needs}
			if r.to > r.from {
				end.After += time.Duration(random.Int64N(int64(r.to - r.from)))
			}
			return end
		}
		return other(s)
	}
}
