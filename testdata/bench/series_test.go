package main

import "testing"

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		values   series
		from, to float64
	}{
		{series{3}, 3, 3},
		{series{5, 1, 3, 2, 4}, 1, 5},
		{series{6, 5, 1, 3, 2, 4}, 1, 6}, // 1/32 is outside
		{series{9, 8, 7, 6, 5, 4, 3, 2, 1}, 2, 8},
		{series{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 3, 10},
	} {
		if from, to := c.values.interval(); from != c.from || to != c.to {
			t.Errorf("%v: %v to %v", c.values, from, to)
		}
	}
	if !(series{95, 100, 104}).settled() || (series{95, 100, 106}).settled() {
		t.Error("settled is not within a tenth of the median")
	}
}
