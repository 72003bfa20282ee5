package main

import (
	"fmt"
	"math"
	"slices"
)

// series is a figure of each round.
type series []float64

// interval returns where the median lies with a confidence of 95 %, by the ranks of the values, whatever their distribution.
// Of less than six values it is from the least to the greatest.
func (s series) interval() (from, to float64) {
	sorted := slices.Sorted(slices.Values(s))
	n, outside, rank := len(sorted), 0.0, 0
	for {
		// The chance that the median is below, or above, all but rank values.
		outside += math.Exp(logChoose(n, rank) - float64(n)*math.Ln2)
		if 2*outside > 0.05 {
			break
		}
		rank++
	}
	rank = max(rank, 1)
	return sorted[rank-1], sorted[n-rank]
}

func logChoose(n, k int) float64 {
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return lgamma(n) - lgamma(k) - lgamma(n-k)
}

// settled reports whether the median is known to 10 %.
func (s series) settled() bool {
	from, to := s.interval()
	return to-from <= 0.1*median(s)
}

// cell writes the median, with the interval that it lies in.
func (s series) cell(format string) string {
	if len(s) == 0 {
		return "-"
	}
	from, to := s.interval()
	f := func(v float64) string { return fmt.Sprintf(format, v) }
	if f(from) == f(to) {
		return f(median(s))
	}
	return fmt.Sprintf("%s (%s-%s)", f(median(s)), f(from), f(to))
}

// per returns the ratio to another figure in each round: what slows a whole round down cancels out.
func (s series) per(other series) series {
	ratios := make(series, min(len(s), len(other)))
	for i := range ratios {
		ratios[i] = s[i] / other[i]
	}
	return ratios
}
