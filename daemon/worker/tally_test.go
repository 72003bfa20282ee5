package worker

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTally(t *testing.T) {
	p := &corev1.Probe{SuccessThreshold: 2, FailureThreshold: 3}
	var counted tally
	var verdicts []bool
	for _, answer := range "ooo..o....o" {
		verdicts = append(verdicts, counted.fold(p, answer == 'o'))
	}
	if want := []bool{false, true, false, false, false, false, false, false, true, false, false}; !slices.Equal(verdicts, want) {
		t.Errorf("got %v", verdicts)
	}
}
