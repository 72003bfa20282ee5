package batchscript

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jobd/jobd/api/batch"
)

// number reads a number from 1 on.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number from 1 on", text)
	}
	return n, nil
}

var (
	minutes  = regexp.MustCompile(`^(\d{1,9})(?::(\d{1,9}))?$`)
	hours    = regexp.MustCompile(`^(\d{1,9}):(\d{1,9}):(\d{1,9})$`)
	withDays = regexp.MustCompile(`^(\d{1,9})-(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?$`)
)

// maxTime is more than anything runs, and can be counted in seconds of 32 bits.
const maxTime = 60 * 365 * 24 * time.Hour

// limit reads a time limit of Slurm: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on; 0 for none.
func limit(text string) (time.Duration, error) {
	switch strings.ToUpper(text) {
	case "0", "INFINITE", "UNLIMITED":
		return 0, nil
	}
	var d, h, m, s string
	if found := minutes.FindStringSubmatch(text); found != nil {
		m, s = found[1], found[2]
	} else if found := hours.FindStringSubmatch(text); found != nil {
		h, m, s = found[1], found[2], found[3]
	} else if found := withDays.FindStringSubmatch(text); found != nil {
		d, h, m, s = found[1], found[2], found[3], found[4]
	} else {
		return 0, fmt.Errorf("%q is not a time such as 30, 30:00, 8:00:00, 2-12 or 2-12:00:00", text)
	}
	return total(text, d, h, m, s)
}

// wallTime reads a time limit of PBS: seconds, minutes:seconds, hours:minutes:seconds, and days before them.
func wallTime(text string) (time.Duration, error) {
	parts := strings.Split(text, ":")
	if len(parts) > 4 {
		return 0, fmt.Errorf("%q is not a time such as 08:00:00", text)
	}
	for _, p := range parts {
		if len(p) == 0 || len(p) > 9 || strings.Trim(p, "0123456789") != "" {
			return 0, fmt.Errorf("%q is not a time such as 08:00:00", text)
		}
	}
	parts = append(make([]string, 4-len(parts)), parts...)
	return total(text, parts[0], parts[1], parts[2], parts[3])
}

func total(text, d, h, m, s string) (time.Duration, error) {
	var sum float64
	for _, part := range []struct {
		n    string
		unit time.Duration
	}{{d, 24 * time.Hour}, {h, time.Hour}, {m, time.Minute}, {s, time.Second}} {
		if part.n != "" {
			n, err := strconv.Atoi(part.n)
			if err != nil {
				return 0, err
			}
			sum += float64(n) * float64(part.unit)
		}
	}
	if sum > float64(maxTime) {
		return 0, fmt.Errorf("%q is longer than can be counted", text)
	}
	if sum < float64(time.Second) {
		return 0, fmt.Errorf("%q leaves no time to run", text)
	}
	return time.Duration(sum), nil
}

var amount = regexp.MustCompile(`^(\d{1,15})([A-Za-z]*)$`)

// mebibytes reads an amount of memory, in the unit that an amount without one has, and rounds it up.
func mebibytes(text, unit string) (int64, error) {
	found := amount.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%q is not an amount such as 500M or 4G", text)
	}
	if found[2] != "" {
		unit = found[2]
	}
	bytes, ok := map[string]float64{
		"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "t": 1 << 40, "tb": 1 << 40,
	}[strings.ToLower(unit)]
	if !ok {
		return 0, fmt.Errorf("%q has the unit %q, and units are K, M, G and T", text, unit)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return 0, err
	}
	switch mib := math.Ceil(n * bytes / (1 << 20)); {
	case mib < 1:
		return 0, errors.New("all of the machine's memory cannot be asked for by 0: write how much it is to be")
	case mib > 1<<30:
		return 0, fmt.Errorf("%q is more than any machine has", text)
	default:
		return int64(mib), nil
	}
}

// maxTasks is how many tasks an array may have: more indexes than a Job can run.
const maxTasks = 100_000

// Array is which tasks an array has. Index i of the Job is its i-th task.
type Array struct {
	Text   string // without the limit
	Ranges batch.Array
	Limit  int64 // of tasks that run at a time; 0 for none
}

// Tasks returns how many tasks there are, and the least and the greatest of them.
func (a *Array) Tasks() (n, least, greatest int64) {
	for i, r := range a.Ranges {
		if i == 0 || r.First < least {
			least = r.First
		}
		greatest = max(greatest, r.Last())
	}
	return a.Ranges.Tasks(), least, greatest
}

// array reads the tasks of an array: 0-9, 1-7:2, 1,3,5-9, each with %LIMIT.
func array(text string) (*Array, error) {
	list, most, limited := strings.Cut(text, "%")
	a := &Array{Text: list}
	var err error
	if limited {
		if a.Limit, err = number(most); err != nil {
			return nil, fmt.Errorf("how many run at a time: %w", err)
		}
	}
	if a.Ranges, err = batch.ParseArray(list); err != nil {
		return nil, err
	}
	if a.Ranges.Tasks() > maxTasks {
		return nil, fmt.Errorf("%q has more than %d tasks", text, maxTasks)
	}
	seen := map[int64]bool{}
	for _, r := range a.Ranges {
		for i := range r.Count {
			id := r.First + i*r.Step
			if seen[id] {
				return nil, fmt.Errorf("%q names task %d twice", text, id)
			}
			seen[id] = true
		}
	}
	return a, nil
}

// jobName matches what can name a Job.
var jobName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// how is what a dependency waits for, as jobd.dev/after says it.
var how = map[string]string{"afterok": "ok", "afterany": "any", "afternotok": "failed"}

// dependencies reads TYPE:NAME[:NAME]..., separated by commas.
func dependencies(text string) (needs []Need, err error) {
	if strings.Contains(text, "?") {
		return nil, errors.New("? cannot be followed: all of its Jobs are waited for; submit it when one has ended")
	}
	for part := range strings.SplitSeq(text, ",") {
		kind, names, ok := strings.Cut(part, ":")
		ends, known := how[kind]
		switch {
		case kind == "singleton":
			return nil, errors.New("singleton cannot be followed: let it wait for a Job by its name, as afterany:NAME")
		case kind == "after" || kind == "aftercorr" || kind == "afterburstbuffer" || strings.HasPrefix(kind, "before") || kind == "on":
			return nil, fmt.Errorf("%s cannot be followed: a Job can wait for the end of others, by afterok, afterany or afternotok", kind)
		case !known || !ok:
			return nil, fmt.Errorf("%q is not of the form afterok:NAME, afterany:NAME or afternotok:NAME", part)
		}
		for name := range strings.SplitSeq(names, ":") {
			_, short, slash := strings.Cut(name, "/") // what jobctl submit --detach prints
			if slash {
				name = short
			}
			if !jobName.MatchString(name) {
				return nil, fmt.Errorf("%q does not name a Job of jobd, as jobctl submit --detach prints it", name)
			}
			needs = append(needs, Need{name, ends})
		}
	}
	return needs, nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variables reads the variables that a script is given, NAME or NAME=VALUE, separated by commas.
func variables(text string) (all []string, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(part, "=")
		if !variable.MatchString(name) {
			return nil, fmt.Errorf("%q is not of the form NAME or NAME=VALUE", part)
		}
		all = append(all, part)
	}
	return all, nil
}
