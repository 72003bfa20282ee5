// Package indexes reads lists of indexes such as "1,3-5", as the status and the policies of Jobs have them: strictly what clients
// write, with a cluster's errors, and leniently what jobd has written itself. daemon/job writes them.
package indexes

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Listed is how many indexes of a Job are listed one by one, the first ones. A cluster bounds completions there where it has to
// name indexes; a Job may have 2^31.
const Listed = 100_000

// Interval is a range of indexes, both ends included.
type Interval struct{ First, Last int32 }

// Parse reads a list such as "1,3-5,7", whose indexes have to be in ascending order and below completions. It
// returns nothing with an error. The texts of its errors are a cluster's.
func Parse(list string, completions int32) ([]Interval, error) {
	if list == "" {
		return nil, nil
	}
	var out []Interval
	for part := range strings.SplitSeq(list, ",") {
		ends := strings.Split(part, "-")
		if len(ends) > 2 {
			return nil, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", part)
		}
		var at [2]int32
		for i, end := range ends {
			n, err := strconv.ParseInt(end, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("cannot convert string to integer for index: %q", end)
			}
			if int32(n) >= completions {
				return nil, fmt.Errorf("too large index: %q", end)
			}
			at[i] = int32(n)
		}
		if len(out) > 0 && out[len(out)-1].Last >= at[0] {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", out[len(out)-1].Last, at[0])
		}
		if len(ends) == 1 {
			at[1] = at[0]
		} else if at[0] >= at[1] {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", at[0], at[1])
		}
		out = append(out, Interval{at[0], at[1]})
	}
	return out, nil
}

// Has reports whether an index is in a list.
func Has(intervals []Interval, index int32) bool {
	i := sort.Search(len(intervals), func(i int) bool { return intervals[i].Last >= index })
	return i < len(intervals) && intervals[i].First <= index
}

func Count(intervals []Interval) int64 {
	n := int64(0)
	for _, i := range intervals {
		n += int64(i.Last) - int64(i.First) + 1
	}
	return n
}

// Others returns the indexes below completions that are in neither of two lists, which have none in common.
func Others(completions int32, a, b []Interval) (left []Interval) {
	next := int32(0)
	for len(a) > 0 || len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].First < a[0].First {
			a, b = b, a
		}
		if next < a[0].First {
			left = append(left, Interval{next, a[0].First - 1})
		}
		next, a = a[0].Last+1, a[1:]
	}
	if next < completions {
		left = append(left, Interval{next, completions - 1})
	}
	return left
}

// Text writes a list as the status of a Job has it: "1,3,4,7-9".
func Text(intervals []Interval) string {
	var s []byte
	for _, i := range intervals {
		s = AppendRun(s, i.First, i.Last)
	}
	return string(s)
}

// AppendRun appends indexes that follow each other to such a list: two of them are not written as a range.
func AppendRun(s []byte, first, last int32) []byte {
	if len(s) > 0 {
		s = append(s, ',')
	}
	s = strconv.AppendInt(s, int64(first), 10)
	switch {
	case last == first:
		return s
	case last == first+1:
		s = append(s, ',')
	default:
		s = append(s, '-')
	}
	return strconv.AppendInt(s, int64(last), 10)
}

// FirstCommon returns the lowest index that is in both lists.
func FirstCommon(a, b []Interval) (int32, bool) {
	for len(a) > 0 && len(b) > 0 {
		if low := max(a[0].First, b[0].First); low <= min(a[0].Last, b[0].Last) {
			return low, true
		}
		if a[0].Last < b[0].Last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}

// EachRun calls do with each run of consecutive indexes in a list. What is malformed is left out.
func EachRun(s string, do func(first, last int32)) {
	for len(s) > 0 {
		var first, last int32
		first, last, s = NextRun(s)
		if first >= 0 && first <= last {
			do(first, last)
		}
	}
}

// NextRun parses "3" or "3-5" up to a comma; first is -1 if it is neither.
func NextRun(s string) (first, last int32, rest string) {
	n := 0
	number := func() int32 {
		start, v := n, int64(0)
		for n < len(s) && s[n] >= '0' && s[n] <= '9' && v <= 1<<31 {
			v = v*10 + int64(s[n]-'0')
			n++
		}
		if n == start || v >= 1<<31 {
			return -1
		}
		return int32(v)
	}
	first = number()
	last = first
	if n < len(s) && s[n] == '-' {
		n++
		last = number()
	}
	if n < len(s) && s[n] != ',' {
		first = -1
	}
	for n < len(s) && s[n] != ',' {
		n++
	}
	return first, last, s[min(n+1, len(s)):]
}
