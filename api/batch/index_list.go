package batch

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// interval is a range of indexes, both ends included.
type interval struct{ first, last int32 }

// parseIndexes reads a list such as "1,3-5,7", whose indexes have to be in ascending order and below completions. It
// returns nothing with an error. The texts of its errors are a cluster's.
func parseIndexes(list string, completions int32) ([]interval, error) {
	if list == "" {
		return nil, nil
	}
	var out []interval
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
		if len(out) > 0 && out[len(out)-1].last >= at[0] {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", out[len(out)-1].last, at[0])
		}
		if len(ends) == 1 {
			at[1] = at[0]
		} else if at[0] >= at[1] {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", at[0], at[1])
		}
		out = append(out, interval{at[0], at[1]})
	}
	return out, nil
}

// Indexes returns the indexes of a list in the status of a Job with so many completions; none if it is no such list.
func Indexes(list string, completions int32) iter.Seq[int32] {
	intervals, _ := parseIndexes(list, completions)
	return func(yield func(int32) bool) {
		for _, i := range intervals {
			for n := i.first; n <= i.last; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

func size(intervals []interval) int64 {
	n := int64(0)
	for _, i := range intervals {
		n += int64(i.last) - int64(i.first) + 1
	}
	return n
}

// firstCommon returns the lowest index that is in both lists.
func firstCommon(a, b []interval) (int32, bool) {
	for len(a) > 0 && len(b) > 0 {
		if low := max(a[0].first, b[0].first); low <= min(a[0].last, b[0].last) {
			return low, true
		}
		if a[0].last < b[0].last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}
