package job

// over reports whether a pod counts as failed. With podReplacementPolicy Failed, which podFailurePolicy implies, it
// does once its phase is Failed; otherwise already when it is being deleted.
func (r *Record) over(p *pod) bool {
	return p.phase == failedPhase || p.is(isDeleting) && p.phase != succeededPhase && !r.spec.replaceFailed
}

// placeholders returns the number of terminating pods that are not replaced before they have ended.
func (r *Record) placeholders() int32 {
	if r.spec.replaceFailed {
		return r.terminating
	}
	return 0
}
