package worker

import corev1 "k8s.io/api/core/v1"

// tally counts the equal answers to one probe that came in a row.
type tally struct {
	ok bool
	n  int32
}

// fold counts an answer, and reports whether it completes the row that the probe's threshold asks for.
func (t *tally) fold(p *corev1.Probe, ok bool) (verdict bool) {
	if t.n == 0 || t.ok != ok {
		*t = tally{ok: ok}
	}
	t.n++
	threshold := p.FailureThreshold
	if ok {
		threshold = p.SuccessThreshold
	}
	return t.n == max(threshold, 1)
}
