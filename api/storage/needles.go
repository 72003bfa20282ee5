package storage

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// needles are what the stored form of every object contains that a label selector matches, so that a list need not decode
// the others. Labels are stored as they are, since neither protobuf nor JSON escapes a character that one may have.
type needles [][]byte

func needlesOf(s labels.Selector) (n needles) {
	if s == nil {
		return nil
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
			continue // an object without the label matches
		}
		n = append(n, []byte(r.Key()))
		if values := r.ValuesUnsorted(); len(values) == 1 && r.Operator() != selection.GreaterThan && r.Operator() != selection.LessThan {
			n = append(n, []byte(values[0]))
		}
	}
	// Long ones are the rarest, and what is missing decides.
	slices.SortStableFunc(n, func(a, b []byte) int { return len(b) - len(a) })
	return n
}

// in reports whether a stored value contains all of them.
func (n needles) in(value []byte) bool {
	for _, needle := range n {
		if !bytes.Contains(value, needle) {
			return false
		}
	}
	return true
}
