package job

// over tells whether a pod counts as failed: with podReplacementPolicy Failed (podFailurePolicy implies it) when its
// phase says so, else already when somebody deletes it.
func (r *Record) over(p *pod) bool {
	return p.phase == failedPhase || p.is(isDeleting) && p.phase != succeededPhase && !r.spec.replaceFailed
}

// placeholders is the number of terminating pods that keep their place until they have ended.
func (r *Record) placeholders() int32 {
	if r.spec.replaceFailed {
		return r.terminating
	}
	return 0
}
